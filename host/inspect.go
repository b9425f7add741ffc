package host

import (
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin/discover"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Settle waits until every upstream has started or failed and scripts can run, or
// until ctx ends.
func (h *Host) Settle(ctx context.Context) {
	h.upstreams.Statuses(ctx)
	select {
	case <-h.sandbox.Ready():
	case <-ctx.Done():
	}
}

// Prepared is [sandbox.Sandbox.Prepared].
func (h *Host) Prepared() int { return h.sandbox.Prepared() }

// AwaitOwner waits until the server of a tool, according to the prefix, has started, for the
// server's timeout at most, regardless of startup_wait. AwaitOwner is for commands with one call:
// the next attempt of a command starts its servers again.
func (h *Host) AwaitOwner(ctx context.Context, tool string) { h.upstreams.AwaitOwner(ctx, tool) }

// Upstreams waits until every upstream has started or failed, or ctx ends, and
// returns their states in the order of the configuration.
func (h *Host) Upstreams(ctx context.Context) []servers.Status { return h.upstreams.Statuses(ctx) }

// Status returns the state of a shared upstream; false for an unknown name.
func (h *Host) Status(server string) (servers.Status, bool) { return h.upstreams.Status(server) }

// Snapshot waits until a shared upstream has started, and returns its handshake and lists; see
// supervise.Upstreams.Snapshot.
func (h *Host) Snapshot(ctx context.Context, server string) (supervise.Snapshot, error) {
	return h.upstreams.Snapshot(ctx, server)
}

// Request sends a request without a session to a shared upstream, to see whether the upstream
// answers.
func (h *Host) Request(ctx context.Context, server string, call wire.Call) (wire.Reply, error) {
	return h.upstreams.Request(ctx, server, call)
}

// Checkup checks the health of every upstream.
func (h *Host) Checkup(ctx context.Context) []health.Report { return h.upstreams.Checkup(ctx) }

// Protocols explains which revision of MCP is spoken with each upstream.
func (h *Host) Protocols(ctx context.Context) []supervise.ProtocolReport {
	return h.upstreams.Protocols(ctx)
}

// Problems returns the collisions of names and similar problems, one line of text each.
func (h *Host) Problems() []string {
	var lines []string
	for _, p := range h.catalog.Problems() {
		lines = append(lines, p.String())
	}
	return lines
}

// ListProblems is Problems with a remedy for each problem.
func (h *Host) ListProblems() []catalog.Problem { return h.catalog.Problems() }

// Names returns the public names of the tools and prompts of upstreams.
func (h *Host) Names() []catalog.Name { return h.catalog.Names() }

// Listed returns the tools that clients see: built-in tools, saved tools, and tools of upstreams,
// including the remembered lists of upstreams that have not been started.
func (h *Host) Listed() []catalog.Entry { return h.catalog.Listed() }

// Composer returns a Composer that runs tools as the Host does, except that scripts call the
// upstreams returned by wrap, which gets the upstreams of the Host. Runs of the Composer are not
// counted. Their time and seed are the time and seed of runs with mocks, since the runs are
// recorded as mocks.
func (h *Host) Composer(wrap func(compose.Upstreams) compose.Upstreams) *compose.Composer {
	options := h.now.Load().options
	options.Upstreams, options.Executed = wrap(options.Upstreams), nil
	options.Moment = compose.MockMoment
	return compose.New(options)
}

// Inspect analyses a script in the sandbox without running it; see compose.Composer.Inspect.
func (h *Host) Inspect(ctx context.Context, name, code string) (abi.Lint, error) {
	return h.now.Load().composer.Inspect(ctx, name, code)
}

// Check returns an error if a script cannot be accepted; see compose.Composer.Check.
func (h *Host) Check(ctx context.Context, name, code string) error {
	return h.now.Load().composer.Check(ctx, name, code)
}

// Lint returns warnings about probable mistakes in a script; see
// compose.Composer.Lint.
func (h *Host) Lint(ctx context.Context, name, code string) ([]compose.Warning, error) {
	return h.now.Load().composer.Lint(ctx, name, code)
}

// Permissions derives the calls that a tool may make; see compose.Composer.Permissions.
func (h *Host) Permissions(ctx context.Context, def tools.Definition) (*tools.Permissions, []tools.Violation, error) {
	return h.now.Load().composer.Permissions(ctx, def)
}

// ScriptNames returns the known tools that scripts can call. The keys are the script names of
// servers, including abi.Composites. The values are the tools in list order, as written in a
// script: .search or ["odd name"].
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
