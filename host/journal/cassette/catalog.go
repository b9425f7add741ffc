package cassette

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// UnknownToolError means that a script uses a tool without a mock.
type UnknownToolError struct {
	Server, Tool string // as the script wrote them
	Mocked       []string
}

func (e *UnknownToolError) Error() string {
	if len(e.Mocked) == 0 {
		return fmt.Sprintf("there is no mock for %s.%s: there are no mocks", e.Server, e.Tool)
	}
	msg := fmt.Sprintf("there is no mock for %s.%s", e.Server, e.Tool)
	if near := nearest.Names(e.Server+"."+e.Tool, e.Mocked); near != nil {
		msg += fmt.Sprintf(" (did you mean %s?)", strings.Join(near, ", "))
	}
	return msg + "; there are mocks of " + list(e.Mocked)
}

// Servers implements compose.Catalog. Servers returns the script names of all servers with
// interactions, in order.
func (c *Cassette) Servers() []string { return slices.Clone(c.servers) }

// InputSchema implements compose.Catalog. Mocks have no schemas.
func (c *Cassette) InputSchema(string, string) []byte { return nil }

// Disabled implements compose.Catalog. Mocks are never disabled.
func (c *Cassette) Disabled() []string { return nil }

// Remembered implements compose.Catalog. Mocks are always current.
func (c *Cassette) Remembered(string) bool { return false }

// Resolve implements compose.Catalog. Resolve finds a tool by the name in the interactions, or by
// the script name. The error is an *UnknownToolError, or a *catalog.AmbiguousError if two tools of
// a server have the same script name.
func (c *Cassette) Resolve(server, tool string, exact bool) (realServer, realTool string, err error) {
	var found []string
	id := abi.Ident(tool)
	for _, t := range c.tools[server] {
		switch {
		case exact && t.tool == tool:
			return t.server, tool, nil
		case abi.Ident(t.tool) == id && !slices.Contains(found, t.tool):
			realServer, found = t.server, append(found, t.tool)
		}
	}
	switch len(found) {
	case 0:
		return server, tool, &UnknownToolError{Server: server, Tool: tool, Mocked: c.names}
	case 1:
		return realServer, found[0], nil
	}
	return realServer, tool, &catalog.AmbiguousError{Server: realServer, Name: tool, Tools: found}
}

// Over returns a catalog of the tools of real and of the cassette. Arguments are checked against
// the schemas of real, tools hidden by real stay hidden, and a script can refer to servers of real
// without calling them.
func (c *Cassette) Over(real compose.Catalog) compose.Catalog { return &overlay{c, real} }

// overlay is the catalog returned by Over.
type overlay struct {
	cassette *Cassette
	real     compose.Catalog
}

func (o *overlay) Servers() []string {
	names := slices.Clone(o.real.Servers())
	for _, name := range o.cassette.Servers() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (o *overlay) InputSchema(server, tool string) []byte { return o.real.InputSchema(server, tool) }

// Disabled returns the disabled servers of real without mocks.
func (o *overlay) Disabled() []string {
	mocked := o.cassette.Servers()
	return slices.DeleteFunc(o.real.Disabled(), func(name string) bool { return slices.Contains(mocked, name) })
}

// Remembered returns false: no call is sent, so no server needs to be awaited.
func (o *overlay) Remembered(string) bool { return false }

func (o *overlay) Resolve(server, tool string, exact bool) (realServer, realTool string, err error) {
	realServer, realTool, err = o.real.Resolve(server, tool, exact)
	_, unknown := err.(*catalog.NotFoundError)
	if _, disabled := err.(*catalog.DisabledError); unknown || disabled && slices.Contains(o.cassette.Servers(), server) {
		return o.cassette.Resolve(server, tool, exact)
	}
	return realServer, realTool, err
}
