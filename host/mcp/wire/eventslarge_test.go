package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestEventTooLarge checks that enough of an event is kept to find the call that it
// answers.
func TestEventTooLarge(t *testing.T) {
	const most = 256 // bytes of each end
	body := strings.Repeat("x", 100<<10)
	for _, in := range []string{
		`{"jsonrpc":"2.0","id":42,"result":"` + body + `"}`,
		`{"result":"` + body + `","jsonrpc":"2.0","id":42}`,
		`{"result":"` + body + "\",\ndata: \"id\":42,\ndata: \"jsonrpc\":\"2.0\"}",
	} {
		e := wire.NewEventReader(strings.NewReader("data: "+in+"\n\n"), 1000)
		ev, err := e.Next()
		var large *wire.TooLargeError
		if id, _ := (rpc.Excerpt{Head: ev.Head, Tail: ev.Tail}).ResponseID(); !errors.As(err, &large) || id != 42 {
			t.Errorf("%.40s: got id %d, %v", in, id, err)
		}
		if len(ev.Head) > most || len(ev.Tail) > most {
			t.Errorf("%.40s: %d and %d bytes kept", in, len(ev.Head), len(ev.Tail))
		}
		e.Release()
	}
}
