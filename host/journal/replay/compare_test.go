package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// compared returns a record with two calls, the second of a saved tool.
func compared() journal.Record {
	call := func(server, tool, arguments string) abi.ToolCall {
		return abi.ToolCall{Server: server, Tool: tool, Arguments: []byte(arguments)}
	}
	nested := journal.Record{
		Done: true, Logs: []journal.Entry{{At: 1, Text: "inner"}}, Outcome: journal.Outcome{Result: []byte("3")},
	}
	nested.Definition.Name = "inner"
	r := journal.Record{
		ID: "a", Done: true, Duration: 50 * time.Millisecond,
		Calls: []journal.CallRecord{
			{Seq: 1, Request: call("github", "search", `{"q":1}`), Done: true, Start: 1, Duration: 5, Answer: journal.Answer{Value: []byte(`{"n":2}`)}},
			{Seq: 2, Request: call("tools", "inner", `{}`), Done: true, Start: 10, Duration: 5, Answer: journal.Answer{Value: []byte("3"), Run: &nested}},
		},
		Logs:    []journal.Entry{{At: 8, Text: "found"}},
		Outcome: journal.Outcome{Result: []byte(`{"sum":5}`), Fuel: 10, Memory: 20},
	}
	r.Definition.Name, r.Definition.Code, r.Params = "sum", "return 1", []byte(`{"q":1}`)
	return r
}

func TestCompare(t *testing.T) {
	inner := func(r *journal.Record) *journal.Record { return r.Calls[1].Answer.Run }
	for name, tt := range map[string]struct {
		change func(b *journal.Record)
		want   string // the differences, as What
		diff   string // part of the first diff
	}{
		"same":      {func(b *journal.Record) { b.ID, b.Duration, b.Calls[0].Duration = "b", 1, 9 }, "", ""},
		"params":    {func(b *journal.Record) { b.Params = []byte(`{"q":2}`) }, "params", `+  "q": 2`},
		"script":    {func(b *journal.Record) { b.Definition.Code = "return 2" }, "script", "+return 2"},
		"arguments": {func(b *journal.Record) { b.Calls[0].Request.Arguments = []byte(`{"q":2}`) }, "call 1 of github.search: arguments", `-  "q": 1`},
		"answer":    {func(b *journal.Record) { b.Calls[0].Answer.Value = []byte(`{"n":3}`) }, "call 1 of github.search: answer", `+  "n": 3`},
		"error": {func(b *journal.Record) {
			b.Calls[0].Answer = journal.Answer{Err: &abi.CallError{Type: abi.ErrPermission, Message: "no"}}
		}, "call 1 of github.search: answer", "+permission error: no"},
		"other tool": {func(b *journal.Record) { b.Calls[0].Request.Tool = "list" }, "call 1", ""},
		"fewer":      {func(b *journal.Record) { b.Calls = b.Calls[:1] }, "call 2", ""},
		"nested log": {func(b *journal.Record) { inner(b).Logs[0].Text = "other" }, "call 2 of tools.inner: log 1", "+info: other"},
		"log, result and fuel": {func(b *journal.Record) {
			b.Logs[0].Text, b.Outcome.Result, b.Outcome.Fuel = "lost", []byte(`{"sum":6}`), 11
		}, "log 1, result, fuel", "-info: found"},
		"failure": {func(b *journal.Record) {
			b.Outcome = journal.Outcome{Error: abi.ErrResource, Message: "out of fuel", Fuel: 10, Memory: 20}
		}, "outcome", "+resource error: out of fuel"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := compared(), compared()
			tt.change(&b)
			c := Compare(&a, &b)
			got := whats(c.Differences)
			if got != tt.want || c.Same != (tt.want == "") {
				t.Errorf("differences: %q, same: %v", got, c.Same)
			}
			if tt.diff != "" && !strings.Contains(c.Differences[0].Diff, tt.diff) {
				t.Errorf("diff:\n%s", c.Differences[0].Diff)
			}
			if text := c.Text(); (tt.want == "") != strings.Contains(text, "the runs are identical apart from timing") {
				t.Error(text)
			}
		})
	}
}

// TestCompareFaster checks the order of the differences if B is faster than A, or slower: what
// only B has comes after what it followed from.
func TestCompareFaster(t *testing.T) {
	const ms = time.Millisecond
	for name, speed := range map[string]time.Duration{"faster": ms / 10, "as fast": ms, "slower": 10 * ms} {
		t.Run(name, func(t *testing.T) {
			a, b := compared(), compared()
			for r, unit := range map[*journal.Record]time.Duration{&a: ms, &b: speed} {
				r.Calls = r.Calls[:1]
				r.Calls[0].Start, r.Calls[0].Duration = 10*unit, 30*unit
				r.Logs = []journal.Entry{{At: 5 * unit, Text: "begins"}}
				r.Duration = 50 * unit
			}
			b.Calls[0].Answer.Value = []byte(`{"n":3}`)
			b.Calls = append(b.Calls, journal.CallRecord{Seq: 2, Request: b.Calls[0].Request, Done: true, Start: 41 * speed, Duration: speed})
			b.Logs = append(b.Logs, journal.Entry{At: 42 * speed, Text: "found more"})
			c := Compare(&a, &b)
			if got := whats(c.Differences); got != "call 1 of github.search: answer, call 2, log 2" {
				t.Errorf("an extra call after the answer: %s", got)
			}
			b.Calls[1].Start = 20 * speed // at the same time as call 1
			b.Logs[1].At = 6 * speed
			c = Compare(&a, &b)
			if got := whats(c.Differences); got != "log 2, call 2, call 1 of github.search: answer" {
				t.Errorf("an extra call before the answer: %s", got)
			}
		})
	}
}

// TestCompareNestedUndo checks that the compensations of a nested run come after its steps.
func TestCompareNestedUndo(t *testing.T) {
	a, b := compared(), compared()
	for _, r := range []*journal.Record{&a, &b} {
		r.Calls[1].Answer.Run.Duration = 4
	}
	inner := b.Calls[1].Answer.Run
	inner.Logs[0].Text = "other"
	inner.Undos = []journal.UndoRecord{{Request: b.Calls[0].Request}}
	c := Compare(&a, &b)
	if got := whats(c.Differences); got != "call 2 of tools.inner: log 1, call 2 of tools.inner: undo" {
		t.Error(got)
	}
}

// whats returns the parts that differ.
func whats(differences []Difference) string {
	var list []string
	for _, d := range differences {
		what := d.What
		if d.In != "" {
			what = d.In + ": " + what
		}
		list = append(list, what)
	}
	return strings.Join(list, ", ")
}
