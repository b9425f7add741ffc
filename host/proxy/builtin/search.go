package builtin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
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
