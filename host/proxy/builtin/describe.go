package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin/discover"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// Limits of describe_tool, in bytes: of a description, and of a schema that is shown unchanged.
const (
	maxDescription = 4000
	maxRawSchema   = 64 << 10
)

// described answers describe_tool.
type described struct {
	Name         string          `json:"name,omitempty"` // only if agents can call the tool
	Script       string          `json:"script,omitempty"`
	Signature    string          `json:"signature"`
	Description  string          `json:"description,omitempty"`
	Arguments    []string        `json:"arguments,omitempty"`
	Conditions   []string        `json:"conditions,omitempty"`
	Example      string          `json:"example"`
	Hints        []string        `json:"hints,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Unavailable  string          `json:"unavailable,omitempty"` // why the tool's server is not available now

	exact    bool // the example matches the schema
	declared bool // the tool declares its result
}

func (h *Handler) describe(ctx context.Context, args []byte, call route.Call) (wire.Reply, error) {
	h.settle(ctx)
	name, _ := wire.GetString(args, "name")
	s := h.directory.snapshot()
	unavailable := h.unavailable(call)
	e, err := h.directory.find(s, name, unavailable)
	if err != nil {
		return wire.Reply{}, err
	}
	if e.Saves && !route.MaySave(call.Origin) {
		return wire.Reply{}, noSave(e.Name)
	}
	d := h.directory.describe(e)
	if server := serverOf(e); server != "" {
		for _, a := range unavailable.of(server) {
			if a.State != string(servers.Starting) { // calls wait for a starting server
				d.Unavailable = a.Why
			}
		}
	}
	return wire.Reply{Result: compose.TextResult(d.text(), wire.Marshal(d))}, nil
}

func (d *directory) describe(e catalog.Entry) described {
	a := described{Script: d.script(e)}
	if d.direct(e) {
		a.Name = e.Name
	}
	input, _ := wire.Get(e.Definition, "inputSchema")
	output, declared := wire.Get(e.Definition, "outputSchema")
	a.declared = declared
	f := discover.Function{Call: d.label(e), Input: input, Output: output}
	if e.Kind == catalog.Composite && a.Script != "" {
		// The schema describes {result, logs, ...}; a script gets the result.
		f.Output, a.declared = wire.Get(output, "properties", "result")
	}
	about := discover.Describe(f)
	a.Signature, a.Arguments, a.Conditions, a.Example = about.Signature, about.Arguments, about.Conditions, about.Example
	if schema, err := tools.CompileSchema(input, "inputSchema"); err == nil {
		a.exact = schema.ValidateArguments(about.ExampleArguments, nil) == nil
	}
	a.Description, _ = wire.GetString(e.Definition, "description")
	if len(a.Description) > maxDescription {
		a.Description = strings.ToValidUTF8(a.Description[:maxDescription], "") + "..."
	}
	for _, hint := range []struct{ name, word string }{{"readOnlyHint", "only reads"}, {"destructiveHint", "may destroy"}} {
		if v, _ := wire.Get(e.Definition, "annotations", hint.name); string(v) == "true" {
			a.Hints = append(a.Hints, hint.word)
		}
	}
	if len(input) <= maxRawSchema {
		a.InputSchema = json.RawMessage(input)
	}
	if len(output) <= maxRawSchema {
		a.OutputSchema = json.RawMessage(output)
	}
	return a
}

// text describes a tool for readers.
func (a described) text() string {
	var b strings.Builder
	b.WriteString(a.Signature + "\n")
	if a.Description != "" {
		b.WriteString("\n" + strings.TrimSpace(a.Description) + "\n")
	}
	if len(a.Arguments)+len(a.Conditions) > 0 {
		b.WriteString("\nArguments:\n")
		for _, line := range append(a.Arguments[:len(a.Arguments):len(a.Arguments)], a.Conditions...) {
			b.WriteString("- " + line + "\n")
		}
	}
	title := "Example"
	if !a.exact {
		title = "Example (its values are placeholders)"
	}
	b.WriteString("\n" + title + ":\n" + a.Example + "\n\n")
	switch {
	case a.Script == "":
		b.WriteString("Only agents can call it, as " + a.Name + ".")
	case a.Name == "":
		b.WriteString("Only scripts can call it (eval_starlark, save_tool).")
	default:
		b.WriteString("Agents can call it directly, as " + a.Name + ".")
	}
	if a.Script != "" && !a.declared {
		b.WriteString(" What it returns is not declared.")
	}
	if a.Hints != nil {
		b.WriteString(" It says that it " + strings.Join(a.Hints, ", ") + ".")
	}
	if a.Unavailable != "" {
		b.WriteString("\n\nIt cannot be called now: " + a.Unavailable + ".")
	}
	return b.String()
}

// find finds a tool by the public name, the name in scripts, or the server's own name if only one
// tool has that name. The error is a *compose.Failure.
func (d *directory) find(s *snapshot, name string, unavailable unavailableServers) (catalog.Entry, error) {
	name = strings.TrimSpace(name)
	if e, ok := d.Tool(name); ok {
		return e, nil
	}
	if i, ok := s.public[name]; ok {
		return s.entries[i], nil
	}
	if server, tool, ok := splitScript(name); ok {
		e, err := d.findScript(s, server, tool)
		var missing *catalog.NotFoundError
		if !errors.As(err, &missing) {
			return e, err
		}
	}
	switch places := s.own[ownName{"", name}]; {
	case len(places) == 1:
		return s.entries[places[0]], nil
	case len(places) > 1:
		f := &compose.Failure{Type: abi.ErrValidation}
		for _, i := range places[:min(len(places), 10)] {
			f.Nearest = append(f.Nearest, d.label(s.entries[i]))
		}
		f.Message = fmt.Sprintf("%s have a tool %q (choose one of: %s)", number(len(places), "server"), name, strings.Join(f.Nearest, ", "))
		return catalog.Entry{}, f
	}
	return catalog.Entry{}, d.unknown(s, name, unavailable)
}

// splitScript splits a name in scripts: server.tool or server["tool"], with a call or .raw after
// the name.
func splitScript(text string) (server, tool string, ok bool) {
	if server, rest, found := strings.Cut(text, "["); found && !strings.ContainsAny(server, ".(") {
		rest = strings.TrimLeft(rest, ` "'`)
		if end := strings.IndexAny(rest, `"']`); end > 0 {
			return abi.Ident(strings.TrimSpace(server)), rest[:end], true
		}
	}
	text, _, _ = strings.Cut(text, "(")
	server, tool, ok = strings.Cut(strings.TrimSuffix(text, ".raw"), ".")
	return abi.Ident(server), tool, ok && server != "" && tool != ""
}

