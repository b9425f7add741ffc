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

// composites answers calls of saved tools.
type composites struct {
	store    *tools.Store
	composer *compose.Composer
}

func (c *composites) CallTool(ctx context.Context, call route.Call) wire.Reply {
	def, err := c.store.Get(call.Name)
	switch {
	case errors.Is(err, tools.ErrNotFound):
		return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "unknown tool: %s (it was deleted)", call.Name).Raw()}
	case err != nil:
		return wire.Reply{Result: (&compose.Failure{Type: abi.ErrValidation, Message: err.Error()}).Result()}
	}
	return c.composer.CallSaved(ctx, def, call)
}
