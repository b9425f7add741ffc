// Package linktest has shared parts of the tests of several transports: errors of calls, permits
// that can be withdrawn, outcomes of Submit, the Recorder of messages from a link to the upstream,
// and the servers HTTPServer and SSEServer.
package linktest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
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
