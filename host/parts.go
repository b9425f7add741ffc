package host

import (
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Offer is what an upstream has said and listed, as it sent it.
type Offer struct {
	Handshake []byte // raw result of initialize
	// Lists are the definitions of each surface, all pages; of a surface that the
	// server does not have there are none.
	Lists map[wire.Surface][][]byte
}

// Offer waits until a shared upstream has started and listed what it has. The
// error says why it is down, or is the cause of ctx.
func (h *Host) Offer(ctx context.Context, server string) (Offer, error) {
	c, ok := h.upstreams.For(nil, server)
	if !ok {
		return Offer{}, fmt.Errorf("upstream %q is not configured, or is one for each session", server)
	}
	s := c.Upstream.(*slot)
	if err := s.Ready(ctx); err != nil {
		return Offer{}, err
	}
	known := s.remembered()
	o := Offer{Handshake: known.Handshake, Lists: map[wire.Surface][][]byte{}}
	for surface, l := range known.Lists {
		o.Lists[surface] = l.Items
	}
	return o, nil
}

// Request makes a request of a shared upstream on nobody's behalf: to see whether
// it answers.
func (h *Host) Request(ctx context.Context, server string, call wire.Call) (wire.Reply, error) {
	c, ok := h.upstreams.For(nil, server)
	if !ok {
		return wire.Reply{}, fmt.Errorf("upstream %q is not configured, or is one for each session", server)
	}
	return c.Upstream.Call(ctx, call)
}

// Settle waits until every upstream has started or failed and scripts can run, or
// ctx ends.
func (h *Host) Settle(ctx context.Context) {
	h.upstreams.started(ctx, 0, false)
	select {
	case <-h.sandbox.Ready():
	case <-ctx.Done():
	}
}

// Composer is one that runs tools as the Host does, but whose scripts make their
// calls through what wrap makes of the Host's upstreams. Its runs are not counted.
func (h *Host) Composer(wrap func(compose.Upstreams) compose.Upstreams) *compose.Composer {
	options := h.now.Load().options
	options.Upstreams, options.Executed = wrap(options.Upstreams), nil
	return compose.New(options)
}

// Status of a shared upstream; false if there is none of that name.
func (h *Host) Status(server string) (upstream.Status, bool) {
	c, ok := h.upstreams.For(nil, server)
	if !ok {
		return upstream.Status{}, false
	}
	return c.Upstream.(*slot).Status(), true
}

// RunLimits are the limits of one run that settings say.
func RunLimits(e config.Execution) sandbox.Limits { return limits(e) }
