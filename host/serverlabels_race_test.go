package host

import (
	"context"
	"maps"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
)

// overtaken is a Store whose first Put comes after something else.
type overtaken struct {
	store.Store
	before func()
}

func (s *overtaken) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	return s.Store.Put(ctx, key, old, data)
}

// TestServerLabelsOvertaken lets another replica change the labels of servers between the moment when
// one has read them and the moment when it writes: neither change is lost.
func TestServerLabelsOvertaken(t *testing.T) {
	t.Parallel()
	link := memorytest.New(t)
	b := NewServerLabels(link.MustOpen(t), nil)
	private, untrusted := flow.ParseLabels([]string{"private"}), flow.ParseLabels([]string{"untrusted"})
	want := map[string]flow.Labels{}
	for _, c := range []struct {
		server string // to which a adds private
		other  func() error
		after  map[string]flow.Labels // what is there then; 0: nothing
	}{
		{"one", func() error { return b.Add(t.Context(), "two", untrusted) }, map[string]flow.Labels{"one": private, "two": untrusted}},
		{"two", func() error { return b.Add(t.Context(), "one", untrusted) }, map[string]flow.Labels{"one": private | untrusted, "two": private | untrusted}},
		{"three", func() error { _, err := b.Remove(t.Context(), "two"); return err }, map[string]flow.Labels{"three": private, "two": 0}},
	} {
		overtaken := &overtaken{link.MustOpen(t), func() {
			if err := c.other(); err != nil {
				t.Error(err)
			}
		}}
		if err := NewServerLabels(overtaken, nil).Add(t.Context(), c.server, private); err != nil || overtaken.before != nil {
			t.Fatalf("%s: %v, written %v", c.server, err, overtaken.before == nil)
		}
		maps.Copy(want, c.after)
		maps.DeleteFunc(want, func(_ string, l flow.Labels) bool { return l == 0 })
		if got, err := b.Read(t.Context()); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v %v, want %v", c.server, got, err, want)
		}
	}
}
