package mcptest

import (
	"bytes"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
