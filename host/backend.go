package host

import (
	"context"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Welcome implements front.Backend.
func (h *Host) Welcome(ctx context.Context, s route.Session) (route.Welcome, error) {
	h.upstreams.welcome(s)
	w, err := h.router.Welcome(ctx, s)
	if err != nil { // the session has not begun
		h.upstreams.left(s)
	}
	if !s.MaySave() {
		w.Instructions = strings.Replace(w.Instructions, howToSave, notToSave, 1)
	}
	return w, err
}

// Handle implements front.Backend.
func (h *Host) Handle(ctx context.Context, call route.Call) wire.Reply {
	return h.router.Handle(ctx, call)
}

// Begin implements front.Beginner.
func (h *Host) Begin(call route.Call, to route.Landing) (cancel func(cause error), ok bool) {
	return h.router.Begin(call, to)
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

// settled waits until it is known of every upstream what it has, be it from a
// time before, or it has been starting for longer than startup_wait, or ctx ends.
func (h *Host) settled(ctx context.Context) { h.await(ctx, true) }

// started is settled where what is remembered does not count.
func (h *Host) started(ctx context.Context) { h.await(ctx, false) }

func (h *Host) await(ctx context.Context, known bool) {
	if most := h.config().StartupWait; most > 0 {
		h.upstreams.started(ctx, most, known)
	}
}

// Upstreams waits until every upstream has started or failed, or ctx ends, and
// reports on all of them in the order of the configuration.
func (h *Host) Upstreams(ctx context.Context) []upstream.Status {
	h.upstreams.started(ctx, 0, false)
	var report []upstream.Status
	for _, s := range h.upstreams.all() {
		report = append(report, s.Status())
	}
	return report
}

// Problems are collisions of names, one readable line each.
func (h *Host) Problems() []string { return h.catalog.Problems() }

// Names are what agents call the tools and prompts of upstreams.
func (h *Host) Names() []catalog.Name { return h.catalog.Names() }
