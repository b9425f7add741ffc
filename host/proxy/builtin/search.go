package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin/discover"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// Limits of search_tools.
const (
	defaultFound = 10
	maxFound     = 100
	maxSummary   = 140 // letters of a tool's description
)

// findings is the answer of search_tools.
type findings struct {
	Tools []found `json:"tools"`
	Total int     `json:"total"`
	// Servers is set if nothing was found, or if no words were given.
	Servers []serverCount `json:"servers,omitempty"`
	// Unavailable are the unavailable servers. Their tools may be missing, or cannot be called now.
	Unavailable []health.Unavailable `json:"absent,omitempty"`
}

type found struct {
	Name        string `json:"name,omitempty"`
	Script      string `json:"script,omitempty"`
	Description string `json:"description,omitempty"`
}

func (h *Handler) search(ctx context.Context, args []byte, call route.Call) (wire.Reply, error) {
	h.settle(ctx)
	query, _ := wire.GetString(args, "query")
	limit := defaultFound
	if raw, ok := wire.Get(args, "limit"); ok {
		if n, err := strconv.ParseFloat(string(raw), 64); err == nil { // for a schema, 10.0 is an integer
			limit = int(n)
		}
	}
	unavailable := h.unavailable(call)
	server, err := h.serverFilter(args, unavailable)
	if err != nil {
		return wire.Reply{}, err
	}
	d := h.directory
	s := d.snapshot()
	hits := s.search(query, server)
	f := findings{Tools: []found{}, Total: len(hits), Unavailable: unavailable.of(server)}
	if len(hits) == 0 || query == "" && server == "" {
		f.Servers = d.servers(s)
	}
	for _, i := range hits[:min(limit, len(hits))] {
		e := s.entries[i]
		entry := found{Script: d.script(e), Description: summary(e)}
		if d.direct(e) {
			entry.Name = e.Name
		}
		f.Tools = append(f.Tools, entry)
	}
	text := f.text(query)
	if len(s.entries) > maxIndexed {
		text += fmt.Sprintf("\nOnly the first %d of %d tools can be searched.", maxIndexed, len(s.entries))
	}
	return wire.Reply{Result: compose.TextResult(text, wire.Marshal(f))}, nil
}

// settle waits for starting upstreams, as tools/list does.
func (h *Handler) settle(ctx context.Context) {
	if h.cfg.Settled != nil {
		h.cfg.Settled(ctx)
	}
}

// serverFilter returns the script name of the server in args, "" for all.
func (h *Handler) serverFilter(args []byte, unavailable unavailableServers) (string, error) {
	name, ok := wire.GetString(args, "server")
	if !ok || name == "" {
		return "", nil
	}
	names := h.directory.serverNames()
	for _, a := range unavailable {
		if !slices.Contains(names, a.Server) {
			names = append(names, a.Server)
		}
	}
	for _, n := range names {
		if n == abi.Ident(name) {
			return n, nil
		}
	}
	f := &compose.Failure{Type: abi.ErrValidation, Message: fmt.Sprintf("there is no server %q", name)}
	f.Nearest = nearest.Names(name, names)
	if f.Nearest == nil {
		f.Nearest = names
	}
	f.Message += fmt.Sprintf(" (did you mean %s?)", strings.Join(f.Nearest, ", "))
	return "", f
}

// search returns the indexes of matching tools, best first; without words, the indexes of all
// tools, in order. Built-in tools are left out, since agents always see them.
func (s *snapshot) search(query, server string) []int {
	keep := func(i int) bool {
		e := s.entries[i]
		return e.Kind != catalog.Builtin && (server == "" || serverOf(e) == server)
	}
	var places []int
	if strings.TrimSpace(query) == "" {
		for i := range s.entries {
			if keep(i) {
				places = append(places, i)
			}
		}
		return places
	}
	for _, hit := range s.index.Search(query, keep) {
		places = append(places, hit.Tool)
	}
	return places
}

