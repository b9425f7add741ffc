package timeline

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Tree is a run with the runs of the saved tools called by the script.
type Tree struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
	// Call is the number of the call in the outer run; 0 for the outermost run.
	Call    int       `json:"call,omitempty"`
	Start   time.Time `json:"start"`
	Took    float64   `json:"duration"` // milliseconds
	Outcome string    `json:"outcome"`  // see journal.Record.OutcomeName
	Message string    `json:"message,omitempty"`
	Calls   int       `json:"calls"` // all calls, including calls of saved tools
	Fuel    uint64    `json:"fuel"`  // the fuel of an outermost run includes inner runs
	Memory  uint64    `json:"memory"`
	// Violations are the violations of the run and of the inner runs; see Violations.
	Violations []string `json:"violations,omitempty"`
	Runs       []Tree   `json:"runs,omitempty"`
}

// TreeOf returns the tree of a run.
func TreeOf(rec *journal.Record) Tree {
	t := Tree{
		ID: rec.ID, Tool: rec.Definition.Name, Start: rec.Start.UTC(), Took: float64(rec.Duration.Microseconds()) / 1000,
		Outcome: rec.OutcomeName(), Message: rec.Outcome.Message, Calls: len(rec.Calls),
		Fuel: rec.Outcome.Fuel, Memory: rec.Outcome.Memory, Violations: Violations(rec),
	}
	for i := range rec.Calls {
		if c := &rec.Calls[i]; c.Answer.Run != nil {
			inner := TreeOf(c.Answer.Run)
			inner.Call = c.Seq
			t.Runs = append(t.Runs, inner)
		}
	}
	return t
}

// WriteTrees writes the trees of the runs of a dialogue as text, oldest first.
func WriteTrees(w io.Writer, rounds []Tree, opts TextOptions) error {
	var b strings.Builder
	for i, t := range rounds {
		if len(rounds) > 1 {
			name := fmt.Sprintf("round %d of %d, run %s, %s", i+1, len(rounds), t.ID, display.Time(t.Start, time.Second))
			b.WriteString(opts.paint(display.Bold, name) + "\n")
		}
		t.write(&b, opts, "", "")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write writes a run and the inner runs. first begins the run's line, rest the lines of the inner
// runs.
func (t *Tree) write(b *strings.Builder, opts TextOptions, first, rest string) {
	name := t.Tool
	if t.Call > 0 {
		name = fmt.Sprintf("%d %s", t.Call, t.Tool)
	}
	took := Duration(time.Duration(t.Took * float64(time.Millisecond)))
	if t.Outcome == journal.Unfinished {
		took = "-"
	}
	calls := fmt.Sprintf("%d calls", t.Calls)
	if t.Calls == 1 {
		calls = "1 call"
	}
	style := display.Good
	switch t.Outcome {
	case journal.OK:
	case journal.Asks, journal.Unfinished:
		style = display.Caution
	default:
		style = display.Bad
	}
	fmt.Fprintf(b, "%s%s  %s  %s, %s, %s units of fuel\n", first, display.Line(name, 60), opts.paint(style, display.Line(t.Outcome, 20)),
		took, calls, Thousands(t.Fuel))
	below := rest
	if len(t.Runs) > 0 {
		below += "│ "
	} else {
		below += "  "
	}
	if t.Message != "" && t.Outcome != journal.Asks {
		lines := []string{display.Line(t.Message, 400)}
		if opts.Width > 0 {
			lines = display.Wrap(lines[0], max(opts.Width-display.Width(below), minBar))
		}
		for _, line := range lines {
			b.WriteString(below + opts.paint(style, line) + "\n")
		}
	}
	for i := range t.Runs {
		branch, more := "├─ ", "│  "
		if i == len(t.Runs)-1 {
			branch, more = "└─ ", "   "
		}
		t.Runs[i].write(b, opts, rest+branch, rest+more)
	}
}
