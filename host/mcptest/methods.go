package mcptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

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

// callTool runs a tool. Tools report progress only if the request has a token.
//
//	echo {…}                 the params of the call, as "received"
//	exotic {}                a result unknown to MCP
//	error {code}             a JSON-RPC error with data; -32042 without a code
//	count {times}            progress that many times, then an answer
//	wait {}                  progress once, then no answer until cancelled
//	burst {count, method}    count numbered notifications (notifications/message)
//	notify {method, params, general}  one notification; on the general stream if set
//	ask {method, params}     a request to the client; the raw answer (see askModern, too)
//	change {list}            adds an item, and sends list_changed
//	touch {uri}              resources/updated
//	idle {}                  an answer once no other tool is running
//	task, task-step          see tasks.go
//	fault {kind, …}          see Fault
//	instead {text, isError}  a text block with the text
func (c *call) callTool() wire.Reply {
	if c.srv.sw.CallTool != nil {
		return c.srv.sw.CallTool(c.cancelled, c.tool, c.msg.Params)
	}
	if c.srv.sw.Items != nil {
		return result(`{"content":[{"type":"text","text":"done"}],"received":%s}`, c.msg.Params)
	}
	switch c.tool {
	case "echo", "fault":
		return result(`{"content":[],"received":%s}`, c.msg.Params)
	case "exotic":
		return result(exotic, c.msg.Params)
	case "instead":
		if string(c.argument("isError")) == "true" {
			return result(`{"content":[{"type":"text","text":%s}],"isError":true}`, c.argument("text"))
		}
		return result(`{"content":[{"type":"text","text":%s}]}`, c.argument("text"))
	case "error":
		code := c.number("code")
		if code == 0 {
			code = -32042
		}
		return wire.Reply{Error: fmt.Appendf(nil, `{"code":%d,"message":"no <such> thing \u00e9","data":{"n":9007199254740993,"_meta":{"x":1.0}},"x":1e400}`, code)}
	case "count":
		for i := range c.number("times") {
			c.progress(i+1, fmt.Sprintf(`,"total":%d,"message":"step %d","_meta":{"n":9007199254740993},"x":1.0`, c.number("times"), i+1))
		}
		return result(`{"content":[],"counted":%d}`, c.number("times"))
	case "wait":
		c.progress(0, `,"message":"waiting"`)
		<-c.cancelled
		return wire.Reply{}
	case "burst":
		return c.burst()
	case "notify":
		return c.notifyOnce()
	case "ask":
		return c.askClient()
	case "change":
		surface := wire.Surface(c.text("list"))
		c.srv.change(surface)
		if !c.srv.isModern(c.msg) {
			c.notify(surface.ChangedMethod(), []byte(`{"_meta":{"n":9007199254740993}}`))
		}
		c.srv.Publish(surface.ChangedMethod(), "")
		return result(`{"content":[]}`)
	case "touch":
		if !c.srv.isModern(c.msg) {
			c.notify("notifications/resources/updated", fmt.Appendf(nil, `{"uri":%s,"title":"t","_meta":{"n":9007199254740993},"x":1.0}`, c.argument("uri")))
		}
		c.srv.Publish("notifications/resources/updated", fmt.Sprintf(`{"uri":%s,"title":"t","x":1.0}`, c.argument("uri")))
		return result(`{"content":[]}`)
	case "idle":
		if !c.waitForOthers() {
			return wire.Reply{}
		}
		return result(`{"content":[],"idle":true}`)
	case "task":
		return c.callTask()
	case "task-step":
		return c.stepTask()
	}
	return rpcError(wire.CodeInvalidParams, "unknown tool: "+c.tool)
}

