package route

import (
	"context"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// readResource asks the upstream with the resource. If no upstream lists the URI, readResource asks
// the upstreams that may have the resource, in turn.
func (r *Router) readResource(ctx context.Context, call Call) wire.Reply {
	uri, bad := stringParam(call, "uri")
	if bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	return r.askForURI(ctx, call, uri, func(c serverConn) wire.Reply {
		return r.forward(ctx, call, c, call.Params, r.resource(call, c, uri))
	}, "resources")
}

// resource decides about the use of a resource.
func (r *Router) resource(call Call, at serverConn, uri string) *gated {
	return r.decide(call.Origin, policy.Request{Kind: policy.KindResource, Server: at.server, Name: uri}, nil)
}

// askForURI tries the upstreams that may have the resource with the URI: the upstream that lists
// the URI, else the upstream that gave the session the URI in a result, else the upstreams with a
// matching template, else all with the capability. If no upstream answers without an error, the
// reply is the error of the only or best upstream, or reports an unknown resource.
func (r *Router) askForURI(ctx context.Context, call Call, uri string, try func(serverConn) wire.Reply, capability ...string) wire.Reply {
	s := call.Origin.Session()
	candidates := r.holders(s, uri)
	if len(candidates) == 0 {
		r.awaitLists(ctx, s, wire.Resources, wire.Templates)
		candidates = r.holders(s, uri)
	}
	guess := len(candidates) == 0
	if guess {
		if _, handed := r.handedBy(s, uri); handed { // by a server that is gone
			return noResource(uri)
		}
		if !r.offered(s, capability...) {
			return notFound(call.Method)
		}
		candidates = r.offering(s, capability...)
	}
	// As if these upstreams had no resource of which the client may not know.
	candidates = slices.DeleteFunc(candidates, func(c serverConn) bool {
		return r.scope(s).PermittedResource(c.server, uri) != nil
	})
	reply, _, ok := firstOf(ctx, candidates, try)
	if len(candidates) == 0 || !ok && guess && len(candidates) != 1 && reply.Denied == nil {
		return noResource(uri)
	}
	return reply
}

// holders returns the upstream that lists a resource with the URI, or the upstream that gave the
// session the URI, or the upstreams with a matching template.
func (r *Router) holders(s Session, uri string) []serverConn {
	scope := r.scope(s)
	servers := scope.Matching(uri)
	if owner, ok := scope.Resource(uri); ok {
		servers = []string{owner}
	} else if giver, ok := r.handedBy(s, uri); ok {
		servers = []string{giver}
	}
	var all []serverConn
	for _, server := range servers {
		if c, ok := r.to(s, server); ok {
			all = append(all, c)
		}
	}
	return all
}

func noResource(uri string) wire.Reply {
	return wire.Reply{Error: (&wire.RPCError{
		Code: protocol.CodeResourceNotFound, Message: "resource not found: " + uri,
		Data: wire.Marshal(map[string]string{"uri": uri}),
	}).Raw()}
}
