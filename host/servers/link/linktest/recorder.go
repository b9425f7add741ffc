package linktest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// Recorder records everything that a link passes to the upstream. The fields are set before the
// link is made.
type Recorder struct {
	// Notes gets the method and the owners of each notification, and Garbage the
	// reason of each report of garbage.
	Notes, Garbage chan string
	// OnNotification, if set, gets notifications instead of Notes.
	OnNotification func(m wire.Inbound)
	// OnRequest answers requests of the server, and must be set if the server sends any.
	OnRequest func(ctx context.Context, m wire.Inbound) wire.Reply
	// MaxMessage is link.Options.MaxMessage.
	MaxMessage int
	// Errors is link.Options.Errors; nil: Errors of this package.
	Errors rpc.Errors

	mu  sync.Mutex
	log bytes.Buffer
}

// NewRecorder returns a Recorder for up to 10,000 notifications.
func NewRecorder() *Recorder {
	return &Recorder{Notes: make(chan string, 10_000), Garbage: make(chan string, 1000)}
}

// Write implements io.Writer for the log of the link.
func (r *Recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

// Logged returns the log so far, with all levels.
func (r *Recorder) Logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// Options returns the options of a link observed by the Recorder. The link's requests have the ids
// 1, 2, 3 and so on.
func (r *Recorder) Options() link.Options {
	opts := link.Options{
		MaxMessage: r.MaxMessage,
		Handler: link.Callbacks{
			OnNotification: func(m wire.Inbound) {
				if r.OnNotification != nil {
					r.OnNotification(m)
					return
				}
				r.Notes <- fmt.Sprint(m.Method, m.Owners())
			},
			OnRequest: func(ctx context.Context, m wire.Inbound) wire.Reply { return r.OnRequest(ctx, m) },
		},
		Errors:    r.Errors,
		Garbage:   func(reason string, _ []byte) { r.Garbage <- reason },
		SerialIDs: true,
		Log:       slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if opts.Errors == nil {
		opts.Errors = Errors{}
	}
	return opts
}

// Initialize does the handshake of a link.
func Initialize(ctx context.Context, l link.Link) error {
	reply, err := l.Call(ctx, wire.Call{Method: "initialize",
		Params: []byte(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)})
	if err != nil {
		return err
	}
	version, _ := wire.GetString(reply.Result, "protocolVersion")
	revision, ok := protocol.Handshake.Lookup(version)
	if !ok {
		return fmt.Errorf("initialize: %s%s", reply.Result, reply.Error)
	}
	l.Negotiated(revision)
	return l.Notify(ctx, "notifications/initialized", nil)
}

// ToolCall returns a call of a tool without arguments.
func ToolCall(name string) wire.Call {
	return wire.Call{Method: "tools/call", Params: []byte(`{"name":"` + name + `"}`)}
}

// FormatOutcome returns the outcome of a call as text: the result, "refused" and the
// JSON-RPC error, or "error" and the text of err.
func FormatOutcome(reply wire.Reply, err error) string {
	switch {
	case err != nil:
		return "error " + err.Error()
	case reply.Error != nil:
		return "refused " + string(reply.Error)
	}
	return string(reply.Result)
}
