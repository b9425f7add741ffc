package mcptest

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
