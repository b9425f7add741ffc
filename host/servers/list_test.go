package servers

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv/linear"
)

// TestItemsAreCounted checks that no list has more than maxItems, however the server divides it
// into pages, and that what is left out counts as well.
func TestItemsAreCounted(t *testing.T) {
	t.Parallel()
	all := []wire.Surface{wire.Tools, wire.Resources, wire.Templates, wire.Prompts}
	for _, tt := range []struct {
		mode     string
		surfaces []wire.Surface
		items    int
		last     string
		pages    string // as the log has it
	}{
		{"long page", all, maxItems, "19999", "pages=1"},
		{"long last page", all, maxItems, "19999", "pages=2"},
		{"twins", all[:1], 1, "0", "pages=1"},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			got := map[wire.Surface][]string{}
			f := launchWith(t, here(tt.mode), Options{OnList: func(l List) { got[l.Surface] = keys(l.Surface, l.Items) }}, fastTimings)
			<-f.Started()
			for _, s := range tt.surfaces {
				names := got[s]
				if len(names) != tt.items || !strings.HasSuffix(names[len(names)-1], tt.last) || !slices.IsSortedFunc(names, byLength) {
					t.Errorf("%s: %d items", s, len(names))
				}
				if want := s.ListMethod() + ` does not end: the list was cut off" upstream=x ` + tt.pages; !strings.Contains(f.log.String(), want) {
					t.Errorf("%s: the log has no %s", s, want)
				}
			}
		})
	}
}

// TestTooLargeListKeepsTheOneBefore checks that a server whose list has become too large, or for
// whose list no memory is left, can still be used with the list from before, and that
// a later list is used again.
func TestTooLargeListKeepsTheOneBefore(t *testing.T) {
	t.Parallel()
	large := here("second list large")
	large.MaxList = 10_000
	lists := 0
	full := func(s wire.Surface, _ int64) error {
		if s == wire.Tools {
			lists++
		}
		if lists == 2 {
			return &budget.FullError{What: "lists of this server", Bytes: 30 << 20, Share: 20 << 20, Most: 25 << 20}
		}
		return nil
	}
	for want, f := range map[string]*fixture{
		"its list of tools is larger than 10000 bytes": launch(t, large),
		"its list of tools is not used: no memory":     launchWith(t, here("second list large"), Options{KeepList: full}, fastTimings),
	} {
		first := <-f.tools
		f.call(t, "change once") // the list is too large, and the server announces another change
		f.call(t, "echo")
		if again := <-f.tools; !slices.Equal(first, again) {
			t.Errorf("%s: then %q", want, again)
		}
		if s := f.Status(); s.State != Ready || s.Tools != 2 || s.Restarts > 0 || !strings.Contains(s.Err, want) {
			t.Errorf("status %+v, want %s", s, want)
		}
	}
}

// TestLinearLists checks that no page of a list makes us work out of proportion to its size.
func TestLinearLists(t *testing.T) {
	for _, shape := range linear.Shapes {
		t.Run(shape.Name, func(t *testing.T) {
			linear.Check(t, func(size int) []byte { return shape.Make(size, "name") }, func(raw []byte) {
				for _, s := range wire.Surfaces {
					c := &listing{surface: s, log: slog.New(slog.DiscardHandler), keys: map[string]bool{}}
					for range 2 {
						_, _ = c.add(fmt.Appendf(nil, `{%q:[],"_meta":%s}`, s, raw))
						_, _ = c.add(fmt.Appendf(nil, `{%q:[%s],"_meta":{"x":{}}}`, s, raw))
						_, _ = c.add(fmt.Appendf(nil, `{%q:%s}`, s, raw))
					}
				}
			})
		})
	}
}

// byLength compares decimal numbers with a common beginning.
func byLength(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
