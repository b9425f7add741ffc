package builtin

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin/discover"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

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
