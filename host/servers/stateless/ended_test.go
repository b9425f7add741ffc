package stateless

import (
	"errors"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestEndedIsHandledFirst checks that a change of the wanted filter does not open another
// subscription while the end of the current subscription, followed by a pause, is not handled yet.
// The link below is missing: nothing may be sent.
func TestEndedIsHandledFirst(t *testing.T) {
	var l Link
	s := &l.subscriptions
	s.init()
	s.current = &subscription{asked: filter{surfaces: []wire.Surface{wire.Tools}}, ended: make(chan struct{})}
	close(s.current.ended)
	s.want(func(f *filter) { f.uris = []string{"f:1"} })
	if err := l.open(); !errors.Is(err, errEnded) {
		t.Errorf("%v, want %v", err, errEnded)
	}
}
