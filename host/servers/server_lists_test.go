package servers

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// countStart adds a byte to the file that counts the starts of a server, and
// returns how many there were.
func countStart() int {
	path := os.Getenv(startsEnv)
	if path == "" {
		return 0
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte{'.'}); err != nil {
		panic(err)
	}
	fi, err := f.Stat()
	if err != nil {
		panic(err)
	}
	return int(fi.Size())
}

// listLong answers with a page of a list that is longer than it may be, if that is the mode.
func (s *rawServer) listLong(mode string, m rawMessage) bool {
	var p struct{ Cursor string }
	_ = json.Unmarshal(m.Params, &p)
	from, to, next := 0, maxItems+1, ""
	switch {
	case mode == "long page":
	case mode == "long last page" && p.Cursor == "":
		to, next = maxItems-1, "2"
	case mode == "long last page":
		from = maxItems - 1
	case mode == "twins": // of which the first is kept
		to, next = maxItems, p.Cursor+"x"
	default:
		return false
	}
	surface := map[string]wire.Surface{"tools/list": wire.Tools, "resources/list": wire.Resources, "resources/templates/list": wire.Templates, "prompts/list": wire.Prompts}[m.Method]
	items := make([]string, 0, to-from)
	for i := range to - from {
		if i += from; mode == "twins" {
			i = 0
		}
		items = append(items, fmt.Sprintf(`{"name":"%d","uri":"a:%[1]d","uriTemplate":"a:%[1]d"}`, i))
	}
	s.result(m.ID, fmt.Sprintf(`{%q:[%s],"nextCursor":%q}`, surface, strings.Join(items, ","), next))
	return true
}

// listTogether holds requests for lists until there is one for each surface, if that is the mode.
func (s *rawServer) listTogether(mode string, m rawMessage) bool {
	if mode != "lists together" || len(s.held) == len(wire.Surfaces) {
		return false
	}
	if s.held = append(s.held, m); len(s.held) == len(wire.Surfaces) {
		for _, held := range s.held {
			s.handle("surfaces", held)
		}
	}
	return true
}

// listMore lists the surfaces other than tools.
func (s *rawServer) listMore(mode string, m rawMessage) {
	var p struct{ Cursor string }
	_ = json.Unmarshal(m.Params, &p)
	switch {
	case m.Method == "resources/list" && mode == "resources hang":
		s.waiting[m.Method] = m.ID
	case m.Method == "resources/list" && mode == "resources fail":
		s.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no disk"}}`, m.ID)
	case m.Method == "resources/list" && p.Cursor == "":
		s.result(m.ID, `{"resources":[{"uri":"file:///a","name":"same"},{"uri":"file:///a"}],"_meta":{"k":1,"first":1e400},"nextCursor":"2"}`)
	case m.Method == "resources/list":
		s.result(m.ID, `{"_meta":{"second":[],"k":2},"resources":[{"name":"no uri"},{"uri":"file:///b","name":"same"}]}`)
	case m.Method == "resources/templates/list" && mode != "refuses templates":
		s.result(m.ID, `{"resourceTemplates":[{"uriTemplate":"file:///{x}"}],"_meta":5}`)
	case m.Method == "prompts/list":
		var prompts []string
		for i := range s.prompts + 1 {
			prompts = append(prompts, fmt.Sprintf(`{"name":"p%d"}`, i))
		}
		s.result(m.ID, `{"prompts":[`+strings.Join(prompts, ",")+`],"_meta":{ "n" : 9007199254740993 }}`)
	case m.ID != nil:
		s.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
	}
}
