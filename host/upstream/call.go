package upstream

import "github.com/mcp-metatool/mcp-metatool/host/wire"

// outcome is what a request over HTTP has come to.
type outcome struct {
	reply wire.Reply
	err   error
}

// withToken puts our progress token into params, or takes a token of the
// client out.
func withToken(call wire.Call, of *ids, id int64) ([]byte, error) {
	params := call.Params
	if call.Progress != nil {
		out, err := wire.Set(params, of.token(id), "_meta", "progressToken")
		if err != nil {
			return nil, wire.Errorf(wire.CodeInvalidParams, "invalid params: params and params._meta must be objects")
		}
		return out, nil
	}
	if _, ok := wire.Get(params, "_meta", "progressToken"); !ok {
		return params, nil
	}
	out, err := wire.Delete(params, "_meta", "progressToken")
	if err != nil { // no objects, so no token; the server may judge them
		return params, nil
	}
	return out, nil
}
