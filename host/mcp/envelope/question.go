package envelope

import (
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Question returns the form in inputRequests of a request of a server of the handshake era to a
// client: without the members that a separate answer needs (progressToken, elicitationId). It fails
// if the params are not an object.
func Question(method string, params []byte) ([]byte, error) {
	if params != nil {
		var err error
		if params, err = questionParams(method, params); err != nil {
			return nil, err
		}
	}
	request := wire.NewObject(len(method) + len(params) + 32)
	request.Text("method", method)
	request.Raw("params", params)
	return request.Bytes(), nil
}

func questionParams(method string, params []byte) ([]byte, error) {
	params, err := wire.Delete(params, "_meta", "progressToken")
	if err == nil && method == protocol.MethodElicit {
		params, err = wire.Delete(params, "elicitationId")
	}
	if meta, ok := wire.Get(params, "_meta"); ok && err == nil && string(meta) == "{}" {
		params, err = wire.Delete(params, "_meta")
	}
	return params, err
}

// answerMember is the mandatory member of answers to the questions of a method, and the kind of the
// member's value.
var answerMember = map[string]struct {
	name string
	kind byte
}{
	protocol.MethodElicit:        {"action", '"'},
	protocol.MethodCreateMessage: {"role", '"'},
	protocol.MethodRootsList:     {"roots", '['},
}

// CheckAnswer returns the fault of an answer, or "".
func CheckAnswer(method string, answer []byte) string {
	if !wire.IsObject(answer) {
		return "must be an object"
	}
	want, ok := answerMember[method]
	if !ok {
		return ""
	}
	if value, _ := wire.Get(answer, want.name); len(value) == 0 || value[0] != want.kind {
		return "is not an answer to " + method + ": " + want.name + " is missing or malformed"
	}
	return ""
}
