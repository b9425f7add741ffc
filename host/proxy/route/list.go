package route

import (
	"context"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// pageSize is the number of items on a page of a list. Pages are large because some clients never
// ask for a second page.
const pageSize = 1000

// list answers a request for a list, and waits for upstreams that are still starting, as long as
// Options.Settled does.
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
	scope := r.scope(call.Origin.Session())
	if surface == wire.Tools {
		r.Refresh(call.Origin.Session())
	} else if !r.offered(call.Origin.Session(), surface.Capability()) {
		return notFound(call.Method)
	}
	_, done, err := r.Listing.Take(ctx, BudgetKey(call.Origin.Session()))
	if err != nil {
		return fail(wire.CodeInternal, "%s: %v", call.Method, err)
	}
	defer done()
	page, err := scope.Page(surface, cursor, pageSize)
	if err != nil {
		return fail(wire.CodeInvalidParams, "%s: %v", call.Method, err)
	}
	items := page.Items
	if !call.Origin.Revision().Has(protocol.StructuredValues) {
		items = page.Handshake
	}
	if surface == wire.Tools && !MaySave(call.Origin) {
		items = slices.DeleteFunc(items, func(definition []byte) bool {
			name, _ := wire.GetString(definition, "name")
			entry, _ := scope.Tool(name)
			return entry.Saves
		})
	}
	var result wire.Object
	result.Raw(string(surface), wire.Array(items))
	result.NonEmpty("nextCursor", page.Next)
	result.Raw("_meta", page.Meta)
	if isStateless(call.Origin) {
		hints := listHints(scope, surface)
		result.Int("ttlMs", hints.TTL)
		result.Text("cacheScope", hints.Scope)
	}
	return wire.Reply{Result: result.Bytes(), Own: true}
}

// maxToolsTTL is the longest time for which a client may keep the list of tools, in milliseconds.
// Other processes with the same store can save tools, which is only noticed when a client asks for
// the list.
const maxToolsTTL = 5000

// listHints returns how long a client may keep a list. The tools in the list depend on the
// credentials of the client, and saved tools belong to this user.
func listHints(of *catalog.Scope, surface wire.Surface) envelope.Hints {
	hints := of.Hints(surface)
	if surface == wire.Tools {
		hints = hints.And(envelope.Hints{TTL: maxToolsTTL, Scope: envelope.ScopePrivate})
	}
	return hints
}
