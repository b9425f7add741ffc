package host

import (
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/builtin/discover"
	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/health"
	"github.com/mcp-metatool/mcp-metatool/host/supervise"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Settle waits until every upstream has started or failed and scripts can run, or
// ctx ends.
func (h *Host) Settle(ctx context.Context) {
	h.upstreams.Statuses(ctx)
	select {
	case <-h.sandbox.Ready():
	case <-ctx.Done():
	}
}

// Upstreams waits until every upstream has started or failed, or ctx ends, and
// returns their states in the order of the configuration.
func (h *Host) Upstreams(ctx context.Context) []upstream.Status { return h.upstreams.Statuses(ctx) }

// Status returns the state of a shared upstream; false if there is none of that
// name.
func (h *Host) Status(server string) (upstream.Status, bool) { return h.upstreams.Status(server) }

// Snapshot waits until a shared upstream has started, and returns what it
// announced; see supervise.Upstreams.Snapshot.
func (h *Host) Snapshot(ctx context.Context, server string) (supervise.Snapshot, error) {
	return h.upstreams.Snapshot(ctx, server)
}

// Request makes a request of a shared upstream on nobody's behalf, to see whether
// it answers.
func (h *Host) Request(ctx context.Context, server string, call wire.Call) (wire.Reply, error) {
	return h.upstreams.Request(ctx, server, call)
}

// Checkup checks the health of every upstream.
func (h *Host) Checkup(ctx context.Context) []health.Report { return h.upstreams.Checkup(ctx) }

// Problems are collisions of names, one readable line each.
func (h *Host) Problems() []string { return h.catalog.Problems() }

// Names are what agents call the tools and prompts of upstreams.
func (h *Host) Names() []catalog.Name { return h.catalog.Names() }

// Composer returns a Composer that runs tools as the Host does, but whose scripts
// make their calls through what wrap makes of the Host's upstreams. Its runs are
// not counted.
func (h *Host) Composer(wrap func(compose.Upstreams) compose.Upstreams) *compose.Composer {
	options := h.now.Load().options
	options.Upstreams, options.Executed = wrap(options.Upstreams), nil
	return compose.New(options)
}

// Inspect has the sandbox look at a script that is not run; see
// compose.Composer.Inspect.
func (h *Host) Inspect(ctx context.Context, name, code string) (abi.Lint, error) {
	return h.now.Load().composer.Inspect(ctx, name, code)
}

// Check says what makes a script unacceptable; see compose.Composer.Check.
func (h *Host) Check(ctx context.Context, name, code string) error {
	return h.now.Load().composer.Check(ctx, name, code)
}

// Lint says what a script probably does not mean; see compose.Composer.Lint.
func (h *Host) Lint(ctx context.Context, name, code string) ([]compose.Warning, error) {
	return h.now.Load().composer.Lint(ctx, name, code)
}

// ScriptNames are what scripts can call, as far as it is known by now: behind
// the script name of each server, abi.Composites included, how its tools are
// written, as .search or ["odd name"], in list order.
func (h *Host) ScriptNames() map[string][]string {
	names := map[string][]string{abi.Composites: nil}
	for _, s := range h.catalog.Servers() {
		names[s] = nil
	}
	for _, e := range h.catalog.All() {
		server, tool := abi.Ident(e.Server), e.Tool
		ident := abi.Ident(tool)
		simple := false
		switch e.Kind {
		case catalog.Composite:
			server, tool = abi.Composites, e.Name
			ident = abi.Ident(tool)
			simple = ident == tool
		case catalog.Proxied:
			_, found, err := h.catalog.Resolve(server, ident, false)
			simple = err == nil && found == tool
		default:
			continue
		}
		written := fmt.Sprintf("[%q]", tool)
		if simple && discover.Identifier(ident) {
			written = "." + ident
		}
		names[server] = append(names[server], written)
	}
	return names
}
