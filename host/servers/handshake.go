package servers

import (
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// ClientParams are the params of initialize.
type ClientParams struct {
	Name, Version string // clientInfo
	Capabilities  []byte // raw object; nil: {}
}

// InitializeResult is a server's answer to initialize. A missing string is "".
type InitializeResult struct {
	ProtocolVersion string
	ServerName      string
	ServerVersion   string
	Instructions    string
	Capabilities    []byte // raw; nil if absent
	Raw             []byte // the whole result
}

// Conn is the part of a link for the handshake.
type Conn interface {
	Call(ctx context.Context, call wire.Call) (wire.Reply, error)
	Notify(ctx context.Context, method string, params []byte) error
	Negotiated(revision protocol.Revision)
}

// Initialize does the handshake (revision 2025-11-25, basic/lifecycle): Initialize sends initialize
// with raw params (see ClientParams.Params), checks the answer, and sends
// notifications/initialized. Initialize must be called once, before any other request. After an
// error the connection is unusable and should be closed. The error wraps a *wire.RPCError if the
// server refused, is a *VersionError if the server chose an unsupported revision, or is an error of
// Call.
func Initialize(ctx context.Context, conn Conn, params []byte) (InitializeResult, error) {
	reply, err := conn.Call(ctx, wire.Call{Method: protocol.MethodInitialize, Params: params})
	if err != nil {
		return InitializeResult{}, err
	}
	if reply.Error != nil {
		return InitializeResult{}, fmt.Errorf("server refused initialize: %w", parseError(reply.Error))
	}
	res := InitializeResult{Raw: reply.Result}
	res.ProtocolVersion, _ = wire.GetString(reply.Result, "protocolVersion")
	revision, ok := protocol.Handshake.Lookup(res.ProtocolVersion)
	if !ok {
		return InitializeResult{}, &VersionError{Version: link.Excerpt(res.ProtocolVersion)}
	}
	res.ServerName, _ = wire.GetString(reply.Result, "serverInfo", "name")
	res.ServerVersion, _ = wire.GetString(reply.Result, "serverInfo", "version")
	res.Instructions, _ = wire.GetString(reply.Result, "instructions")
	res.Capabilities, _ = wire.Get(reply.Result, "capabilities")
	conn.Negotiated(revision)
	return res, conn.Notify(ctx, protocol.NotificationInitialized, nil)
}

// Params returns the raw params object of initialize.
func (p ClientParams) Params() []byte {
	if p.Capabilities == nil {
		p.Capabilities = []byte("{}")
	}
	var params, client wire.Object
	params.Text("protocolVersion", protocol.Handshake.Newest().String())
	params.Raw("capabilities", p.Capabilities)
	client.Text("name", p.Name)
	client.Text("version", p.Version)
	params.Raw("clientInfo", client.Bytes())
	return params.Bytes()
}

// parseError parses a server's error object and makes the message safe to show.
func parseError(raw []byte) *wire.RPCError {
	e := wire.ParseError(raw)
	e.Message = link.Excerpt(e.Message)
	return e
}
