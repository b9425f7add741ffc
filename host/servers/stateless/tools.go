package stateless

import (
	"log/slog"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// tools knows which arguments of which tools are repeated in headers.
type tools struct {
	mu     sync.Mutex
	params map[string]envelope.Params // of the tools with any
}

func (t *tools) of(name string) envelope.Params {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.params[name]
}

// SetTools sets the server's tools, and returns the tools that clients may see. Over HTTP, tools
// with wrong definitions of headers for arguments are left out with a warning (revision 2026-07-28,
// basic/transports/streamable-http, "Schema Extension").
func (l *Link) SetTools(items [][]byte) [][]byte {
	if !l.opts.HTTP {
		return items
	}
	params, valid := map[string]envelope.Params{}, make([][]byte, 0, len(items))
	for _, item := range items {
		name, _ := wire.GetString(item, "name")
		schema, _ := wire.Get(item, "inputSchema")
		p, err := envelope.ParseParams(schema)
		if err != nil {
			l.opts.Log.Warn("a tool was left out because the headers for its arguments are defined wrongly",
				slog.String("tool", link.Excerpt(name)), slog.String("err", link.Excerpt(err.Error())))
			continue
		}
		if !p.IsEmpty() {
			params[name] = p
		}
		valid = append(valid, item)
	}
	l.tools.mu.Lock()
	defer l.tools.mu.Unlock()
	l.tools.params = params
	return valid
}
