package host

import (
	"context"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// refreshComposites brings the catalog up to what the store has.
func (h *Host) refreshComposites() {
	h.refreshing.Lock() // a slow refresh must not overwrite the result of a later one
	defer h.refreshing.Unlock()
	definitions := h.store.List()
	entries := make([]catalog.Entry, len(definitions))
	for i, d := range definitions {
		entries[i] = catalog.Entry{Name: d.Name, Definition: compose.ToolDefinition(d)}
	}
	h.catalog.SetComposites(entries)
}

// builtins answers calls of built-in tools.
type builtins struct{ host *Host }

func (b builtins) CallTool(ctx context.Context, name string, call route.Call) wire.Reply {
	return b.host.now.Load().manager.CallTool(ctx, name, call)
}

// composites answers calls of saved tools.
type composites struct{ host *Host }

func (c composites) CallTool(ctx context.Context, name string, call route.Call) wire.Reply {
	def, err := c.host.store.Get(name)
	switch {
	case errors.Is(err, tools.ErrNotFound):
		return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "unknown tool: %s (it was deleted)", name).Raw()}
	case err != nil:
		return wire.Reply{Result: (&compose.Failure{Type: abi.ErrValidation, Message: err.Error()}).Result()}
	}
	return c.host.now.Load().composer.CallSaved(ctx, def, call)
}
