package upstream

import (
	"context"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

const (
	maxServing = 128 // requests of the server that OnRequest may work on at once
	maxAnswers = 256 // requests of the server that may wait until their answer is written
)

// inbound is a request of the server that OnRequest works on.
type inbound struct{ cancel context.CancelCauseFunc }

func builtin(method string) wire.Reply {
	if method == protocol.MethodPing {
		return wire.Reply{Result: []byte("{}")}
	}
	return wire.Reply{Error: wire.Errorf(wire.CodeMethodNotFound, "method not found: %s", clip(method)).Raw()}
}

// ownID reads an id that we gave out: exactly the digits we wrote.
func ownID(raw []byte) (int64, bool) {
	id, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || id <= 0 || raw[0] == '+' || raw[0] == '0' {
		return 0, false
	}
	return id, true
}

// clip makes what a peer wrote fit for a log or an error: at most 200 bytes,
// valid UTF-8, printable.
func clip(s string) string { return clipTo(s, 200) }

func clipTo(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit] + "..."
	}
	return printable(strings.ToValidUTF8(s, "\uFFFD"))
}
