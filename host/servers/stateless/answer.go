package stateless

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// conclude returns the outcome of a call for the caller. Errors about the hop between us and the
// server are not for the client, because the client's own requests may be of another era or have
// other headers.
func (l *Link) conclude(ctx context.Context, call wire.Call, limit rpc.Limit, reply wire.Reply, err error) (wire.Reply, error) {
	if err != nil {
		l.doubtStatus(err)
		return reply, err
	}
	if reply.Error == nil {
		return reply, nil
	}
	switch bad := wire.ParseError(reply.Error); bad.Code {
	case protocol.CodeHeaderMismatch:
		again, ok, err := l.callAgain(ctx, call, limit)
		if ok && err == nil && again.Error != nil {
			bad = wire.ParseError(again.Error)
		}
		if !ok || err == nil && again.Error != nil && bad.Code == protocol.CodeHeaderMismatch {
			return l.hopError("it refuses the headers of the request, which are made from its body (is there a proxy that changes them?): %s", bad), nil
		}
		if err == nil && again.Error != nil {
			return l.hopAnswer(again, bad), nil
		}
		return again, err
	default:
		return l.hopAnswer(reply, bad), nil
	}
}

// hopAnswer returns an error of the server in the form for the caller. bad is the error.
func (l *Link) hopAnswer(reply wire.Reply, bad *wire.RPCError) wire.Reply {
	switch bad.Code {
	case protocol.CodeHTTPRefused, protocol.CodeSessionNotFound, wire.CodeInvalidRequest, wire.CodeMethodNotFound:
		// Servers of the handshake era answer requests outside of a session like this.
		l.doubt()
	case protocol.CodeUnsupportedVersion:
		l.doubt()
		return l.hopError("it no longer supports the revision "+l.Revision().String()+" (call again): %s", bad)
	case protocol.CodeMissingCapability:
		required, ok := wire.Get(reply.Error, "data", "requiredCapabilities")
		if !ok || !wire.IsObject(required) {
			required = []byte("{}")
		}
		return wire.Reply{Error: envelope.MissingCapability(required,
			"upstream %q needs a capability that the client has not declared: %s", l.opts.Upstream, link.Excerpt(bad.Message)).Raw()}
	}
	return reply
}

func (l *Link) hopError(format string, bad *wire.RPCError) wire.Reply {
	return wire.Reply{Error: wire.Errorf(wire.CodeInternal, "upstream %q: "+format, l.opts.Upstream, link.Excerpt(bad.Message)).Raw()}
}

// callAgain makes a call of a tool again after the server has refused the headers, because the
// known definition of the tool may be old. ok is false if another call is of no use.
func (l *Link) callAgain(ctx context.Context, call wire.Call, limit rpc.Limit) (reply wire.Reply, ok bool, err error) {
	if call.Method != protocol.MethodToolsCall || !l.opts.HTTP || l.opts.Relist == nil {
		return wire.Reply{}, false, nil
	}
	l.opts.Relist(ctx)
	out, err := l.request(call)
	if err != nil {
		return wire.Reply{}, true, err
	}
	reply, err = l.Link.CallWithin(ctx, out, limit)
	return reply, true, err
}