// summary returns the purpose of a tool, in one line.
func summary(e catalog.Entry) string {
	text, _ := wire.GetString(e.Definition, "description")
	if strings.TrimSpace(text) == "" {
		text, _ = wire.GetString(e.Definition, "title")
	}
	paragraph, _, _ := strings.Cut(strings.TrimSpace(text), "\n\n")
	if i := strings.Index(paragraph, ". "); i > 0 {
		paragraph = paragraph[:i+1]
	}
	return display.Summary(paragraph, maxSummary)
}

// text returns a line for each tool: the name in scripts, the purpose, and the name for agents.
func (f findings) text(query string) string {
	var b strings.Builder
	for _, t := range f.Tools {
		line, calls := t.Script, "scripts only"
		switch {
		case t.Script == "":
			line, calls = t.Name, "direct only"
		case t.Name != "":
			calls = "direct: " + t.Name
		}
		if t.Description != "" {
			line += " - " + t.Description
		}
		fmt.Fprintf(&b, "%s [%s]\n", line, calls)
	}
	switch more := f.Total - len(f.Tools); {
	case f.Total == 0 && query != "":
		fmt.Fprintf(&b, "No tool matches %q. ", display.Summary(query, maxSummary))
	case more > 0 && query != "":
		fmt.Fprintf(&b, "%d more match less well.\n", more)
	case more > 0:
		fmt.Fprintf(&b, "And %d more: search with words, or a higher limit.\n", more)
	}
	if f.Servers != nil {
		fmt.Fprintf(&b, "Servers: %s.", describeServers(f.Servers))
	}
	for _, a := range f.Unavailable {
		fmt.Fprintf(&b, "\nNot there now: %s.", a.Why)
	}
	return strings.Trim(b.String(), "\n ")
}

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

// Directory knows the searchable tools; see catalog.Catalog.
type Directory interface {
	// All returns the tools for agents or scripts, in a fixed order, without the tools that the
	// configuration hides. The slice must not be changed.
	All() []catalog.Entry
	// Tool finds a tool by its public name, if agents see it.
	Tool(name string) (catalog.Entry, bool)
	// Resolve returns the real names of a tool, from the names of server and tool in a script.
	Resolve(server, tool string, exact bool) (realServer, realTool string, err error)
	// Servers returns the script names of all servers.
	Servers() []string
}

// savedServer is the name under which scripts and searches find saved tools, in place of a server.
// The name is reserved, so no upstream can have it (abi.Reserved).
const savedServer = "tools"

// maxIndexed is the number of searchable tools. Tools beyond this number can only be called and
// described.
const maxIndexed = 20_000

// directory is a searchable Directory. The index is kept for as long as the tools stay the same.
type directory struct {
	Directory
	// saved: scripts can call saved tools.
	saved bool

	mu   sync.Mutex // held while a snapshot is made
	last *snapshot
}

// snapshot is one immutable state of a Directory.
type snapshot struct {
	entries []catalog.Entry
	index   *discover.Index // of the first maxIndexed entries
	public  map[string]int  // by public name; of several, the first
	own     map[ownName][]int
}

// ownName is a server's name for a tool; server "" stands for any.
type ownName struct{ server, tool string }

func (d *directory) snapshot() *snapshot {
	entries := d.All()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil || !slices.EqualFunc(entries, d.last.entries, sameEntry) {
		d.last = newSnapshot(entries)
	}
	return d.last
}

// sameEntry compares definitions by their bytes, which is fast if both share them.
func sameEntry(a, b catalog.Entry) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.Server == b.Server && a.Tool == b.Tool && bytes.Equal(a.Definition, b.Definition)
}

