package host

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/clients/origin"
	"github.com/mcp-metatool/mcp-metatool/host/clients/streamable"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/host/ui"
)

// page implements ui.Proxy.
type page struct{ *Host }

// Config implements ui.Proxy.
func (p page) Config() *config.Config { return p.config() }

// CheckServer implements ui.Proxy.
func (p page) CheckServer(ctx context.Context, server string) ([]health.Report, error) {
	if server != "" {
		return p.upstreams.CheckHealth(ctx, nil, server)
	}
	all := p.config().Upstreams
	reports := make([][]health.Report, len(all))
	var checks sync.WaitGroup
	for i := range all {
		checks.Go(func() { reports[i], _ = p.upstreams.CheckHealth(ctx, nil, all[i].Name) }) // the check fails for servers that a reload has removed
	}
	checks.Wait()
	return slices.Concat(reports...), nil
}

// errNoClient refuses a call of the page that would take the place of the client.
var errNoClient = errors.New("the client of this process has not initialized its session yet (try again when it has)")

// CallTool implements ui.Proxy, with a separate session for each call.
func (p page) CallTool(ctx context.Context, name string, arguments []byte, progress func([]byte)) (wire.Reply, error) {
	if !p.upstreams.Introduced() {
		return wire.Reply{}, errNoClient
	}
	c, err := p.Connect(context.WithoutCancel(ctx), nil) // the session outlives ctx, so that the call can be cancelled in the session
	if err != nil {
		return wire.Reply{}, err
	}
	defer c.Close() // an error at the end of the session does not affect the answer
	var params wire.Object
	params.Text("name", name)
	params.Raw("arguments", arguments)
	return c.Call(ctx, wire.Call{Method: protocol.MethodToolsCall, Params: params.Bytes(), Progress: progress})
}

// Page returns the handler of the page about h, for people with access. The streams of the page end
// with ctx; afterwards, the caller must close the handler.
func (h *Host) Page(ctx context.Context, access *ui.Access) *ui.Handler {
	opts := ui.Options{
		Access: access, Version: h.opts.Version, Proxy: page{h}, Catalog: h.catalog, Approvals: h.approvals, Store: h.shared.Store, Log: h.opts.Log,
		Rules: func() origin.Rules {
			return origin.NewRules(h.config().HTTP.AllowedOrigins, h.config().HTTP.AllowedHosts)
		},
	}
	if log := h.recorder.Journal(); log != nil {
		opts.Journal = h.journalReader(log)
	}
	return ui.New(ctx, opts)
}

// OfferPage makes ServeHTTPOn also serve the page, for people with access. The caller must call
// OfferPage before ServeHTTPOn.
func (h *Host) OfferPage(access *ui.Access) { h.pageAccess = access }

// maxPageConnections is how many connections a server of only the page has at a time.
const maxPageConnections = 256

// ServePageOn serves only the page on ln until ctx ends, and closes ln. The error is the
// cause of ctx, or the reason why serving failed.
func (h *Host) ServePageOn(ctx context.Context, ln net.Listener, access *ui.Access) error {
	ctx, stop := context.WithCancel(ctx)
	handler := h.Page(ctx, access)
	defer handler.Close()
	defer stop()
	server := streamable.NewServer(handler, streamable.ServerOptions{MaxConnections: maxPageConnections, Log: h.opts.Log})
	return serveUntil(ctx, server, ln, func(late context.Context) {
		if err := server.Shutdown(late); err != nil {
			h.opts.Log.Warn("end of the page", "err", err)
		}
	})
}
