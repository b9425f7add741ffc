package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// scriptServer is one upstream as scripts see it.
type scriptServer struct {
	server string
	hidden map[string]bool     // the upstream's own tool names; true: nobody may call it
	tools  map[string][]byte   // their raw definitions
	idents map[string][]string // script name -> own names
	order  []string            // script names as first seen

	remembered bool // listing.remembered
}

func (s *scriptServer) add(tool string, definition []byte, hidden bool) {
	s.hidden[tool] = hidden
	s.tools[tool] = definition
	id := abi.Ident(tool)
	if len(s.idents[id]) == 0 {
		s.order = append(s.order, id)
	}
	s.idents[id] = append(s.idents[id], tool)
}

func (s *scriptServer) collisions() []string {
	var lines []string
	for _, id := range s.order {
		if names := s.idents[id]; len(names) > 1 {
			lines = append(lines, (&AmbiguousError{Server: s.server, Name: id, Tools: names}).Error())
		}
	}
	return lines
}

// NotFoundError says that a script named a server or tool that does not exist.
type NotFoundError struct {
	Kind    string // "server" or "tool"
	Server  string // of a tool: its server
	Name    string
	Nearest []string // best first, perhaps none
	All     []string // of a tool: script names of all its server has; nil when those are many
}

// fewTools is how many tools an error can name.
const fewTools = 8

func (e *NotFoundError) Error() string {
	msg := fmt.Sprintf("unknown %s %q", e.Kind, e.Name)
	if e.Server != "" {
		msg = fmt.Sprintf("server %q has no tool %q", e.Server, e.Name)
	}
	switch {
	case len(e.Nearest) > 0:
		msg += fmt.Sprintf(" (did you mean %s?)", strings.Join(e.Nearest, ", "))
	case len(e.All) > 0:
		msg += fmt.Sprintf(" (it has %s)", strings.Join(e.All, ", "))
	case e.Server != "":
		msg += " (search_tools finds tools by words)"
	}
	return msg
}

// AmbiguousError says that two tools of a server have one script name.
type AmbiguousError struct {
	Server, Name string
	Tools        []string
}

func (e *AmbiguousError) Error() string {
	quoted := make([]string, len(e.Tools))
	for i, t := range e.Tools {
		quoted[i] = fmt.Sprintf("%s[%q]", abi.Ident(e.Server), t)
	}
	return fmt.Sprintf("tools of server %q share the script name %q: write %s", e.Server, e.Name, strings.Join(quoted, " or "))
}

// HiddenError says that the configuration forbids a tool.
type HiddenError struct{ Server, Tool string }

func (e *HiddenError) Error() string {
	return fmt.Sprintf("tool %q of server %q may not be called (the configuration hides it)", e.Tool, e.Server)
}

// DisabledError says that a script named a server that the configuration disables.
type DisabledError struct{ Server string }

func (e *DisabledError) Error() string {
	return fmt.Sprintf("server %q is disabled in the configuration (whoever runs mcp-metatool can enable it)", e.Server)
}

// RemovedError says that the configuration has no such server, or no longer.
type RemovedError struct{ Server string }

func (e *RemovedError) Error() string {
	return fmt.Sprintf("tools of server %q may not be called (the configuration does not have it, or disables it)", e.Server)
}

// Permitted says whether a tool may be called as things are now, by the real names
// of server and tool: by agents, or by scripts, which may also call what is not
// exposed. Whether the server has such a tool does not matter. The error is a
// *RemovedError or *HiddenError.
func (c *Catalog) Permitted(server, tool string, agent bool) error {
	s, ok := c.view.Load().sources[server]
	switch {
	case !ok:
		return &RemovedError{server}
	case s.Hides(tool) || agent && !s.Exposes(tool):
		return &HiddenError{Server: server, Tool: tool}
	}
	return nil
}

// Servers are the script names of all upstreams, in the order of the
// configuration, whether they are up or not.
func (c *Catalog) Servers() []string { return c.view.Load().tools.servers }

// Disabled are the script names of servers that the configuration disables.
// Scripts may name them, to be told so.
func (c *Catalog) Disabled() []string {
	v := c.view.Load()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(v.disabled)), func(name string) bool { return v.tools.scripts[name] != nil })
}

// Remembered tells whether what is known of a server's tools, by its real name, is
// from a time before it was started.
func (c *Catalog) Remembered(server string) bool {
	s, ok := c.view.Load().tools.scripts[abi.Ident(server)]
	return ok && s.remembered
}

// InputSchema is the raw inputSchema of a tool, by the real names of server and
// tool; nil when there is none. It shares the definition's bytes.
func (c *Catalog) InputSchema(server, tool string) []byte {
	s, ok := c.view.Load().tools.scripts[abi.Ident(server)]
	if !ok || s.server != server {
		return nil
	}
	schema, _ := wire.Get(s.tools[tool], "inputSchema")
	return schema
}

// Resolve finds the tool that a script means by its server's script name and a
// tool name: with exact the upstream's own name first, then, as without it,
// the script name. The error is a *NotFoundError, *DisabledError, *AmbiguousError
// or *HiddenError.
func (c *Catalog) Resolve(server, tool string, exact bool) (realServer, realTool string, err error) {
	all := c.view.Load()
	v := all.tools
	s, ok := v.scripts[server]
	if !ok && all.disabled[server] != "" {
		return "", "", &DisabledError{all.disabled[server]}
	}
	if !ok {
		return "", "", &NotFoundError{Kind: "server", Name: server, Nearest: nearest.Names(server, v.servers)}
	}
	realTool, err = s.resolve(tool, exact)
	return s.server, realTool, err
}

// known are the script names of tools that may be called.
func (s *scriptServer) known() []string {
	var names []string
	for _, id := range s.order {
		if slices.ContainsFunc(s.idents[id], func(own string) bool { return !s.hidden[own] }) {
			names = append(names, id)
		}
	}
	slices.Sort(names)
	return names
}

func (s *scriptServer) resolve(tool string, exact bool) (string, error) {
	if _, own := s.hidden[tool]; !exact || !own {
		names := s.idents[tool]
		switch {
		case len(names) == 0:
			known := s.known()
			e := &NotFoundError{Kind: "tool", Server: s.server, Name: tool, Nearest: nearest.Names(tool, known)}
			if len(known) <= fewTools {
				e.All = known
			}
			return tool, e
		case len(names) > 1:
			return tool, &AmbiguousError{Server: s.server, Name: tool, Tools: names}
		}
		tool = names[0]
	}
	if s.hidden[tool] {
		return tool, &HiddenError{Server: s.server, Tool: tool}
	}
	return tool, nil
}
