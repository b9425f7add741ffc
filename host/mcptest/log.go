package mcptest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Entry is a received message.
type Entry struct {
	// Stream names the source: "stdio", a session of a server, or one of the streams of an HTTP
	// client ("get", "post 7", with the raw id).
	Stream string
	// Raw is the message without framing.
	Raw []byte
	// Msg is Raw parsed; zero if Raw is not a JSON-RPC message.
	Msg wire.Message
	// Header is from the HTTP request that carried the message to a server; otherwise nil.
	Header http.Header
}

// Log records the messages that a peer received, in order. A Log is safe for concurrent use.
type Log struct {
	// Each is called with every entry, in order, before Find returns the entry, and must not use
	// the Log. Forget keeps no entries. Both are set before the first entry.
	Each   func(Entry)
	Forget bool

	mu      sync.Mutex
	entries []Entry
	more    chan struct{} // closed at the next entry; nil if nothing waits
}

// add records a message; the Log keeps raw.
func (l *Log) add(stream string, raw []byte, header http.Header) Entry {
	e := Entry{Stream: stream, Raw: raw, Header: header}
	if m, err := wire.Parse(raw); err == nil {
		e.Msg = m
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Each != nil {
		l.Each(e)
	}
	if !l.Forget {
		l.entries = append(l.entries, e)
	}
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
	return e
}

// All returns the entries so far.
func (l *Log) All() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Len returns the number of entries so far, the index of the next entry.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Find waits for the first matching entry at or after index from, and returns the entry and the
// index after the entry. If ctx ends, the error wraps the cause and names wanted.
func (l *Log) Find(ctx context.Context, wanted string, from int, match func(Entry) bool) (Entry, int, error) {
	for {
		l.mu.Lock()
		for ; from < len(l.entries); from++ {
			if e := l.entries[from]; match(e) {
				l.mu.Unlock()
				return e, from + 1, nil
			}
		}
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return Entry{}, from, fmt.Errorf("wait for %s: %w", wanted, context.Cause(ctx))
		}
	}
}

// Method matches requests and notifications of a method.
func Method(name string) func(Entry) bool {
	return func(e Entry) bool { return e.Msg.Method == name }
}

// CallOf matches tools/call requests of a tool.
func CallOf(tool string) func(Entry) bool {
	return func(e Entry) bool {
		name, _ := wire.GetString(e.Msg.Params, "name")
		return e.Msg.Method == "tools/call" && name == tool
	}
}

// ResponseTo matches the response to a request with the raw id.
func ResponseTo(id string) func(Entry) bool {
	key := wire.IDKey([]byte(id))
	return func(e Entry) bool {
		return e.Msg.ID != nil && e.Msg.IsResponse() && wire.IDKey(e.Msg.ID) == key
	}
}

// ProgressWith matches progress with a raw token.
func ProgressWith(token string) func(Entry) bool {
	return func(e Entry) bool {
		got, _ := wire.Get(e.Msg.Params, "progressToken")
		return e.Msg.Method == "notifications/progress" && string(got) == token
	}
}

// methodClosed is the method of an entry in the log of a server, in the form of a
// notification: the client has closed the connection of a request of the stateless era.
const methodClosed = "(closed)"

// CancelOf matches the cancellation of a request that the server received.
func CancelOf(request Entry) func(Entry) bool {
	return func(e Entry) bool {
		id, _ := wire.Get(e.Msg.Params, "requestId")
		return (e.Msg.Method == "notifications/cancelled" || e.Msg.Method == methodClosed) && wire.IDKey(id) == wire.IDKey(request.Msg.ID)
	}
}
