package upstream

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
)

// TestLargeEventsCount: in one line or in many, as long as somebody has them; and
// what is skipped or breaks off does not stay.
func TestLargeEventsCount(t *testing.T) {
	b := budget.New(64 << 20)
	line := "data: " + strings.Repeat("x", 300<<10) + "\n"
	lines := strings.Repeat("data: "+strings.Repeat("y", 1000)+"\n", 300)
	long := "data: " + strings.Repeat("z", 900<<10) + "\n"
	in := "data: small\n\n" + line + "\n" + lines + "\n" + long + "\n" + lines + long + "\n" + line
	e := newEventReader(strings.NewReader(in), 500<<10).within(roomFor(t.Context(), b))
	next := func(length int) {
		t.Helper()
		ev, err := e.next()
		if length == 0 {
			if err == nil || err == io.EOF {
				t.Fatalf("%d bytes, %v", len(ev.data), err)
			}
			return
		}
		if err != nil || len(ev.data) != length {
			t.Fatalf("%d bytes, %v, want %d", len(ev.data), err, length)
		}
		if used := b.Figures().Used; length > budget.Small && used < int64(length)*budget.Copies {
			t.Errorf("%d bytes are counted for %d", used, length)
		} else if length <= budget.Small && used > 0 {
			t.Errorf("%d bytes are counted for a small one", used)
		}
		runtime.KeepAlive(ev.data)
	}
	next(5)
	next(300 << 10)
	next(300*1001 - 1)
	next(0)
	next(0)
	if _, err := e.next(); err != io.EOF {
		t.Error(err)
	}
	e.release()
	all := b.Open("all")
	defer all.Close()
	if err := all.Acquire(t.Context(), 10<<20); err != nil { // it waits until the others are gone
		t.Error(err)
	}
	if f := b.Figures(); f.Used > 11<<20 {
		t.Errorf("%+v", f)
	}
}