// progress sends a progress notification if the request has a token. more is raw
// JSON of additional members.
func (c *call) progress(n int, more string) {
	if token, ok := wire.Get(c.msg.Params, "_meta", "progressToken"); ok {
		c.notify("notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":%d%s}`, token, n, more))
	}
}

func (c *call) burst() wire.Reply {
	method := c.text("method")
	if method == "" {
		method = "notifications/message"
	}
	for i := range c.number("count") {
		params := fmt.Appendf(nil, `{"n":%d,"_meta":{"n":1.0}}`, i)
		if method == "notifications/message" {
			params = fmt.Appendf(nil, `{"level":"info","logger":"burst","data":{"n":%d},"_meta":{"n":1.0}}`, i)
		}
		c.notify(method, params)
	}
	return result(`{"content":[],"sent":%d}`, c.number("count"))
}

func (c *call) notifyOnce() wire.Reply {
	if string(c.argument("general")) == "true" {
		c.general.send(wire.Notification(c.text("method"), c.argument("params")), false)
	} else {
		c.notify(c.text("method"), c.argument("params"))
	}
	return result(`{"content":[]}`)
}

func (c *call) askClient() wire.Reply {
	answer, progress, ok := c.ask(c.text("method"), c.argument("params"))
	if !ok {
		return wire.Reply{}
	}
	kind, raw := "result", answer.Result
	if answer.Error != nil {
		kind, raw = "error", answer.Error
	}
	return result(`{"content":[],%q:%s,"progress":[%s]}`, kind, raw, bytes.Join(progress, []byte(",")))
}

// Tools are the names of the server's tools at the start, in the server's order.
var Tools = []string{
	"wait", "echo", "exotic", "count", "burst", "notify", "ask", "error", "change", "touch",
	"idle", "task", "task-step", "fault", "instead",
}

// The URIs and names of the server's other items at the start.
var (
	Resources = []string{"raw://text", "raw://blob", "file:///tmp/a%20b?x=%C3%A9#f", "raw://many"}
	Templates = []string{"raw://{+path}", "raw://items/{id}{?q*}"}
	Prompts   = []string{"greet", "report"}
)

// oddities are members unknown to MCP, with values that typed proxies change: integers that doubles
// cannot hold, numbers out of range, digits without significance, several spellings of seemingly
// equal names.
const oddities = `"x-unknown":{"n":9007199254740993,"large":1e400,"exact":1.10,"zero":-0,"huge":123456789012345678901234567890,` +
	`"esc":"\u00e9\/\ud83d\ude00 <>&\u2028","none":null,"empty":{},"list":[],"\u00e9":1,"e\u0301":2,"\u00c9":3}`

// schema is an input schema with members that translators of schemas lose.
const schema = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{"type":"integer","maximum":9007199254740993,"x-note":1.0}},` +
	`"$defs":{"b":{"enum":[1.0,null,"x"]}},"properties":{"z":{"$ref":"#/definitions/a"},"a":{"$ref":"#/$defs/b"},"e":{"const":-0}},"patternProperties":{"^x":{}},"additionalProperties":true}`

func definitions() map[wire.Surface][]string {
	items := map[wire.Surface][]string{}
	for i, name := range Tools {
		more := ""
		switch name {
		case "exotic":
			more = `,"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"x-out":1e2}`
		case "task":
			more = `,"execution":{"taskSupport":"optional","x-exec":1.0}`
		}
		items[wire.Tools] = append(items[wire.Tools], fmt.Sprintf(
			`{"name":%q,"title":"Tool %d \u00e9","description":"line\nbreak \u2028","inputSchema":%s%s,"annotations":{"readOnlyHint":false,"x-vendor":[1.0]},`+
				`"icons":[{"src":"data:,x","sizes":["48x48"],"theme":"dark","x":0.10}],"_meta":{"example.com/n":9007199254740993,"v":1e2},%s}`, name, i, schema, more, oddities))
	}
	for i, uri := range Resources {
		items[wire.Resources] = append(items[wire.Resources], fmt.Sprintf(
			`{"uri":%s,"name":"r%d","size":9007199254740993,"annotations":{"audience":["user"],"priority":1.0,"lastModified":"2025-01-12T15:00:58Z"},"_meta":{"n":1e300},%s}`, wire.Quote(uri), i, oddities))
	}
	for i, uri := range Templates {
		items[wire.Templates] = append(items[wire.Templates], fmt.Sprintf(
			`{"uriTemplate":%s,"name":"t%d","mimeType":"text/plain","_meta":{"n":1.0},%s}`, wire.Quote(uri), i, oddities))
	}
	for _, name := range Prompts {
		items[wire.Prompts] = append(items[wire.Prompts], fmt.Sprintf(
			`{"name":%q,"arguments":[{"name":"who","required":false,"_meta":{"n":1.0},"x":9007199254740993}],"_meta":{"n":-0},%s}`, name, oddities))
	}
	return items
}

// list returns a page. Cursors are opaque to clients; these contain a number that a double cannot
// hold.
func (s *Server) list(surface wire.Surface, params []byte) wire.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	items, start := s.items[surface], 0
	if cursor, ok := wire.GetString(params, "cursor"); ok {
		if _, err := fmt.Sscanf(cursor, "9007199254740993:%d", &start); err != nil || start < 0 || start > len(items) {
			return rpcError(wire.CodeInvalidParams, "invalid cursor")
		}
	}
	end, next := start+s.sw.PageSize, ""
	if end < len(items) {
		next = fmt.Sprintf(`"nextCursor":"9007199254740993:%d",`, end)
	}
	page := strings.Join(items[start:min(end, len(items))], ",")
	return result(`{%s%q:[%s],"_meta":{"example.com/list":{"n":9007199254740993,"of":%q}},"x-list":1.0}`, next, string(surface), page, string(surface))
}

// change adds an item to a list. The caller sends the notification.
func (s *Server) change(surface wire.Surface) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	key := ""
	if surface.Key() != "name" {
		key = fmt.Sprintf(`%q:"raw://added-%d",`, surface.Key(), s.changes)
	}
	s.items[surface] = append(s.items[surface], fmt.Sprintf(
		`{%s"name":"added-%d","inputSchema":{"type":"object"},"_meta":{"n":1.0}}`, key, s.changes))
}

// Replace replaces the items of a list and announces the change to all sessions.
func (s *Server) Replace(surface wire.Surface, items ...string) {
	s.mu.Lock()
	s.items[surface] = items
	s.mu.Unlock()
	for _, session := range s.all() {
		session.general.send(wire.Notification(surface.ChangedMethod(), nil), false)
	}
	s.Publish(surface.ChangedMethod(), "")
}

// allCapabilities are the capabilities that a server declares by default.
const allCapabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"logging":{},"completions":{},` +
	`"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}},"experimental":{"example.com/x":{"n":9007199254740993}}}`

// exotic is a result with every allowed kind of content, and with content unknown to MCP. %s is the
// raw params of the call.
const exotic = `{"content":[{"type":"text","text":"\u00e9\ud83d\ude00 </script>","annotations":{"priority":1.0,"audience":["user"]},"_meta":{"example.com/k":null,"n":9007199254740993}},` +
	`{"type":"hologram","data":1e400,"_meta":{"k":[]}},{"type":"image","data":"AAEC","mimeType":"image/png","x":-0},{"type":"audio","data":"","mimeType":"audio/wav"},` +
	`{"type":"resource","resource":{"uri":"raw://text","text":"x","_meta":{"n":1.10},"x":1}},{"type":"resource_link","uri":"raw://blob","name":"b","size":9007199254740993},` +
	`{"type":"text","text":""}],"isError":false,"structuredContent":{"n":9007199254740993,"f":1.10},"_meta":{"example.com/a":-0,"example.com/b":{"deep":[1e400]}},` + oddities + `,"received":%s}`
