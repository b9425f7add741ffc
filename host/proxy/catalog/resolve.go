package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// scriptServer is an upstream in the form for scripts.
type scriptServer struct {
	server string
	hidden map[string]bool     // by the upstream's own tool names; true: the tool is hidden
	tools  map[string][]byte   // their raw definitions
	inputs map[string][]byte   // their raw inputSchemas
	idents map[string][]string // script name -> own names
	order  []string            // script names as first seen

	sent     map[string]*pins.Definition // also of withheld tools
	withheld map[string]*pins.Finding    // by own name

	callable func() []string // sorted script names of the callable tools

	remembered bool // listing.remembered
	listed     bool // the upstream has sent a list, perhaps earlier
}

func (s *scriptServer) add(item sourceItem, hidden bool) {
	tool := item.own
	s.hidden[tool] = hidden
	s.tools[tool], s.inputs[tool] = item.definition, item.schema
	s.sent[tool] = item.sent
	id := abi.Ident(tool)
	if len(s.idents[id]) == 0 {
		s.order = append(s.order, id)
	}
	s.idents[id] = append(s.idents[id], tool)
}

func (s *scriptServer) collisions() []Problem {
	var all []Problem
	for _, id := range s.order {
		if names := s.idents[id]; len(names) > 1 {
			e := &AmbiguousError{Server: s.server, Name: id, Tools: names}
			all = append(all, Problem{Text: e.text(), Remedy: "in scripts, write " + e.written()})
		}
	}
	return all
}

// NotFoundError says that a script used an unknown server or tool.
type NotFoundError struct {
	Kind    string // "server" or "tool"
	Server  string // for a tool: the tool's server
	Name    string
	Nearest []string // similar names, the best first; may be empty
	All     []string // for a tool: script names of all tools of the server; nil if they are many
}

// fewTools is the maximum length of NotFoundError.All.
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

// AmbiguousError says that several tools of a server have the same script name.
type AmbiguousError struct {
	Server, Name string
	Tools        []string
}

func (e *AmbiguousError) Error() string {
	return e.text() + ": write " + e.written()
}

func (e *AmbiguousError) text() string {
	return fmt.Sprintf("tools of server %q share the script name %q", e.Server, e.Name)
}

// written returns how scripts call the tools.
func (e *AmbiguousError) written() string {
	quoted := make([]string, len(e.Tools))
	for i, t := range e.Tools {
		quoted[i] = fmt.Sprintf("%s[%q]", abi.Ident(e.Server), t)
	}
	return strings.Join(quoted, " or ")
}

// HiddenError says that the configuration forbids a tool, prompt or resource.
type HiddenError struct {
	Server, Tool string
	// Surface is not wire.Tools if Tool is the name of a prompt, or a URI.
	Surface wire.Surface
	Token   bool // forbidden for the clients with a token
}

func (e *HiddenError) Error() string {
	why := "the configuration hides it"
	if e.Token {
		why += " from clients with this token"
	}
	kind, use := "tool", "called"
	if e.Surface != "" {
		kind, use = noun(e.Surface), "used"
	}
	return fmt.Sprintf("%s %q of server %q may not be %s (%s)", kind, e.Tool, e.Server, use, why)
}

// DisabledError says that a script used a server that the configuration disables.
type DisabledError struct{ Server string }

func (e *DisabledError) Error() string {
	return fmt.Sprintf("server %q is disabled in the configuration (the user who runs mcp-metatool can enable it)", e.Server)
}

// RemovedError says that the configuration does not have a server, or disables the server.
type RemovedError struct{ Server string }

func (e *RemovedError) Error() string {
	return fmt.Sprintf("tools of server %q may not be called (the configuration does not have it, or disables it)", e.Server)
}

// Permitted returns an error if the current configuration forbids calling a tool, given by the real
// names of server and tool. With agent set the caller is a client, otherwise a script, which may
// also call unexposed tools. The server need not have the tool, unless its pins are enforced. The
// error is a *RemovedError, a *HiddenError or a *pins.Finding.
func (s *Scope) Permitted(server, tool string, agent bool) error {
	v := s.view.Load()
	of, ok := v.sources[server]
	switch {
	case v.rights.Hides(server, tool) || agent && !v.rights.Exposes(server, tool):
		return &HiddenError{Server: server, Tool: tool, Token: true}
	case !ok:
		return &RemovedError{server}
	case of.Hides(tool) || agent && !of.Exposes(tool):
		return &HiddenError{Server: server, Tool: tool}
	}
	if script := v.tools.enforced[server]; script != nil {
		return script.unpinned(tool)
	}
	return nil
}

// Servers returns the script names of all upstreams, in the order of the configuration,
// whether they are up or not.
func (s *Scope) Servers() []string { return s.view.Load().tools.servers }

