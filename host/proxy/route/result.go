package route

import (
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// ErrorResult returns the CallToolResult of a failed tool, with a single text block.
func ErrorResult(text string) []byte {
	return wire.Marshal(struct {
		Content []textBlock `json:"content"`
		IsError bool        `json:"isError"`
	}{[]textBlock{{"text", text}}, true})
}

// fail returns a reply with a JSON-RPC error.
func fail(code int, format string, args ...any) wire.Reply {
	return wire.Reply{Error: wire.Errorf(code, format, args...).Raw()}
}

// empty returns a reply with an empty result.
func empty() wire.Reply { return wire.Reply{Result: []byte("{}")} }

// checkMeta returns an error if the _meta of params is not an object.
func checkMeta(method string, params []byte) *wire.RPCError {
	if meta, ok := wire.Get(params, "_meta"); ok && !wire.IsObject(meta) {
		return wire.Errorf(wire.CodeInvalidParams, "%s: params._meta must be an object", method)
	}
	return nil
}

// stringParam returns a member of params that must be a string.
func stringParam(call Call, name string) (string, *wire.RPCError) {
	var found [2][]byte
	wire.Pick(call.Params, []string{"_meta", name}, found[:])
	return textOf(call.Method, name, found[0], found[1])
}

// textOf returns the value of the member called name of params, which must be a
// string. meta is the _meta of the params, nil for none.
func textOf(method, name string, meta, value []byte) (string, *wire.RPCError) {
	if meta != nil && meta[0] != '{' {
		return "", wire.Errorf(wire.CodeInvalidParams, "%s: params._meta must be an object", method)
	}
	text, ok := wire.Text(value)
	if !ok {
		return "", wire.Errorf(wire.CodeInvalidParams, "%s: params.%s must be a string", method, name)
	}
	return text, nil
}
