package journal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// TestOpenCalls checks that calls that are opened together have their records on disk,
// in order, before OpenCalls returns: also if together they are larger than one write.
func TestOpenCalls(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, LogOptions{})
	r := begin(t, l, Begin{})
	large := []byte(`{"x":"` + strings.Repeat("y", 10<<10) + `"}`)
	for round := range 3 {
		var list []Opened
		for i := range 60 {
			list = append(list, Opened{abi.ToolCall{Server: "s", Tool: fmt.Sprint("t", i), Arguments: large[:len(large)*min(round, 1)]}, "s", fmt.Sprint("t", i)})
			if round == 0 {
				list[i].Request.Arguments = []byte("{}")
			}
		}
		calls := r.OpenCalls(list)
		all, faults := scan(dir, Filter{})
		if len(faults) > 0 || len(all) != 1 || len(all[0].Calls) != 60*(round+1) {
			t.Fatalf("%d records, %v", len(all), faults)
		}
		for i, c := range calls {
			on := all[0].Calls[60*round+i]
			if c.Seq() != 60*round+i+1 || on.Seq != c.Seq() || on.Tool != fmt.Sprint("t", i) || string(on.Request.Arguments) != string(list[i].Request.Arguments) {
				t.Fatalf("call %d: number %d, on disk %d %s %.20s", i, c.Seq(), on.Seq, on.Tool, on.Request.Arguments)
			}
		}
	}
	r.Close(Outcome{})
	if calls := r.OpenCalls([]Opened{{Tool: "late"}, {Tool: "later"}}); len(calls) != 2 {
		t.Error("no calls after the end")
	}
	if len(r.OpenCalls(nil)) != 0 {
		t.Error("calls of none")
	}
}
