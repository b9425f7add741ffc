package wire

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

// TestLargeEventsCount checks that large events are counted in the room, whether they
// have one line or many, for as long as they are in use, and that events that are
// skipped or cut off are no longer counted.
func TestLargeEventsCount(t *testing.T) {
	b := budget.New(64 << 20)
	line := "data: " + strings.Repeat("x", 300<<10) + "\n"
	lines := strings.Repeat("data: "+strings.Repeat("y", 1000)+"\n", 300)
	long := "data: " + strings.Repeat("z", 900<<10) + "\n"
	in := "data: small\n\n" + line + "\n" + lines + "\n" + long + "\n" + lines + long + "\n" + line
	e := NewEventReader(strings.NewReader(in), 500<<10).WithBudget(&ReadBudget{Context: t.Context(), Open: func() *budget.Hold { return b.OpenAnswer("x") }})
	next := func(length int) {
		t.Helper()
		ev, err := e.Next()
		if length == 0 {
			if err == nil || err == io.EOF {
				t.Fatalf("%d bytes, %v", len(ev.Data), err)
			}
			return
		}
		if err != nil || len(ev.Data) != length {
			t.Fatalf("%d bytes, %v, want %d", len(ev.Data), err, length)
		}
		if used := b.Figures().Used; length > budget.Small && used < int64(length)*budget.Copies {
			t.Errorf("%d bytes are counted for %d", used, length)
		} else if length <= budget.Small && used > 0 {
			t.Errorf("%d bytes are counted for a small one", used)
		}
		runtime.KeepAlive(ev.Data)
	}
	next(5)
	next(300 << 10)
	next(300*1001 - 1)
	next(0)
	next(0)
	if _, err := e.Next(); err != io.EOF {
		t.Error(err)
	}
	e.Release()
	all := b.Open("all")
	defer all.Close()
	if err := all.Acquire(t.Context(), 10<<20); err != nil { // waits until the others have been freed
		t.Error(err)
	}
	if f := b.Figures(); f.Used > 11<<20 {
		t.Errorf("%+v", f)
	}
}