func newSnapshot(entries []catalog.Entry) *snapshot {
	s := &snapshot{entries: entries, public: map[string]int{}, own: map[ownName][]int{}}
	found := make([]discover.Tool, 0, min(len(entries), maxIndexed))
	for i, e := range entries {
		if _, taken := s.public[e.Name]; !taken {
			s.public[e.Name] = i
		}
		if e.Kind == catalog.Proxied && s.own[ownName{e.Server, e.Tool}] == nil {
			for _, server := range []string{"", e.Server} {
				s.own[ownName{server, e.Tool}] = append(s.own[ownName{server, e.Tool}], i)
			}
		}
		if len(found) == maxIndexed {
			continue
		}
		t := discover.Tool{Server: e.Server, Name: e.Tool, Definition: e.Definition}
		if e.Kind != catalog.Proxied {
			t.Name = e.Name
		}
		found = append(found, t)
	}
	s.index = discover.NewIndex(found)
	return s
}

// serverOf returns the script name of the server of a tool; "" for a built-in tool.
func serverOf(e catalog.Entry) string {
	switch e.Kind {
	case catalog.Proxied:
		return abi.Ident(e.Server)
	case catalog.Composite:
		return savedServer
	}
	return ""
}

// direct reports whether agents can call e themselves.
func (d *directory) direct(e catalog.Entry) bool {
	seen, ok := d.Tool(e.Name)
	return ok && seen.Kind == e.Kind && seen.Server == e.Server && seen.Tool == e.Tool
}

// script returns the name of e in scripts; "" if scripts cannot call e.
func (d *directory) script(e catalog.Entry) string {
	server, tool := serverOf(e), e.Tool
	switch e.Kind {
	case catalog.Builtin:
		return ""
	case catalog.Composite:
		if !d.saved {
			return ""
		}
		tool = e.Name
		if discover.Identifier(abi.Ident(tool)) && abi.Ident(tool) == tool {
			return server + "." + tool
		}
		return fmt.Sprintf("%s[%q]", server, tool)
	}
	ident := abi.Ident(tool)
	if _, real, err := d.Resolve(server, ident, false); err == nil && real == tool && discover.Identifier(ident) {
		return server + "." + ident
	}
	return fmt.Sprintf("%s[%q]", server, tool)
}

// label returns the name of e for messages: the name in scripts, or the public name if scripts
// cannot call e.
func (d *directory) label(e catalog.Entry) string {
	if s := d.script(e); s != "" {
		return s
	}
	return e.Name
}

// serverNames returns the possible names in a server filter, including savedServer.
func (d *directory) serverNames() []string { return append(slices.Clone(d.Servers()), savedServer) }

// serverCount has the number of tools of a server.
type serverCount struct {
	Server string `json:"server"`
	Tools  int    `json:"tools"`
}

// servers counts the tools of each server, including servers without tools, and saved tools if any
// exist.
func (d *directory) servers(s *snapshot) []serverCount {
	counts := map[string]int{}
	for _, e := range s.entries {
		counts[serverOf(e)]++
	}
	var list []serverCount
	for _, name := range d.Servers() {
		list = append(list, serverCount{name, counts[name]})
	}
	if n := counts[savedServer]; n > 0 {
		list = append(list, serverCount{savedServer, n})
	}
	return list
}

func describeServers(list []serverCount) string {
	var all []string
	for _, s := range list {
		all = append(all, fmt.Sprintf("%s (%s)", s.Server, number(s.Tools, "tool")))
	}
	if all == nil {
		return "none"
	}
	return strings.Join(all, ", ")
}

func number(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// Availability knows which servers are not available.
type Availability interface {
	// UnavailableServers returns the unavailable servers for the session of origin, in the order of
	// the configuration, without waiting.
	UnavailableServers(origin route.Origin) []health.Unavailable
}

type unavailableServers []health.Unavailable

func (h *Handler) unavailable(call route.Call) unavailableServers {
	if h.cfg.Availability == nil {
		return nil
	}
	return h.cfg.Availability.UnavailableServers(call.Origin)
}

// of returns the entries about one server, by the server's script name; "" for all.
func (a unavailableServers) of(server string) []health.Unavailable {
	if server == "" {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), func(one health.Unavailable) bool { return one.Server != server })
}
