package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Bounds of one listing, far above what servers have, so that one with endless
// cursors comes to an end.
const (
	maxPages = 1000
	maxTools = 20000
)

// listing collects the tool definitions of one server, page by page.
type listing struct {
	log   *slog.Logger
	tools [][]byte
	names map[string]bool
}

// listTools lists all tools of the server behind conn: raw definitions in the
// server's order. A definition that could never be called, having no name or
// that of an earlier one, is left out with a warning. Cursors that repeat or
// never end stop the listing with a warning, and what was listed counts.
func listTools(ctx context.Context, conn *Conn, log *slog.Logger) ([][]byte, error) {
	l := listing{log: log, tools: [][]byte{}, names: make(map[string]bool)}
	params := []byte("{}") // some servers reject a request without params
	cursors := make(map[string]bool)
	for page := 1; ; page++ {
		reply, err := conn.Call(ctx, string(mcp.MethodToolsList), params, nil)
		if err != nil {
			return nil, err
		}
		if reply.Error != nil {
			return nil, fmt.Errorf("server refused tools/list: %w", refusal(reply.Error))
		}
		if err := l.add(reply.Result); err != nil {
			return nil, err
		}
		cursor, ok := wire.GetString(reply.Result, "nextCursor")
		switch {
		case !ok || cursor == "":
			return l.tools, nil
		case cursors[cursor]:
			log.Warn("tools/list repeats a cursor; listing ended there", "cursor", clip(cursor), "tools", len(l.tools))
			return l.tools, nil
		case page == maxPages || len(l.tools) >= maxTools:
			log.Warn("tools/list does not end; listing cut off", "pages", page, "tools", len(l.tools))
			return l.tools, nil
		}
		cursors[cursor] = true
		raw, _ := wire.Get(reply.Result, "nextCursor")
		params, _ = wire.Set(nil, raw, "cursor")
	}
}

func (l *listing) add(page []byte) error {
	raw, ok := wire.Get(page, "tools")
	if !ok {
		return errors.New(`answer to tools/list has no "tools"`)
	}
	tools, err := wire.Elements(raw)
	if err != nil {
		return fmt.Errorf(`answer to tools/list: "tools": %w`, err)
	}
	for _, tool := range tools {
		name, ok := wire.GetString(tool, "name")
		switch {
		case !ok || name == "":
			l.log.Warn("tool without a name left out", "definition", clip(string(tool[:min(len(tool), maxExcerpt)])))
		case l.names[name]:
			l.log.Warn("second tool of the same name left out", "tool", clip(name))
		default:
			l.names[name] = true
			l.tools = append(l.tools, tool)
		}
	}
	return nil
}
