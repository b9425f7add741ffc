package cassette

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// UnknownToolError says that a script has named a tool that there is no mock of.
type UnknownToolError struct {
	Server, Tool string // as the script wrote them
	Mocked       []string
}

func (e *UnknownToolError) Error() string {
	if len(e.Mocked) == 0 {
		return fmt.Sprintf("no mock is for %s.%s: there are no mocks", e.Server, e.Tool)
	}
	msg := fmt.Sprintf("no mock is for %s.%s", e.Server, e.Tool)
	if near := nearest.Names(e.Server+"."+e.Tool, e.Mocked); near != nil {
		msg += fmt.Sprintf(" (did you mean %s?)", strings.Join(near, ", "))
	}
	return msg + "; there are mocks of " + list(e.Mocked)
}

// Servers implements compose.Catalog: the script names of all servers with
// interactions, in order.
func (c *Cassette) Servers() []string {
	var names []string
	for n := range c.interactions {
		if id := abi.Ident(c.interactions[n].Server); !slices.Contains(names, id) {
			names = append(names, id)
		}
	}
	return names
}

// InputSchema implements compose.Catalog: mocks have none.
func (c *Cassette) InputSchema(string, string) []byte { return nil }

// Disabled implements compose.Catalog: mocks are there.
func (c *Cassette) Disabled() []string { return nil }

// Remembered implements compose.Catalog: mocks are at hand.
func (c *Cassette) Remembered(string) bool { return false }

// Resolve implements compose.Catalog. A tool is found by the name that its
// interactions have, or by its script name. The error is an *UnknownToolError,
// or a *catalog.AmbiguousError where two tools of a server have one script name.
func (c *Cassette) Resolve(server, tool string, exact bool) (realServer, realTool string, err error) {
	var found []string
	id := abi.Ident(tool)
	for n := range c.interactions {
		i := &c.interactions[n]
		switch {
		case abi.Ident(i.Server) != server:
			continue
		case exact && i.Tool == tool:
			return i.Server, tool, nil
		case abi.Ident(i.Tool) == id && !slices.Contains(found, i.Tool):
			realServer, found = i.Server, append(found, i.Tool)
		}
	}
	switch len(found) {
	case 0:
		return server, tool, &UnknownToolError{Server: server, Tool: tool, Mocked: c.tools()}
	case 1:
		return realServer, found[0], nil
	}
	return realServer, tool, &catalog.AmbiguousError{Server: realServer, Name: tool, Tools: found}
}

// Over is a catalog of what real has and what the cassette has: arguments are
// held against the schemas of real, what real hides stays hidden, and a script
// may name servers that it does not call.
func (c *Cassette) Over(real compose.Catalog) compose.Catalog { return &over{c, real} }

type over struct {
	cassette *Cassette
	real     compose.Catalog
}

func (o *over) Servers() []string {
	names := slices.Clone(o.real.Servers())
	for _, name := range o.cassette.Servers() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (o *over) InputSchema(server, tool string) []byte { return o.real.InputSchema(server, tool) }

// Disabled are those of real that are not mocked.
func (o *over) Disabled() []string {
	mocked := o.cassette.Servers()
	return slices.DeleteFunc(o.real.Disabled(), func(name string) bool { return slices.Contains(mocked, name) })
}

// Remembered is false: no call leaves, so that no server is waited for.
func (o *over) Remembered(string) bool { return false }

func (o *over) Resolve(server, tool string, exact bool) (realServer, realTool string, err error) {
	realServer, realTool, err = o.real.Resolve(server, tool, exact)
	_, unknown := err.(*catalog.NotFoundError)
	if _, disabled := err.(*catalog.DisabledError); unknown || disabled && slices.Contains(o.cassette.Servers(), server) {
		return o.cassette.Resolve(server, tool, exact)
	}
	return realServer, realTool, err
}
