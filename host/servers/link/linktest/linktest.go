// Package linktest has shared parts of the tests of several transports: errors of calls, permits
// that can be withdrawn, outcomes of Submit, the Recorder of messages from a link to the upstream,
// and the servers HTTPServer and SSEServer.
package linktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// Kind is the method of Errors that made an Error.
type Kind string

// The kinds of errors.
const (
	Down     Kind = "down"
	Unusable Kind = "unusable"
	Timeout  Kind = "timeout"
)

// Error is an error made by Errors. The fields are the arguments of the method.
type Error struct {
	Kind   Kind
	Reason string
	Method string
	After  time.Duration
	Max    bool
	Err    error
	Unsent bool // Errors.Unsent has marked it
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s%s %v (unsent: %t)", e.Kind, e.Reason, e.Method, e.Err, e.Unsent)
}

func (e *Error) Unwrap() error { return e.Err }

// As returns the Error of a kind that err wraps, or nil.
func As(err error, kind Kind) *Error {
	var e *Error
	if errors.As(err, &e) && e.Kind == kind {
		return e
	}
	return nil
}

// Unsent reports whether err wraps an Error marked as unsent.
func Unsent(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Unsent
}

// Errors implements rpc.Errors.
type Errors struct{}

var _ rpc.Errors = Errors{}

// Down implements rpc.Errors.
func (Errors) Down(reason string, cause error) error {
	return &Error{Kind: Down, Reason: reason, Err: cause}
}

// Unsent implements rpc.Errors.
func (Errors) Unsent(err error) error {
	e := As(err, Down)
	if e == nil {
		return err
	}
	marked := *e
	marked.Unsent = true
	return &marked
}

// Unusable implements rpc.Errors.
func (Errors) Unusable(method string, cause error) error {
	return &Error{Kind: Unusable, Method: method, Err: cause}
}

// Timeout implements rpc.Errors.
func (Errors) Timeout(method string, after time.Duration, max bool) error {
	return &Error{Kind: Timeout, Method: method, After: after, Max: max}
}

// ErrForbidden is the error of a withdrawn Permit.
var ErrForbidden = errors.New("it is forbidden now")

// Permit is a wire.Permit that can be withdrawn. The zero value permits.
type Permit struct {
	Withdrawn atomic.Bool
	Asked     atomic.Int32 // how often Permitted was called
}

// Permitted implements wire.Permit.
func (p *Permit) Permitted() error {
	p.Asked.Add(1)
	if p.Withdrawn.Load() {
		return ErrForbidden
	}
	return nil
}

// Denied reports whether err is the error of a call with a withdrawn Permit.
func Denied(err error) bool {
	var denied *wire.DeniedError
	return errors.As(err, &denied) && denied.Err == ErrForbidden
}

// Outcome holds the arguments of the completion of a submitted call.
type Outcome struct {
	Reply wire.Reply
	Next  wire.Continuation
}

// Outcomes receives the outcomes of submitted calls. The capacity must be larger than the number of
// calls, so that a second outcome of a call is seen.
type Outcomes chan Outcome

// Complete is a wire.CompletionFunc.
func (o Outcomes) Complete(reply wire.Reply, next wire.Continuation) { o <- Outcome{reply, next} }

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
