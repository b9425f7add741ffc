package host

import (
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/builtin/discover"
	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
)

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
