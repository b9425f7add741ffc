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

// AwaitOwner waits until the server to which a tool belongs by its prefix has started, for the
// server's timeout at most, whatever startup_wait says. It is for commands with one call: when such
// a command is tried again in a moment, its servers begin to start again.
func (h *Host) AwaitOwner(ctx context.Context, tool string) { h.upstreams.AwaitOwner(ctx, tool) }

// Upstreams waits until every upstream has started or failed, or ctx ends, and
// returns their states in the order of the configuration.
func (h *Host) Upstreams(ctx context.Context) []servers.Status { return h.upstreams.Statuses(ctx) }

// Status returns the state of a shared upstream; false if there is none of that
// name.
func (h *Host) Status(server string) (servers.Status, bool) { return h.upstreams.Status(server) }

// Snapshot waits until a shared upstream has started, and returns its handshake and
// lists; see supervise.Upstreams.Snapshot.
func (h *Host) Snapshot(ctx context.Context, server string) (supervise.Snapshot, error) {
	return h.upstreams.Snapshot(ctx, server)
}

// Request sends a request to a shared upstream that no session has made, to see
// whether the upstream answers.
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

// ListProblems is Problems with what to do about each.
func (h *Host) ListProblems() []catalog.Problem { return h.catalog.Problems() }

// Names returns the public names of the tools and prompts of upstreams.
func (h *Host) Names() []catalog.Name { return h.catalog.Names() }

// Listed returns the tools that clients see: built-in tools, saved tools, and those of
// upstreams, also of ones that have not been started, as far as their lists are remembered.
func (h *Host) Listed() []catalog.Entry { return h.catalog.Listed() }

// Composer returns a Composer that runs tools as the Host does, except that scripts
// call the upstreams that wrap returns, given those of the Host. Its runs are not
// counted. Their time and seed are those of runs with mocks, because they are recorded
// for these.
func (h *Host) Composer(wrap func(compose.Upstreams) compose.Upstreams) *compose.Composer {
	options := h.now.Load().options
	options.Upstreams, options.Executed = wrap(options.Upstreams), nil
	options.Moment = compose.MockMoment
	return compose.New(options)
}

// Inspect analyses a script in the sandbox without running it; see
// compose.Composer.Inspect.
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

// Permissions derives what a tool may call; see compose.Composer.Permissions.
func (h *Host) Permissions(ctx context.Context, def tools.Definition) (*tools.Permissions, []tools.Violation, error) {
	return h.now.Load().composer.Permissions(ctx, def)
}

// ScriptNames returns what scripts can call, as far as it is known. The keys are the
// script names of servers, including abi.Composites. The values are the tools in list
// order, as they are written in a script: .search or ["odd name"].
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
