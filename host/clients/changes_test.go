package clients

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestChangesInOneNotification checks that several changes become one notification,
// which has the params of an upstream only if all changes have the same.
func TestChangesInOneNotification(t *testing.T) {
	t.Parallel()
	type change struct {
		surface wire.Surface
		notice  string
	}
	for _, tt := range []struct {
		changes []change
		want    string
	}{
		{[]change{{wire.Tools, `{"a":1}`}}, `{"a":1}`},
		{[]change{{wire.Tools, `{"a":1}`}, {wire.Tools, `{"b":1}`}}, ""},
		{[]change{{wire.Tools, `{"a":1}`}, {wire.Tools, ""}}, ""},
		{[]change{{wire.Tools, ""}, {wire.Tools, `{"a":1}`}}, ""},
		{[]change{{wire.Tools, `{"a":1}`}, {wire.Tools, `{"b":1}`}, {wire.Tools, `{"b":1}`}}, ""},
		{[]change{{wire.Resources, `{"a":1}`}, {wire.Templates, `{"a":1}`}}, `{"a":1}`},
		{[]change{{wire.Templates, `{"a":1}`}, {wire.Prompts, `{"b":1}`}}, `{"a":1}`},
	} {
		s := &Session{handshake: handshakeDone, changes: map[wire.Surface][]byte{}, hasChanges: make(chan struct{}, 1)}
		for _, c := range tt.changes {
			var notice []byte
			if c.notice != "" {
				notice = []byte(c.notice)
			}
			s.Changed(c.surface, notice)
		}
		first := tt.changes[0].surface
		if first == wire.Templates {
			first = wire.Resources
		}
		if got, due := s.changes[first]; string(got) != tt.want || !due {
			t.Errorf("%v: announced: %v, with %s, want %s", tt.changes, due, got, tt.want)
		}
	}
}
