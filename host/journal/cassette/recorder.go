package cassette

import (
	"context"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
)

// Recorder is an Upstreams that forwards calls to another Upstreams and records them. A Recorder is
// safe for concurrent use.
type Recorder struct {
	compose.Upstreams
	redact func([]byte) []byte

	mu    sync.Mutex      // guards the fields below
	calls []*recordedCall // in the order in which they were begun
}

// recordedCall is a started call.
type recordedCall struct {
	Interaction
	done bool
}

// NewRecorder returns a Recorder for the calls to up. redact removes secrets from the
// text of a string or number in params and answers; nil: nothing is removed.
func NewRecorder(up compose.Upstreams, redact func([]byte) []byte) *Recorder {
	return &Recorder{Upstreams: up, redact: redact}
}

// CallUpstream implements compose.Upstreams. If ctx ends before the answer, the call is
// not recorded.
func (r *Recorder) CallUpstream(ctx context.Context, origin route.Origin, call route.ScriptCall) wire.Reply {
	made := &recordedCall{Interaction: Interaction{Server: call.Server, Tool: call.Tool, Times: 1}}
	made.Params = r.clean(argumentsOf(call.Params))
	r.mu.Lock()
	r.calls = append(r.calls, made)
	r.mu.Unlock()
	reply := r.Upstreams.CallUpstream(ctx, origin, call)
	if ctx.Err() != nil || reply.Denied != nil { // the server has not answered
		return reply
	}
	result, failed := r.clean(reply.Result), r.clean(reply.Error)
	r.mu.Lock()
	defer r.mu.Unlock()
	made.Result, made.RPCError, made.done = result, failed, true
	if failed != nil {
		made.Result = nil
	}
	return reply
}

// clean returns a copy of a raw JSON object without secrets, nil if raw is not an object.
func (r *Recorder) clean(raw []byte) []byte {
	if !wire.IsObject(raw) {
		return nil
	}
	return redactJSON(raw, r.redact)
}

// Interactions returns the answered calls, in the order of their beginning. Each can be used once.
// Calls with answers other than JSON objects are left out.
func (r *Recorder) Interactions() []Interaction {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Interaction
	for _, c := range r.calls {
		if c.done && c.Check() == nil {
			all = append(all, c.Interaction)
		}
	}
	return all
}
