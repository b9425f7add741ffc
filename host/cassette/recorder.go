package cassette

import (
	"context"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Recorder is an Upstreams that keeps what passes another one. It is safe for
// concurrent use.
type Recorder struct {
	compose.Upstreams
	redact func([]byte) []byte

	mu    sync.Mutex // guards what follows
	calls []*recorded
}

// recorded is a call, in the order in which they were begun.
type recorded struct {
	Interaction
	done bool
}

// NewRecorder makes a Recorder of what passes up. redact takes what is secret
// out of a text, of strings and numbers in params and answers; nil: nothing is.
func NewRecorder(up compose.Upstreams, redact func([]byte) []byte) *Recorder {
	return &Recorder{Upstreams: up, redact: redact}
}

// CallUpstream implements compose.Upstreams. A call whose ctx ends first has no
// answer, and is not kept.
func (r *Recorder) CallUpstream(ctx context.Context, origin route.Origin, server, tool string, params []byte, progress func([]byte)) wire.Reply {
	call := &recorded{Interaction: Interaction{Server: server, Tool: tool, Times: 1}}
	call.Params = r.clean(argumentsOf(params))
	r.mu.Lock()
	r.calls = append(r.calls, call)
	r.mu.Unlock()
	reply := r.Upstreams.CallUpstream(ctx, origin, server, tool, params, progress)
	if ctx.Err() != nil || reply.Denied != nil { // no answer of the server
		return reply
	}
	result, failed := r.clean(reply.Result), r.clean(reply.Error)
	r.mu.Lock()
	defer r.mu.Unlock()
	call.Result, call.RPCError, call.done = result, failed, true
	if failed != nil {
		call.Result = nil
	}
	return reply
}

// clean is a copy of a raw JSON object without secrets, nil if raw is not an object.
func (r *Recorder) clean(raw []byte) []byte {
	if !wire.IsObject(raw) {
		return nil
	}
	return redactJSON(raw, r.redact)
}

// Interactions are the calls that were answered until now, in the order in which
// they were begun, each to be used once. A call that had an answer which is no
// JSON object is not among them.
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
