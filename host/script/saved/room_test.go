package saved

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// TestSavedToolsShareTheBudget fills the saved tools that clients share. A token with its own can
// still save, the refusal says what to do, and all is given back in the end.
func TestSavedToolsShareTheBudget(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), budget.New(64<<20) // 2 MiB for saved tools
	open := func(token string) *Tools {
		t.Helper()
		s, err := Open(Options{Place: Place{Dir: dir, Token: token}, Budget: b, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	large := func(n int) tools.Definition {
		d := definition(fmt.Sprint("t", n), "1")
		d.InputSchema = fmt.Appendf(nil, `{"type":"object","description":%q}`, strings.Repeat("d", 50_000))
		return d
	}
	shared, own := open(""), open("ci")
	fill := func(s *Tools) (saved int, err error) {
		for ; saved < 100 && err == nil; saved++ {
			_, _, err = s.Save(large(saved))
		}
		return saved - 1, err
	}
	first, err := fill(shared)
	var full *budget.FullError
	if !errors.As(err, &full) || !errors.As(err, new(*tools.RoomError)) || !strings.Contains(err.Error(), "raise execution.max_total_memory") {
		t.Fatal(err)
	}
	if _, _, err := own.Save(definition("mine", "1")); err != nil {
		t.Errorf("another token has no room: %v", err)
	}
	if first < 7 || first > 10 {
		t.Errorf("%d tools of 200 KB fit into 2 MB", first)
	}
	// The same at the next start.
	for _, s := range []*Tools{shared, own} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if f := b.Figures(); f.Used != 0 {
		t.Errorf("closed tools have %d bytes", f.Used)
	}
	shared, own = open(""), open("ci")
	if n, m := len(shared.List()), len(own.List()); n != first || m != 1 {
		t.Errorf("after a restart there are %d and %d", n, m)
	}
}
