package host

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// pageSize is the number of tools on one page of tools/list. It is large
// because some clients never ask for a second page.
const pageSize = 1000

// ListTools implements front.Backend. It waits for upstreams that are still
// starting, until startup_wait after the start of the Host.
func (h *Host) ListTools(ctx context.Context, cursor string) (tools [][]byte, next string, err error) {
	h.settled(ctx)
	h.refreshComposites() // another process may have saved or deleted a tool
	page, next, err := h.catalog.Page(cursor, pageSize)
	if err != nil {
		return nil, "", wire.Errorf(wire.CodeInvalidParams, "tools/list: %v", err)
	}
	for _, e := range page {
		tools = append(tools, e.Definition)
	}
	return tools, next, nil
}

// CallTool implements front.Backend.
func (h *Host) CallTool(ctx context.Context, call route.Call) wire.Reply {
	e, ok := h.catalog.Lookup(call.Name)
	if !ok || e.Kind == catalog.Composite {
		h.refreshComposites()
	}
	return h.router.CallTool(ctx, call)
}

// settled waits until no upstream is starting any more, startup_wait is over,
// or ctx ends.
func (h *Host) settled(ctx context.Context) {
	timer := time.NewTimer(time.Until(h.started.Add(h.cfg.StartupWait)))
	defer timer.Stop()
	for _, up := range h.upstreams {
		select {
		case <-up.Started():
			continue
		default:
		}
		select {
		case <-up.Started():
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Upstreams waits until every upstream has started or failed, or ctx ends, and
// reports on all of them in the order of the configuration.
func (h *Host) Upstreams(ctx context.Context) []upstream.Status {
	report := make([]upstream.Status, len(h.upstreams))
	for i, up := range h.upstreams {
		select {
		case <-up.Started():
		case <-ctx.Done():
		}
		report[i] = up.Status()
	}
	return report
}

// Problems are collisions of tool names, one readable line each.
func (h *Host) Problems() []string { return h.catalog.Problems() }