// findScript finds a tool by the script name of the server and a name of the tool. The error is a
// *compose.Failure, or a *catalog.NotFoundError.
func (d *directory) findScript(s *snapshot, server, tool string) (catalog.Entry, error) {
	if server == savedServer {
		if i, ok := s.public[tool]; ok && s.entries[i].Kind == catalog.Composite {
			return s.entries[i], nil
		}
		return catalog.Entry{}, &catalog.NotFoundError{Kind: "tool", Server: server, Name: tool}
	}
	realServer, realTool, err := d.Resolve(server, tool, true)
	var missing *catalog.NotFoundError
	var hidden *catalog.HiddenError
	var unpinned *pins.Finding
	switch {
	case errors.As(err, &missing):
		return catalog.Entry{}, missing
	case errors.As(err, &hidden), errors.As(err, &unpinned):
		return catalog.Entry{}, &compose.Failure{Type: abi.ErrPermission, Message: err.Error()}
	case err != nil:
		return catalog.Entry{}, &compose.Failure{Type: abi.ErrValidation, Message: err.Error()}
	}
	places := s.own[ownName{realServer, realTool}]
	if places == nil { // the tool was listed just after the snapshot was taken
		return catalog.Entry{}, &catalog.NotFoundError{Kind: "tool", Server: realServer, Name: realTool}
	}
	return s.entries[places[0]], nil
}

// unknown returns the failure for an unknown name, with similar names.
func (d *directory) unknown(s *snapshot, name string, unavailable unavailableServers) error {
	f := &compose.Failure{Type: abi.ErrValidation, Message: fmt.Sprintf("there is no tool %q", display.Summary(name, maxSummary))}
	server, tool, isScript := splitScript(name)
	if isScript {
		for _, a := range unavailable.of(server) {
			if server != "" {
				f.Message += ": " + a.Why
				return f
			}
		}
		var known []string
		for _, e := range s.entries {
			if serverOf(e) == server {
				known = append(known, d.label(e))
			}
		}
		for _, t := range d.servers(s) {
			if t.Server == server && t.Tools == 0 {
				f.Message += fmt.Sprintf(": server %q has none now (it is starting, or down)", server)
				return f
			}
		}
		f.Nearest = nearest.Names(server+"."+tool, known)
	}
	if f.Nearest == nil && len(name) <= maxSummary {
		var known []string
		for _, e := range s.entries {
			known = append(known, e.Name)
			if e.Kind == catalog.Proxied {
				known = append(known, serverOf(e)+"."+abi.Ident(e.Tool))
			}
		}
		f.Nearest = nearest.Names(name, known)
	}
	if f.Nearest == nil {
		for _, i := range s.search(name, "") {
			if f.Nearest = append(f.Nearest, d.label(s.entries[i])); len(f.Nearest) == 3 {
				break
			}
		}
	}
	if f.Nearest != nil {
		f.Message += fmt.Sprintf(" (did you mean %s?)", strings.Join(f.Nearest, ", "))
	} else {
		f.Message += " (search_tools finds tools by words)"
	}
	return f
}
