package mcptest

import (
	"encoding/json"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

func result(format string, args ...any) wire.Reply {
	return wire.Reply{Result: fmt.Appendf(nil, format, args...)}
}

func rpcError(code int, message string) wire.Reply {
	return wire.Reply{Error: wire.Errorf(code, "%s", message).Raw()}
}

// reply handles the request. The zero Reply sends no answer.
func (c *call) reply() wire.Reply {
	if !c.srv.isModern(c.msg) {
		return c.legacy()
	}
	if bad := c.srv.refusal(c.msg, nil); bad.Error != nil {
		return bad
	}
	return c.modern()
}

// legacy handles a request as in the era of sessions.
func (c *call) legacy() wire.Reply {
	params := c.msg.Params
	for _, surface := range wire.Surfaces {
		if c.msg.Method == surface.ListMethod() {
			return c.srv.list(surface, params)
		}
	}
	if params == nil {
		params = []byte("null")
	}
	switch c.msg.Method {
	case "initialize":
		return c.initialize()
	case "ping":
		return result(`{}`)
	case "tools/call":
		return c.callTool()
	case "resources/read":
		uri, _ := wire.Get(params, "uri")
		return result(`{"contents":[{"uri":%s,"mimeType":"text/plain","text":"\u00e9","_meta":{"n":9007199254740993},"x":1.0},{"uri":"raw://blob","blob":"AAEC"},{"uri":"raw://odd","hologram":1e400}],"_meta":{"example.com/read":1e2},"received":%s,%s}`, uri, params, oddities)
	case "resources/subscribe", "resources/unsubscribe", "logging/setLevel":
		return result(`{"_meta":{"example.com/empty":1.0}}`)
	case "prompts/get":
		return result(`{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"x","_meta":{"n":1.0}},"x":1},{"role":"oracle","content":{"type":"hologram","n":1e400}}],"_meta":{"n":-0},"received":%s,%s}`, params, oddities)
	case "completion/complete":
		return result(`{"completion":{"values":["a","\u00e9"],"total":9007199254740993,"hasMore":false,"x":1.0},"_meta":{"n":1e400},"received":%s}`, params)
	case "tasks/get", "tasks/list", "tasks/cancel", "tasks/result":
		return c.taskMethod()
	case "x-unknown/method":
		return result(`{"received":%s,%s}`, params, oddities)
	}
	return rpcError(wire.CodeMethodNotFound, "method not found: "+c.msg.Method)
}

// Instructions are the instructions of the server.
const Instructions = "Handle with care."

func (c *call) initialize() wire.Reply {
	if _, samples := wire.Get(c.msg.Params, "capabilities", "sampling"); samples && c.srv.sw.SamplingTool {
		c.srv.change(wire.Tools)
	}
	revision := c.srv.sw.Revision
	if revision == "" {
		revision, _ = wire.GetString(c.msg.Params, "protocolVersion")
	}
	capabilities := c.srv.sw.Capabilities
	if capabilities == "" {
		capabilities = allCapabilities
	}
	return result(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":%q,"title":"Raw \u00e9","version":"0.1"},"instructions":%q,"_meta":{"example.com/init":{"n":9007199254740993}},"x-init":1.0}`,
		revision, capabilities, c.srv.sw.Name, Instructions)
}

// argument returns a raw argument of the tool call; nil if absent.
func (c *call) argument(name string) []byte {
	raw, _ := wire.Get(c.msg.Params, "arguments", name)
	return raw
}

// text returns a string argument.
func (c *call) text(name string) string {
	s, _ := wire.GetString(c.msg.Params, "arguments", name)
	return s
}

// number returns an integer argument; 0 if absent.
func (c *call) number(name string) int {
	var n int
	_ = json.Unmarshal(c.argument(name), &n)
	return n
}
