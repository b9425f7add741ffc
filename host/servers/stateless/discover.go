package stateless

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// Server is a server's description of itself.
type Server struct {
	Revision protocol.Revision // the revision to use
	// Initialize is the answer in the form of an initialize result, so that servers of both eras
	// can be read alike.
	Initialize   []byte
	Name         string
	Version      string
	Capabilities []byte // raw object
}

// OtherEraError means that a server does not speak the stateless era, according to the answer to
// server/discover.
type OtherEraError struct {
	Reason string // of bounded length
	Err    error  // cause, or nil
}

func (e *OtherEraError) Error() string { return "it does not speak the stateless era: " + e.Reason }

func (e *OtherEraError) Unwrap() error { return e.Err }

// RevisionError means that a server speaks only unsupported revisions of the stateless era.
type RevisionError struct{ Supported string }

func (e *RevisionError) Error() string {
	return fmt.Sprintf("server supports the protocol revisions %s, and we %v and %v (update this program or the server)",
		e.Supported, protocol.Stateless.Names(), protocol.Handshake.Names())
}

// Discover asks the server for the server's description (revision 2026-07-28, server/discover). The
// error is an *OtherEraError if the server answers as if server/discover were unknown, and a
// *RevisionError if the server speaks none of our revisions. All other errors say nothing about the
// era: the server may be down, or refuse us (revision 2026-07-28, basic/versioning).
func (l *Link) Discover(ctx context.Context) (Server, error) {
	reply, err := l.discover(ctx)
	if err != nil {
		return Server{}, err
	}
	if bad := errorOf(reply); bad != nil && bad.Code == protocol.CodeUnsupportedVersion {
		// Some servers refuse the first request with any revision.
		revision, err := choose(reply.Error, "data", "supported")
		if err != nil {
			return Server{}, err
		}
		l.revision.Store(revision)
		if reply, err = l.discover(ctx); err != nil {
			return Server{}, err
		}
	}
	if bad := errorOf(reply); bad != nil {
		switch bad.Code {
		case protocol.CodeHeaderMismatch, protocol.CodeMissingCapability, protocol.CodeUnsupportedVersion:
			bad.Message = link.Excerpt(bad.Message)
			return Server{}, fmt.Errorf("server refused %s: %w", protocol.MethodDiscover, bad)
		}
		return Server{}, &OtherEraError{Reason: fmt.Sprintf("%s was answered with error %d: %s", protocol.MethodDiscover, bad.Code, link.Excerpt(bad.Message))}
	}
	s, err := ReadServer(reply.Result)
	if err == nil {
		l.revision.Store(s.Revision)
	}
	return s, err
}

// discover sends a server/discover.
func (l *Link) discover(ctx context.Context) (wire.Reply, error) {
	out, err := l.request(wire.Call{Method: protocol.MethodDiscover})
	if err != nil {
		return wire.Reply{}, err
	}
	reply, err := l.Link.Call(ctx, out)
	var status *httpclient.StatusError
	switch {
	case err == nil:
	case errors.As(err, &status):
		if status.Status/100 == 4 && !inconclusive[status.Status] || status.Status/100 == 2 {
			return reply, &OtherEraError{Reason: fmt.Sprintf("%s was answered with %v", protocol.MethodDiscover, status), Err: err}
		}
	case errors.Is(err, wire.ErrUnusable):
		return reply, &OtherEraError{Reason: err.Error(), Err: err}
	}
	return reply, err
}

// inconclusive are the statuses of a response from a gateway in front of the server, or of a
// response that another request may not get.
var inconclusive = map[int]bool{401: true, 403: true, 407: true, 408: true, 429: true}

func errorOf(reply wire.Reply) *wire.RPCError {
	if reply.Error == nil {
		return nil
	}
	return wire.ParseError(reply.Error)
}

// choose returns the newest of the server's revisions that we support. raw has their names at path.
func choose(raw []byte, path ...string) (protocol.Revision, error) {
	list, _ := wire.Get(raw, path...)
	items, _ := wire.Elements(list)
	names := map[string]bool{} // the known names
	for _, item := range items {
		name, _ := wire.Text(item)
		_, stateless := protocol.Stateless.Lookup(name)
		_, handshake := protocol.Handshake.Lookup(name)
		if stateless || handshake {
			names[name] = true
		}
	}
	for _, name := range protocol.Stateless.Names() { // newest first
		if names[name] {
			revision, _ := protocol.Stateless.Lookup(name)
			return revision, nil
		}
	}
	for _, name := range protocol.Handshake.Names() {
		if names[name] {
			return protocol.Revision{}, &OtherEraError{Reason: "it names only revisions of the other era, for example " + name}
		}
	}
	return protocol.Revision{}, &RevisionError{Supported: link.Excerpt(string(list))}
}

// ReadServer reads the result of server/discover. Any other result comes from a server that answers
// unknown requests, too.
func ReadServer(result []byte) (Server, error) {
	kind, ok := envelope.ResultType(result)
	capabilities, _ := wire.Get(result, "capabilities")
	versions, _ := wire.Get(result, "supportedVersions")
	if items, err := wire.Elements(versions); err != nil || len(items) == 0 || !ok || kind != envelope.TypeComplete || !wire.IsObject(capabilities) {
		return Server{}, &OtherEraError{Reason: fmt.Sprintf("the answer to %s is not a result of the request", protocol.MethodDiscover)}
	}
	revision, err := choose(result, "supportedVersions")
	if err != nil {
		return Server{}, err
	}
	s := Server{Revision: revision, Capabilities: capabilities}
	var out wire.Object
	out.Text("protocolVersion", revision.String())
	out.Raw("capabilities", capabilities)
	meta, _ := wire.Get(result, "_meta")
	info, ok := wire.Get(meta, envelope.KeyServerInfo)
	if ok && wire.IsObject(info) {
		out.Raw("serverInfo", info)
		s.Name, _ = wire.GetString(info, "name")
		s.Version, _ = wire.GetString(info, "version")
	}
	if instructions, ok := wire.GetString(result, "instructions"); ok {
		out.Text("instructions", instructions)
	}
	if wire.IsObject(meta) {
		if rest, err := wire.Delete(meta, envelope.KeyServerInfo); err == nil && string(rest) != "{}" {
			out.Raw("_meta", rest)
		}
	}
	s.Initialize = out.Bytes()
	return s, nil
}
