// Package route takes a tool call to whoever answers it: an upstream, or a
// handler for built-in and composite tools. It moves raw bytes.
//
//	route.go   the router
//	result.go  results that we make ourselves
//
// Handlers are registered, so that a composite's handler can call back into
// the router without an import circle.
package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Call is one tools/call request.
type Call struct {
	// Name is the tool's name as the client wrote it.
	Name string
	// Params is the raw params object: name, arguments, _meta, anything else.
	Params []byte
	// Progress takes the raw params object of a progress notification; the
	// receiver puts the client's own progressToken into it. It returns when
	// the notification is written to the client's stream, and is safe for
	// concurrent use. Nil when the client did not ask for progress.
	Progress func(params []byte)
}

// Handler answers calls of built-in or composite tools. When ctx has ended,
// the reply does not matter.
type Handler interface {
	CallTool(ctx context.Context, call Call) wire.Reply
}

// Upstream is what the router needs of a connection to an upstream. The error
// of Call is the cause of ctx's end, or says why there is no answer.
type Upstream interface {
	// Ready waits until the upstream has started; the error says why it is
	// down.
	Ready(ctx context.Context) error
	Call(ctx context.Context, method string, params []byte, progress func(params []byte)) (wire.Reply, error)
}

// Router is safe for concurrent use.
type Router struct {
	Catalog *catalog.Catalog
	// Upstreams by name.
	Upstreams map[string]Upstream
	// Handlers by the kind of tool: Builtin and Composite.
	Handlers map[catalog.Kind]Handler
	// Settled waits until no upstream is starting any more, or for as long as
	// a client shall wait for that, or for ctx.
	Settled func(ctx context.Context)
	Log     *slog.Logger
}

// CallTool answers a call of a tool that agents see. A name that is not in
// the catalog is looked up again once all upstreams have started.
func (r *Router) CallTool(ctx context.Context, call Call) wire.Reply {
	entry, ok := r.Catalog.Lookup(call.Name)
	if !ok {
		r.Settled(ctx)
		entry, ok = r.Catalog.Lookup(call.Name)
	}
	if !ok {
		return wire.Reply{Error: r.unknown(call.Name).Raw()}
	}
	if entry.Kind == catalog.Proxied {
		return r.CallUpstream(ctx, entry.Server, entry.Tool, call.Params, call.Progress)
	}
	return r.Handlers[entry.Kind].CallTool(ctx, call)
}

// unknown is a protocol error, not a tool's (revision 2025-11-25,
// server/tools, "Error Handling").
func (r *Router) unknown(name string) *wire.RPCError {
	hint := ""
	if near := catalog.Nearest(name, r.Catalog.Names()); len(near) > 0 {
		hint = fmt.Sprintf(" (did you mean %s?)", strings.Join(near, ", "))
	}
	return wire.Errorf(wire.CodeInvalidParams, "unknown tool: %s%s", name, hint)
}

// Ready waits until an upstream has started and listed its tools. The error
// says why it is down, or is the cause of ctx's end.
func (r *Router) Ready(ctx context.Context, server string) error {
	up, ok := r.Upstreams[server]
	if !ok {
		return fmt.Errorf("upstream %q is not configured", server)
	}
	return up.Ready(ctx)
}

// CallUpstream calls a tool of an upstream by their real names. params is the
// params object of tools/call; its name is replaced, and its progress token by
// the connection. When no answer comes, the reply is an isError result that
// says why: the failure of one upstream is a failed tool, not a failed
// protocol.
func (r *Router) CallUpstream(ctx context.Context, server, tool string, params []byte, progress func([]byte)) wire.Reply {
	up, ok := r.Upstreams[server]
	if !ok {
		return wire.Reply{Result: ErrorResult(fmt.Sprintf("upstream %q is not configured", server))}
	}
	params, err := wire.Set(params, wire.Quote(tool), "name")
	if err != nil {
		return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "tools/call: params: %v", err).Raw()}
	}
	reply, err := up.Call(ctx, "tools/call", params, progress)
	if err == nil {
		return reply
	}
	if cause := context.Cause(ctx); cause == nil || !errors.Is(err, cause) {
		r.Log.Warn("tool call failed", "upstream", server, "tool", tool, "err", err)
	}
	return wire.Reply{Result: ErrorResult(err.Error())}
}
