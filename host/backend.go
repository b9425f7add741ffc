package host

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Welcome implements front.Backend.
func (h *Host) Welcome(ctx context.Context, s route.Session) (route.Welcome, error) {
	h.upstreams.welcome(s)
	return h.router.Welcome(ctx, s)
}

// Handle implements front.Backend.
func (h *Host) Handle(ctx context.Context, call route.Call) wire.Reply {
	return h.router.Handle(ctx, call)
}

// Notified implements front.Backend.
func (h *Host) Notified(s route.Session, method string, params []byte) {
	h.router.Notified(s, method, params)
}

// Left implements front.Backend.
func (h *Host) Left(s route.Session) {
	h.router.Left(s)
	h.upstreams.left(s)
}

// settled waits until no upstream is starting any more, startup_wait is over,
// counted from the start or the last reload, or ctx ends.
func (h *Host) settled(ctx context.Context) {
	now := h.now.Load()
	timer := time.NewTimer(time.Until(now.since.Add(now.cfg.StartupWait)))
	defer timer.Stop()
	h.upstreams.settled(ctx, timer.C)
}

// Upstreams waits until every upstream has started or failed, or ctx ends, and
// reports on all of them in the order of the configuration.
func (h *Host) Upstreams(ctx context.Context) []upstream.Status {
	h.upstreams.settled(ctx, nil)
	var report []upstream.Status
	for _, s := range h.upstreams.all() {
		report = append(report, s.status())
	}
	return report
}

// Problems are collisions of names, one readable line each.
func (h *Host) Problems() []string { return h.catalog.Problems() }

// Names are what agents call the tools and prompts of upstreams.
func (h *Host) Names() []catalog.Name { return h.catalog.Names() }
