package verify

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal/replay"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
)

// Step is a check.
type Step string

// The steps, in their order.
const (
	Chain     Step = "chain"     // the events are whole
	Kept      Step = "receipt"   // the client's receipt is about this record
	Signature Step = "signature" // the last event is signed with a trusted key
	Continued Step = "continues" // the continued run is the run named by this run
	Execution Step = "execution" // executed again, the run does the same
)

// Check is a passed step.
type Check struct {
	Step Step   `json:"step"`
	Text string `json:"text"`
}

// Report has the findings about a run.
type Report struct {
	Run      string `json:"run"` // id
	Tool     string `json:"tool"`
	Verified bool   `json:"verified"`
	// Failed is the step that failed, and Reason why; "" if the run is verified. Later steps were
	// not done.
	Failed Step   `json:"failed,omitempty"`
	Reason string `json:"reason,omitempty"`

	Checks []Check `json:"checks"`
	Head   string  `json:"head,omitempty"` // digest of the last event
	Events int     `json:"events"`         // of all runs
	Runs   int     `json:"runs"`           // the run itself, and the nested runs
	Key    string  `json:"key,omitempty"`  // id of the signing key
	// Signed is the time of the signature, by the clock of the machine.
	Signed *time.Time `json:"signed,omitempty"`
	Guest  string     `json:"guest,omitempty"` // SHA-256 of the guest of the run
	Here   string     `json:"here,omitempty"`  // SHA-256 of the guest of this program
	// Redacted is set if redacted parts of the record were not compared.
	Redacted bool            `json:"redacted,omitempty"`
	Compared replay.Compared `json:"compared"`
	Fuel     uint64          `json:"fuel,omitempty"`
	Notes    []string        `json:"notes,omitempty"` // of the execution
	// NotProven lists the facts outside of the checks.
	NotProven []string `json:"notProven,omitempty"`
}

func newReport(r *events) *Report {
	return &Report{Run: r.id, Tool: r.list[0].text("tool"), Checks: []Check{}}
}

func (r *Report) check(step Step, text string) { r.Checks = append(r.Checks, Check{step, text}) }

func (r *Report) fail(step Step, err error) *Report {
	r.Failed, r.Reason = step, err.Error()
	return r
}

func (r *Report) chained(t tree) {
	r.Runs = len(t)
	for _, one := range t {
		r.Events += len(one.list)
	}
	own := t[0].list
	r.Head = own[len(own)-1].digest.String()
	text := count(r.Events, "event")
	if len(t) > 1 {
		text += fmt.Sprintf(" of the run and of %s below", count(len(t)-1, "run"))
	}
	r.check(Chain, fmt.Sprintf("%s, each following the previous event; head %s", text, r.Head))
}

func (r *Report) signed(s *seal.Seal) {
	at := s.Time
	r.Key, r.Signed = s.Key, &at
	r.check(Signature, fmt.Sprintf("by the key %s, at %s by the clock of that machine", s.Key, at.Format(time.RFC3339)))
}

func (r *Report) executed(again *replay.Report) {
	c := again.Compared
	text := fmt.Sprintf("the same again with the guest %.12s: %s, %s, outcome %s", r.Guest, count(c.Calls, "call"), count(c.Logs, "log entry"), again.Recorded.Outcome)
	if r.Redacted {
		text = "identical but for redaction: " + text
		r.NotProven = append(r.NotProven, "redacted parts: where the record has ****, any text would have matched, and fuel and memory were not compared")
	} else {
		text += fmt.Sprintf(", %d units of fuel", r.Fuel)
	}
	r.check(Execution, text)
	r.NotProven = append(r.NotProven,
		"the truth of servers' answers and people's decisions: only their record is unchanged",
		"times, and the identity of the client: both are as recorded by the machine",
		"the secrecy of the key, and the absence of other runs")
}

// Text returns the report for people. The text contains text from scripts and servers, and is not
// safe for a terminal.
func (r *Report) Text() string {
	var b strings.Builder
	verdict := "NOT VERIFIED"
	if r.Verified {
		verdict = "verified"
	}
	fmt.Fprintf(&b, "run %s (%s): %s\n", r.Run, r.Tool, verdict)
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "  %-10s %s\n", c.Step, c.Text)
	}
	if r.Failed != "" {
		reason := strings.ReplaceAll(r.Reason, "\n", "\n             ")
		fmt.Fprintf(&b, "  %-10s FAILED: %s\n", r.Failed, reason)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  note       %s\n", n)
	}
	if r.Verified {
		b.WriteString("  not proven:\n")
		for _, n := range r.NotProven {
			fmt.Fprintf(&b, "    - %s\n", n)
		}
	}
	return b.String()
}

// ids lists keys for people.
func ids(keys []seal.PublicKey) string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.ID()
	}
	return strings.Join(list, ", ")
}

func count(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "y"):
		what = strings.TrimSuffix(what, "y") + "ies"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Text returns the result for people, like [Report.Text].
func (r *Result) Text() string {
	var b strings.Builder
	for i := range r.Runs {
		b.WriteString(r.Runs[i].Text())
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "NOT VERIFIED: %s\n", p)
	}
	if r.Others > 0 {
		fmt.Fprintf(&b, "%s in the file are not runs: verify --all checks those\n", count(r.Others, "line"))
	}
	return b.String()
}

// Text returns the report for people, like [Report.Text].
func (r *FolderReport) Text() string {
	var b strings.Builder
	what, verdict := "the journal", "NOT VERIFIED"
	if r.Day != "" {
		what = "the journal of " + r.Day + " and of the two days before and after"
	}
	if r.Verified {
		verdict = "verified: nothing is missing"
	}
	fmt.Fprintf(&b, "%s: %s\n", what, verdict)
	fmt.Fprintf(&b, "  %s and %s in %s\n", count(r.Runs, "run"), count(r.Calls, "call"), count(r.Files, "file"))
	for _, o := range r.Orders {
		fmt.Fprintf(&b, "  order %s: places %d to %d, signed up to %d", o.Chain, o.First, o.Last, o.Signed)
		if n := o.Last - min(o.Last, o.Signed); n > 0 {
			fmt.Fprintf(&b, " (a process with write access can still change the last %d)", n)
		}
		if o.Copied {
			b.WriteString(", copied from another folder")
		}
		b.WriteByte('\n')
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "  FAILED: %s\n", p)
	}
	if r.more > 0 {
		fmt.Fprintf(&b, "  and %s more\n", count(r.more, "problem"))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	if r.Verified {
		b.WriteString("  not proven: records cut off at the end, unless another order, a copy or the receipt of a client names them;\n")
		b.WriteString("  and the events of the runs: mcp-metatool verify RUN executes a run again\n")
	}
	return b.String()
}
