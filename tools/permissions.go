package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/glob"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// SavedServer stands for the server in the target of a saved tool: tools.NAME.
const SavedServer = abi.Composites

// Permissions name the tools that a saved tool may call, directly and through other saved tools.
// Permissions are derived from the script when the tool is saved, and are part of the definition.
//
// A target is SERVER.TOOL, with the real name of the server and a pattern of package glob for the
// server's own names of tools, or tools.NAME. Servers' names have no dot, so the first one ends the
// server.
//
// A nil *Permissions is unknown, and no permission.
type Permissions struct {
	// Calls are the targets the tool may call, sorted. SERVER.* is a whole server.
	Calls []string
	// Unresolved are targets with the names used by scripts, because the tools were unknown when
	// the script was saved. Each stands for the tool that scripts call by this name.
	Unresolved []string
	// Bounds are the patterns to which the author has narrowed the tool; nil without narrowing. The
	// pattern for the server may also have wildcards.
	Bounds []string
	// Definitions are digests of the definitions of these tools at the time of saving, by target:
	// for a server's tool the digest of package pins, for a saved tool its Hash. Tools unknown at
	// that time are missing. Nil: no definition was looked at.
	Definitions map[string]string
	// Unseen are the members of Calls and Unresolved whose definitions were not looked at, because
	// the tool was imported. See adds them to Definitions.
	Unseen []string
	// Code is the digest of the script from which all this was derived; see CodeDigest.
	Code string
}

// CodeDigest returns the digest of a script, for Permissions.Code.
func CodeDigest(code string) string {
	sum := sha256.Sum256([]byte(code))
	return hex.EncodeToString(sum[:])
}

// Of reports whether the permissions were derived from a script. Otherwise only Bounds
// mean anything.
func (p *Permissions) Of(code string) bool { return p != nil && p.Code == CodeDigest(code) }

// Target returns the target of a tool.
func Target(server, tool string) string {
	return server + "." + strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(tool)
}

// WholeServer returns the target of all tools of a server.
func WholeServer(server string) string { return server + ".*" }

