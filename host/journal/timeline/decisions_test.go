package timeline

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// TestDecisions shows what policy has decided about calls, and who has approved them.
func TestDecisions(t *testing.T) {
	ask := func(a *journal.Approval) *journal.Decision {
		return &journal.Decision{Action: string(policy.Ask), Rule: "night\x1b[2J", Approval: a}
	}
	rec := &journal.Record{ID: "019aa0b0-0000-7000-8000-000000000001", Done: true, Duration: time.Second}
	for i, d := range []*journal.Decision{
		nil,
		{Action: string(policy.Deny), Rule: "never"},
		ask(&journal.Approval{ID: "k7m2q", By: "user x at the terminal", Allowed: true, Waited: 90 * time.Second}),
		ask(&journal.Approval{By: "client `t`", Note: "not\nnow"}),
		ask(&journal.Approval{ID: "zz2zz", By: "client `t`", Allowed: true, Remembered: true}),
		ask(&journal.Approval{}),
		{Action: string(policy.Allow), Rule: "reads"},
	} {
		answer := text("x")
		answer.Decision = d
		rec.Calls = append(rec.Calls, call(i+1, "s", "t", `{}`, 0, ms, answer))
	}
	var b bytes.Buffer
	if err := WriteText(&b, rec, TextOptions{Width: 200}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "policy") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := []string{
		`policy   call 2, s.t: denied by the rule "never"`,
		`policy   call 3, s.t: asked for by the rule "night\x1b[2J": allowed by user x at the terminal, approval k7m2q, after 90.0 s`,
		`policy   call 4, s.t: asked for by the rule "night\x1b[2J": denied by client ` + "`t`" + `, after 0.00 ms ("not\nnow")`,
		`policy   call 5, s.t: asked for by the rule "night\x1b[2J": allowed by client ` + "`t`" + ` before, approval zz2zz`,
		`policy   call 6, s.t: asked for by the rule "night\x1b[2J": no decision by a person, after 0.00 ms`,
		`policy   call 7, s.t: allowed by the rule "reads"`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
