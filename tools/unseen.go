package tools

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// unseen returns the targets with unseen definitions.
func (p *Permissions) unseen() []string {
	if p.Definitions == nil {
		return p.List()
	}
	return p.Unseen
}

// IsUnseen reports whether a callable tool's definition is unseen. The definition at the first look
// is trusted.
func (p *Permissions) IsUnseen(server, tool string) bool {
	if p == nil || p.Definitions[Target(server, tool)] != "" {
		return false
	}
	return slices.ContainsFunc(p.unseen(), func(t string) bool { return means(t, server, tool) })
}

// UnseenServers returns the servers of targets with unseen definitions, sorted. An unknown server
// has its script name.
func (p *Permissions) UnseenServers() []string {
	if p == nil {
		return nil
	}
	var servers []string
	for _, t := range p.unseen() {
		server, _, _ := strings.Cut(t, ".")
		servers = append(servers, server)
	}
	slices.Sort(servers)
	return slices.Compact(servers)
}

// See returns permissions with the digests of a server's unseen tools. names are the server's own
// names of all tools, and digest returns the digest of a definition, "" without a definition. A
// target without wildcards stays unseen as long as the server lacks the tool. A target with
// wildcards does not: later tools of the server are new. p is not changed.
func (p *Permissions) See(server string, names []string, digest func(tool string) string) *Permissions {
	out := *p
	out.Definitions, out.Unseen = maps.Clone(p.Definitions), nil
	if out.Definitions == nil {
		out.Definitions = map[string]string{}
	}
	for _, t := range p.unseen() {
		first, pattern, _ := strings.Cut(t, ".")
		found := IsPattern(pattern) && (first == server || first == abi.Ident(server))
		for _, name := range names {
			target := Target(server, name)
			if !means(t, server, name) || !p.Bounded(server, name) || CheckTarget(target) != nil {
				continue
			}
			if d := digest(name); d != "" && out.Definitions[target] == "" {
				out.Definitions[target] = d
			}
			found = found || out.Definitions[target] != ""
		}
		if !found {
			out.Unseen = append(out.Unseen, t)
		}
	}
	return &out
}

// means reports whether a target, which may have script names, is for a tool.
func means(target, server, tool string) bool {
	return Matches(target, server, tool) || Matches(target, abi.Ident(server), abi.Ident(tool)) ||
		Matches(target, abi.Ident(server), tool)
}

// sameCalls reports whether two permissions allow the same, for the same script.
func (p *Permissions) sameCalls(o *Permissions) bool {
	return p != nil && o != nil && p.Code == o.Code && slices.Equal(p.Calls, o.Calls) &&
		slices.Equal(p.Unresolved, o.Unresolved) && (p.Bounds == nil) == (o.Bounds == nil) && slices.Equal(p.Bounds, o.Bounds)
}

// See records the digests of a server's unseen tools in the permissions of a saved tool; see
// Permissions.See. It returns the stored permissions, including digests recorded first by another
// process. If the stored tool has permissions other than p, See writes nothing and returns p.
// Errors: ErrClosed, or a failed write.
func (s *Store) See(name string, p *Permissions, server string, names []string, digest func(tool string) string) (*Permissions, error) {
	if s.closed() {
		return nil, ErrClosed
	}
	// Nothing is written if another process has done so, or the server lacks these tools.
	if stored, err := s.Get(name); err != nil || !stored.Permissions.sameCalls(p) {
		return p, nil
	} else if now := stored.Permissions; now.sees(now.See(server, names, digest)) {
		return now, nil
	}
	err := s.exclusive(lockWait, func(root *os.Root) error {
		e, err := s.find(name)
		if err != nil || !e.def.Permissions.sameCalls(p) {
			return nil
		}
		def := e.def
		def.Permissions = def.Permissions.See(server, names, digest)
		if p = def.Permissions; e.def.Permissions.sees(p) {
			return nil
		}
		sharing, err := s.share(root, name, e)
		if err == nil {
			_, err = s.writeTool(root, &def, executions{}, sharing)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("definitions that saved tool %q may call: %w", name, err)
	}
	return p, nil
}

// sees reports whether everything seen in o is seen in p.
func (p *Permissions) sees(o *Permissions) bool {
	return p.Definitions != nil && maps.Equal(p.Definitions, o.Definitions) && slices.Equal(p.Unseen, o.Unseen)
}