// Disabled returns the script names of servers that the configuration disables, or hides from
// clients with a token. Scripts that refer to them receive a *DisabledError or *HiddenError.
func (s *Scope) Disabled() []string {
	v := s.view.Load()
	names := slices.DeleteFunc(slices.Collect(maps.Keys(v.disabled)), func(name string) bool { return v.tools.scripts[name] != nil })
	names = slices.AppendSeq(names, maps.Keys(v.barred))
	slices.Sort(names)
	return names
}

// Remembered reports whether the list of a server's tools is from an earlier start.
// server is the real name.
func (s *Scope) Remembered(server string) bool {
	of, ok := s.view.Load().tools.scripts[abi.Ident(server)]
	return ok && of.remembered
}

// InputSchema returns the raw inputSchema of a tool, by the real names of server and tool; nil for
// none. The slice is the same as long as the upstream's list is the same.
func (s *Scope) InputSchema(server, tool string) []byte {
	of, ok := s.view.Load().tools.scripts[abi.Ident(server)]
	if !ok || of.server != server {
		return nil
	}
	return of.inputs[tool]
}

// Definition returns the raw definition of a callable tool, by the real names of server and tool;
// nil for none.
func (s *Scope) Definition(server, tool string) []byte {
	return s.view.Load().tools.definition(server, tool)
}

// Definitions returns Definition for the current definitions: later changes at servers do not
// affect the returned function.
func (s *Scope) Definitions() func(server, tool string) []byte {
	return s.view.Load().tools.definition
}

func (t *tools) definition(server, tool string) []byte {
	of, ok := t.scripts[abi.Ident(server)]
	if !ok || of.server != server {
		return nil
	}
	return of.tools[tool]
}

// ServerTools returns the upstream's own names of the tools that scripts may call, in the order of
// the list, by the real name of the server; false if they are not known.
func (s *Scope) ServerTools(server string) ([]string, bool) {
	return s.view.Load().tools.serverTools(server)
}

func (t *tools) serverTools(server string) (names []string, known bool) {
	of := t.scripts[abi.Ident(server)]
	if of == nil || of.server != server {
		return nil, false
	}
	for _, id := range of.order {
		for _, own := range of.idents[id] {
			if !of.hidden[own] {
				names = append(names, own)
			}
		}
	}
	return names, of.listed
}

// Resolve finds a tool by the server's script name and a tool name. If exact is set, the upstream's
// own name comes first, then the script name. The error is a *NotFoundError, *DisabledError,
// *AmbiguousError, *HiddenError or *pins.Finding.
func (s *Scope) Resolve(server, tool string, exact bool) (realServer, realTool string, err error) {
	all := s.view.Load()
	v := all.tools
	of, ok := v.scripts[server]
	if !ok && all.disabled[server] != "" {
		return "", "", &DisabledError{all.disabled[server]}
	}
	if !ok {
		return "", "", &NotFoundError{Kind: "server", Name: server, Nearest: nearest.Names(server, v.servers)}
	}
	if barred := all.barred[server]; barred != "" {
		return "", "", all.hiddenError(barred, tool)
	}
	realTool, err = of.resolve(tool, exact)
	var hidden *HiddenError
	var missing *NotFoundError
	switch from := all.sources[of.server]; {
	case errors.As(err, &hidden):
		err = all.hiddenError(of.server, realTool)
	case errors.As(err, &missing) && from.Hides(tool):
		err = all.hiddenError(of.server, tool) // a guess would tell which of these tools exist
	}
	return of.server, realTool, err
}

// InScripts returns how scripts call a tool that clients do not see, by the name that clients would
// use; "" if scripts may not call the tool either.
func (s *Scope) InScripts(public string) string {
	v := s.view.Load()
	for ident, of := range v.tools.scripts {
		own, ok := strings.CutPrefix(public, v.prefixes[of.server])
		hidden, listed := of.hidden[own]
		switch {
		case !ok || !listed || hidden || v.barred[ident] != "":
		case len(of.idents[abi.Ident(own)]) > 1:
			return fmt.Sprintf("%s[%q]", ident, own)
		default:
			return ident + "." + abi.Ident(own)
		}
	}
	return ""
}

// sortCallable returns the sorted names for scriptServer.callable.
func (s *scriptServer) sortCallable() []string {
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
		if f := s.withheldAs(tool, exact); len(names) == 0 && f != nil {
			return f.Name, f
		}
		switch {
		case len(names) == 0:
			callable := s.callable()
			e := &NotFoundError{Kind: "tool", Server: s.server, Name: tool, Nearest: nearest.Names(tool, callable)}
			if len(callable) <= fewTools {
				e.All = callable
			}
			return tool, e
		case len(names) > 1:
			known := slices.DeleteFunc(slices.Clone(names), func(own string) bool { return s.hidden[own] })
			if len(known) == 0 {
				return tool, &HiddenError{Server: s.server, Tool: tool}
			}
			return tool, &AmbiguousError{Server: s.server, Name: tool, Tools: known}
		}
		tool = names[0]
	}
	if s.hidden[tool] {
		return tool, &HiddenError{Server: s.server, Tool: tool}
	}
	return tool, nil
}