// IsPattern reports whether the part of a target for the tool can match several.
func IsPattern(tool string) bool {
	for i := 0; i < len(tool); i++ {
		switch tool[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

// Literal returns the name in a target without wildcards.
func Literal(tool string) string {
	var b strings.Builder
	for i := 0; i < len(tool); i++ {
		if tool[i] == '\\' && i+1 < len(tool) {
			i++
		}
		b.WriteByte(tool[i])
	}
	return b.String()
}

// CheckTarget returns an error unless a text is a target.
func CheckTarget(target string) error {
	server, tool, ok := strings.Cut(target, ".")
	if !ok || server == "" || tool == "" {
		return errors.New("is not SERVER.TOOL, SERVER.* or tools.NAME")
	}
	if !glob.Valid(server) || !glob.Valid(tool) {
		return errors.New("is not a pattern (* stands for any text, ? for one character, [a-z] for one out of a range)")
	}
	return nil
}

// Matches reports whether a target is for a tool, by real names.
func Matches(target, server, tool string) bool {
	first, rest, ok := strings.Cut(target, ".")
	return ok && glob.Match(first, server) && glob.Match(rest, tool)
}

// AnyMatches reports whether any of several targets matches a tool.
func AnyMatches(targets []string, server, tool string) bool {
	return slices.ContainsFunc(targets, func(t string) bool { return Matches(t, server, tool) })
}

// Covers reports whether other targets include everything that a target matches. Patterns may give
// a false negative.
func Covers(others []string, target string) bool {
	server, tool, _ := strings.Cut(target, ".")
	return slices.ContainsFunc(others, func(o string) bool {
		first, rest, ok := strings.Cut(o, ".")
		switch {
		case o == target:
			return true
		case !ok || !glob.Match(first, server):
			return false
		}
		return rest == "*" || rest == tool || !IsPattern(tool) && glob.Match(rest, Literal(tool))
	})
}

// Allows reports whether the tool with these real names may be called.
func (p *Permissions) Allows(server, tool string) bool {
	if p == nil || !p.Bounded(server, tool) {
		return false
	}
	return AnyMatches(p.Calls, server, tool) || slices.ContainsFunc(p.Unresolved, func(t string) bool {
		return Matches(t, abi.Ident(server), abi.Ident(tool)) || Matches(t, abi.Ident(server), tool)
	})
}

// Bounded reports whether a tool lies within the bounds.
func (p *Permissions) Bounded(server, tool string) bool {
	return p == nil || p.Bounds == nil || AnyMatches(p.Bounds, server, tool)
}

// List returns the targets for people, sorted.
func (p *Permissions) List() []string {
	if p == nil {
		return nil
	}
	all := slices.Concat(p.Calls, p.Unresolved)
	slices.Sort(all)
	return slices.Compact(all)
}

// Added returns the targets of p missing from o.
func (p *Permissions) Added(o *Permissions) []string {
	had := o.List()
	return slices.DeleteFunc(p.List(), func(t string) bool {
		return Covers(had, t)
	})
}

// Without returns permissions without the targets hidden reports: the part shown to a person who
// may not see everything. The result enforces nothing. p is not changed.
func (p *Permissions) Without(hidden func(target string) bool) *Permissions {
	if p == nil {
		return nil
	}
	out := *p
	for _, list := range []*[]string{&out.Calls, &out.Unresolved, &out.Bounds, &out.Unseen} {
		if *list != nil {
			*list = slices.DeleteFunc(slices.Clone(*list), hidden)
		}
	}
	out.Definitions = maps.Clone(p.Definitions)
	maps.DeleteFunc(out.Definitions, func(target, _ string) bool { return hidden(target) })
	return &out
}

// permissionsFile is the form of Permissions in files.
type permissionsFile struct {
	Calls       []string          `json:"calls"`
	Unresolved  []string          `json:"unresolved,omitempty"`
	Bounds      *[]string         `json:"bounds,omitempty"`
	Definitions map[string]string `json:"definitions,omitzero"`
	Unseen      []string          `json:"unseen,omitempty"`
	Code        string            `json:"code,omitempty"`
}

// JSON returns the permissions as a member of the file of a tool; nil for unknown ones.
func (p *Permissions) JSON() []byte {
	if p == nil {
		return nil
	}
	f := permissionsFile{Calls: p.Calls, Unresolved: p.Unresolved, Definitions: p.Definitions, Unseen: p.Unseen, Code: p.Code}
	if f.Calls == nil {
		f.Calls = []string{}
	}
	if p.Bounds != nil {
		f.Bounds = &p.Bounds
	}
	raw, err := json.Marshal(f)
	if err != nil { // the member contains only texts
		panic(err)
	}
	return raw
}

// ParsePermissions reads the output of JSON. Members unknown to this program are dropped, because
// the program enforces none of them.
func ParsePermissions(raw []byte) (*Permissions, error) {
	var f permissionsFile
	if err := jsonvalue.Unmarshal(raw, &f); err != nil {
		return nil, errors.New(`"permissions" has the wrong form (remove it, and it is derived again)`)
	}
	p := &Permissions{Calls: f.Calls, Unresolved: f.Unresolved, Definitions: f.Definitions, Unseen: f.Unseen, Code: f.Code}
	if f.Bounds != nil {
		p.Bounds = append([]string{}, *f.Bounds...)
	}
	for _, t := range slices.Concat(p.Calls, p.Unresolved, p.Bounds, p.Unseen, slices.Collect(maps.Keys(p.Definitions))) {
		if err := CheckTarget(t); err != nil {
			return nil, fmt.Errorf(`"permissions": %q %w`, display.Clip(t, 80), err)
		}
	}
	slices.Sort(p.Calls)
	slices.Sort(p.Unresolved)
	return p, nil
}

// bounds returns the bounds as identifying text, "" for none.
func (d *Definition) bounds() string {
	if d.Permissions == nil || d.Permissions.Bounds == nil {
		return ""
	}
	raw, _ := json.Marshal(d.Permissions.Bounds)
	return string(raw)
}

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
