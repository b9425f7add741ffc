package route

import (
	"context"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// pageSize is the number of items on one page of a list. It is large because
// some clients never ask for a second page.
const pageSize = 1000

// list answers a request for a list. It waits for upstreams that are still starting,
// as long as Options.Settled does.
func (r *Router) list(ctx context.Context, call Call, surface wire.Surface) wire.Reply {
	cursor := ""
	if raw, ok := wire.Get(call.Params, "cursor"); ok {
		if cursor, ok = wire.GetString(call.Params, "cursor"); !ok {
			return fail(wire.CodeInvalidParams, "%s: params.cursor must be a string, got %.64s", call.Method, raw)
		}
	}
	r.Settled(ctx)
	if r.Refreshed != nil {
		r.Refreshed(ctx, call.Origin.Session(), surface)
	}
	if surface == wire.Tools {
		r.Refresh()
	} else if !r.offered(call.Origin.Session(), surface.Capability()) {
		return notFound(call.Method)
	}
	page, err := r.Catalog.Page(surface, cursor, pageSize)
	if err != nil {
		return fail(wire.CodeInvalidParams, "%s: %v", call.Method, err)
	}
	if surface == wire.Tools && !MaySave(call.Origin) {
		page.Items = slices.DeleteFunc(page.Items, r.saves)
	}
	var result wire.Object
	result.Raw(string(surface), wire.Array(page.Items))
	result.NonEmpty("nextCursor", page.Next)
	result.Raw("_meta", page.Meta)
	return wire.Reply{Result: result.Bytes()}
}

// saves reports whether a definition is that of a tool that changes saved tools.
func (r *Router) saves(definition []byte) bool {
	name, _ := wire.GetString(definition, "name")
	entry, _ := r.Catalog.Tool(name)
	return entry.Saves
}
