package stateless

import (
	"net/http"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// request returns a call in the form for sending: with the envelope of the call's client, and with
// the headers for this server. The error is a *wire.RPCError.
func (l *Link) request(call wire.Call) (wire.Call, error) {
	client := call.Client
	if client == nil {
		client = l.opts.Client
	}
	revision := l.Revision()
	e := envelope.Of(revision, client, call.LogLevel)
	e.Capabilities = onlyStateless(e.Capabilities)
	params, err := e.Put(call.Params)
	if err == nil {
		params, err = putInputs(params, call.Inputs)
	}
	if err != nil {
		return call, wire.Errorf(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
	}
	header := http.Header{}
	envelope.SetHeaders(header, revision, call.Method, params)
	if call.Method == protocol.MethodToolsCall && l.opts.HTTP {
		name, _ := wire.GetString(params, "name")
		arguments, _ := wire.Get(params, "arguments")
		if err := l.tools.of(name).SetHeaders(header, arguments); err != nil {
			return call, wire.Errorf(wire.CodeInvalidParams, "%s: %v", call.Method, err)
		}
	}
	call.Params, call.Header = params, header
	return call, nil
}

// putInputs adds the answers to the server's questions, and the server's state.
func putInputs(params []byte, in wire.Inputs) ([]byte, error) {
	var err error
	if in.Responses != nil {
		params, err = wire.Set(params, in.Responses, "inputResponses")
	}
	if err == nil && in.State != nil {
		params, err = wire.Set(params, in.State, "requestState")
	}
	return params, err
}

// onlyHandshake are the capabilities of clients that only the handshake era has.
var onlyHandshake = [][]string{{"tasks"}, {"roots", "listChanged"}}

// onlyStateless returns the capabilities of a client without the capabilities that only the
// handshake era has.
func onlyStateless(capabilities []byte) []byte {
	for _, path := range onlyHandshake {
		if _, ok := wire.Get(capabilities, path...); !ok {
			continue
		}
		if rest, err := wire.Delete(capabilities, path...); err == nil {
			capabilities = rest
		}
	}
	return capabilities
}
