package timeline

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
)

// maxDecisions bounds the decisions shown in the head of a run.
const maxDecisions = 20

// decisions returns policy's decisions about calls of a run, with the approvers.
func decisions(t *Timeline) []Fact {
	var all []Fact
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Call == nil || row.Call.Answer.Decision == nil {
			continue
		}
		if len(all) == maxDecisions {
			return append(all, Fact{"policy", "and about more calls (runs show --json has all of them)"})
		}
		all = append(all, Fact{"policy", fmt.Sprintf("call %s, %s: %s", row.Number, row.Label, Decision(row.Call.Answer.Decision))})
	}
	return all
}

// Decision returns policy's decision about a call on one line, with the approver.
func Decision(d *policy.Decision) string {
	var b strings.Builder
	switch {
	case d.Action == policy.Ask:
		b.WriteString("asked for")
	case d.Allowed():
		b.WriteString("allowed")
	default:
		b.WriteString("denied")
	}
	if d.Rule != "" && d.Rule != policy.DefaultRule {
		fmt.Fprintf(&b, " by the rule %q", d.Rule)
	}
	a := d.Approval
	if a == nil {
		return b.String()
	}
	switch {
	case a.By == "":
		b.WriteString(": no decision by a person")
	case a.Allowed:
		b.WriteString(": allowed by " + a.By)
	default:
		b.WriteString(": denied by " + a.By)
	}
	if a.Remembered {
		b.WriteString(" before")
	}
	if a.ID != "" {
		b.WriteString(", approval " + a.ID)
	}
	if !a.Remembered {
		b.WriteString(", after " + Duration(a.Waited))
	}
	if a.Note != "" {
		fmt.Fprintf(&b, " (%q)", a.Note)
	}
	return b.String()
}
