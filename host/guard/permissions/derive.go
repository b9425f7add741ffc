package permissions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Source is where permissions come from.
type Source struct {
	// Reach returns the calls that a script can reach; see abi.Lint.Reach.
	Reach func(ctx context.Context, name, code string) ([]abi.Reached, error)
	// Resolve finds the real names of a script's server and tool; see catalog.Catalog.
	Resolve func(server, tool string, exact bool) (realServer, realTool string, err error)
	// Await waits until the tools of a server, given by the real name, are known, or gives up.
	Await func(server string)
	// Servers has the definitions of tools; nil: none is known.
	Servers Pinned
	Saved   Saved // nil: none are known
	// Hides reports whether violations must not name a target; nil: they may name all.
	Hides func(target string) bool
}

// Derive returns the permissions of a saved tool: everything that its script can reach, and the
// permissions of the saved tools within reach, within the bounds of def.Permissions. violations are
// the wrong bounds; their pointers point at items, as /permissions/0. Errors come from
// Source.Reach.
func (s Source) Derive(ctx context.Context, def tools.Definition) (p *tools.Permissions, violations []tools.Violation, err error) {
	reached, err := s.Reach(ctx, def.Name, def.Code)
	if err != nil {
		return nil, nil, err
	}
	d := deriver{Source: s, out: &tools.Permissions{Code: tools.CodeDigest(def.Code)}, seen: map[string]bool{def.Name: true}}
	if def.Permissions != nil {
		d.bounds = def.Permissions.Bounds
	}
	for _, r := range reached {
		if err := d.reached(ctx, r, 1); err != nil {
			return nil, nil, err
		}
	}
	d.sort()
	if def.Permissions != nil && def.Permissions.Bounds != nil {
		violations = d.narrow(def.Permissions.Bounds)
	}
	d.digests()
	return d.out, violations, nil
}

// A deriver collects the permissions of a tool.
type deriver struct {
	Source
	out  *tools.Permissions
	seen map[string]bool // saved tools
	// saved tools outside of bounds are not followed; nil: no bounds
	bounds []string
}

func (d *deriver) add(target string) { d.out.Calls = append(d.out.Calls, target) }

func (d *deriver) sort() {
	slices.Sort(d.out.Calls)
	slices.Sort(d.out.Unresolved)
	d.out.Calls, d.out.Unresolved = slices.Compact(d.out.Calls), slices.Compact(d.out.Unresolved)
	// A whole server has all its tools.
	redundant := func(t string) bool {
		server, whole := cut(t)
		all := tools.WholeServer(server)
		return whole != "*" && (slices.Contains(d.out.Calls, all) || slices.Contains(d.out.Unresolved, all))
	}
	d.out.Calls = slices.DeleteFunc(d.out.Calls, redundant)
	d.out.Unresolved = slices.DeleteFunc(d.out.Unresolved, redundant)
}

// reached adds a target within reach of a script. depth is the number of saved tools that call one
// another.
func (d *deriver) reached(ctx context.Context, r abi.Reached, depth int) error {
	if r.Server == abi.Composites {
		return d.saved(ctx, r, depth)
	}
	tool := r.Tool
	if tool == "" {
		tool = "\x00" // no tool has this name, but the server is resolved
	}
	server, found, err := d.Resolve(r.Server, tool, r.Exact)
	var missing *catalog.NotFoundError
	if server != "" && errors.As(err, &missing) && d.Await != nil {
		d.Await(server)
		server, found, err = d.Resolve(r.Server, tool, r.Exact)
	}
	var disabled *catalog.DisabledError
	if errors.As(err, &disabled) {
		server = disabled.Server
	}
	var hidden *catalog.HiddenError
	switch {
	case server == "":
		d.out.Unresolved = append(d.out.Unresolved, target(r.Server, r.Tool))
	case r.Tool == "":
		d.add(tools.WholeServer(server))
	case err != nil && !errors.As(err, &hidden):
		d.out.Unresolved = append(d.out.Unresolved, target(r.Server, r.Tool))
	default:
		d.add(tools.Target(server, found))
	}
	return nil
}

func target(server, tool string) string {
	if tool == "" {
		return tools.WholeServer(server)
	}
	return tools.Target(server, tool)
}

// saved adds a saved tool, or all saved tools, and their permissions.
func (d *deriver) saved(ctx context.Context, r abi.Reached, depth int) error {
	var list []tools.Definition
	if d.Saved != nil {
		list = d.Saved.List()
	}
	if r.Tool == "" {
		d.add(tools.WholeServer(tools.SavedServer))
	} else {
		// As compose does: the name itself, or else the only tool with this script name.
		found := slices.DeleteFunc(slices.Clone(list), func(def tools.Definition) bool { return def.Name != r.Tool })
		if len(found) == 0 && !r.Exact {
			found = slices.DeleteFunc(slices.Clone(list), func(def tools.Definition) bool { return abi.Ident(def.Name) != r.Tool })
		}
		if list = found; len(found) != 1 {
			d.out.Unresolved = append(d.out.Unresolved, tools.Target(tools.SavedServer, r.Tool))
			return nil
		}
		d.add(tools.Target(tools.SavedServer, list[0].Name))
	}
	for _, def := range list {
		if err := d.below(ctx, def, depth); err != nil {
			return err
		}
	}
	return nil
}

// below adds the permissions of a saved tool that is called.
func (d *deriver) below(ctx context.Context, def tools.Definition, depth int) error {
	if d.seen[def.Name] || d.bounds != nil && !tools.AnyMatches(d.bounds, tools.SavedServer, def.Name) {
		return nil
	}
	d.seen[def.Name] = true
	if def.Permissions.Of(def.Code) {
		d.out.Calls = append(d.out.Calls, def.Permissions.Calls...)
		d.out.Unresolved = append(d.out.Unresolved, def.Permissions.Unresolved...)
		return nil
	}
	if depth >= abi.MaxChain {
		return nil // the call is refused
	}
	below := deriver{Source: d.Source, out: &tools.Permissions{}, seen: d.seen}
	reached, err := d.Reach(ctx, def.Name, def.Code)
	if err != nil {
		return err
	}
	for _, r := range reached {
		if err := below.reached(ctx, r, depth+1); err != nil {
			return err
		}
	}
	if below.sort(); def.Permissions != nil && def.Permissions.Bounds != nil {
		below.narrow(def.Permissions.Bounds)
	}
	d.out.Calls = append(d.out.Calls, below.out.Calls...)
	d.out.Unresolved = append(d.out.Unresolved, below.out.Unresolved...)
	return nil
}

// digests records the definitions of all known tools within the permissions.
func (d *deriver) digests() {
	all := map[string]string{}
	servers := map[string]bool{}
	for _, t := range d.out.Calls {
		if server, _ := cut(t); server != tools.SavedServer {
			servers[server] = true
		}
	}
	for server := range servers {
		if d.Servers == nil {
			break
		}
		names, _ := d.Servers.ServerTools(server)
		for _, name := range names {
			target := tools.Target(server, name)
			if tools.CheckTarget(target) != nil { // a tool without a name cannot be called
				continue
			}
			if digest, ok := d.Servers.Digest(server, name); ok && d.out.Allows(server, name) {
				all[target] = digest
			}
		}
	}
	if d.Saved != nil {
		for _, def := range d.Saved.List() {
			if d.out.Allows(tools.SavedServer, def.Name) {
				all[tools.Target(tools.SavedServer, def.Name)] = def.Hash()
			}
		}
	}
	// An empty list is recorded, too: a tool that is added later was not known now.
	if len(all) > 0 || d.Servers != nil && len(d.out.Calls)+len(d.out.Unresolved) > 0 {
		d.out.Definitions = all
	}
}

// cut returns the server and the pattern of a target.
func cut(target string) (server, tool string) {
	server, tool, _ = strings.Cut(target, ".")
	return server, tool
}

// narrow applies bounds, and returns the wrong bounds.
func (d *deriver) narrow(bounds []string) []tools.Violation {
	var wrong []tools.Violation
	for i, b := range bounds {
		reason := ""
		if err := tools.CheckTarget(b); err != nil {
			reason = err.Error()
		} else if !d.useful(b) {
			reason = "is not among what the script can call (" + d.reachText() + "): permissions can only narrow that"
		}
		if reason != "" {
			wrong = append(wrong, tools.Violation{Pointer: fmt.Sprintf("/permissions/%d", i), Message: fmt.Sprintf("%s %s", display.Clip(b, 100), reason)})
		}
	}
	if wrong != nil {
		return wrong
	}
	d.out.Bounds = append([]string{}, bounds...)
	slices.Sort(d.out.Bounds)
	d.out.Bounds = slices.Compact(d.out.Bounds)
	var calls []string
	for _, t := range d.out.Calls {
		calls = append(calls, within(t, d.out.Bounds)...)
	}
	d.out.Calls = calls
	d.out.Unresolved = slices.DeleteFunc(d.out.Unresolved, func(t string) bool {
		return !slices.ContainsFunc(d.out.Bounds, func(b string) bool { return overlapsUnresolved(b, t) })
	})
	d.sort()
	return nil
}

func (d *deriver) reachText() string {
	const most = 10
	all := d.out.List()
	if d.Hides != nil {
		all = slices.DeleteFunc(all, d.Hides)
	}
	if len(all) == 0 {
		return "nothing"
	}
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", display.Line(strings.Join(all[:most], ", "), 500), len(all)-most)
	}
	return display.Line(strings.Join(all, ", "), 500)
}

// useful reports whether a bound leaves a derived target.
func (d *deriver) useful(bound string) bool {
	if slices.ContainsFunc(d.out.Unresolved, func(t string) bool { return overlapsUnresolved(bound, t) }) {
		return true
	}
	_, pattern := cut(bound)
	for _, t := range d.out.Calls {
		server, tool := cut(t)
		switch {
		case !tools.IsPattern(tool):
			if tools.Matches(bound, server, tools.Literal(tool)) {
				return true
			}
			continue
		case !serverMatches(bound, server):
			continue
		}
		names, known := d.names(server)
		if !known || pattern == "*" || slices.ContainsFunc(names, func(n string) bool {
			return tools.Matches(bound, server, n) && tools.Matches(t, server, n)
		}) {
			return true
		}
	}
	return false
}

// names returns the tools of a server, and whether they are known.
func (d *deriver) names(server string) ([]string, bool) {
	if server == tools.SavedServer {
		var names []string
		if d.Saved != nil {
			for _, def := range d.Saved.List() {
				names = append(names, def.Name)
			}
		}
		return names, d.Saved != nil
	}
	if d.Servers == nil {
		return nil, false
	}
	return d.Servers.ServerTools(server)
}

// within returns the part of a target within bounds. Of two patterns, neither of which is
// everything, the first is the result: the bounds are checked, too.
func within(target string, bounds []string) []string {
	server, tool := cut(target)
	var out []string
	for _, b := range bounds {
		_, pattern := cut(b)
		switch {
		case !tools.IsPattern(tool):
			if tools.Matches(b, server, tools.Literal(tool)) {
				return []string{target}
			}
		case !serverMatches(b, server):
		case tool == "*":
			out = append(out, server+"."+pattern)
		default:
			return []string{target}
		}
	}
	return out
}

// serverMatches reports whether the pattern of a bound for the server matches.
func serverMatches(bound, server string) bool {
	first, _ := cut(bound)
	return tools.Matches(first+".*", server, "x")
}

// overlapsUnresolved reports whether a bound may leave a target with script names.
func overlapsUnresolved(bound, unresolved string) bool {
	server, tool := cut(unresolved)
	first, pattern := cut(bound)
	if !tools.IsPattern(first) {
		bound = abi.Ident(first) + "." + pattern
	}
	if tools.IsPattern(tool) {
		return serverMatches(bound, server)
	}
	if tools.Matches(bound, server, tools.Literal(tool)) {
		return true
	}
	return !tools.IsPattern(pattern) && serverMatches(bound, server) && abi.Ident(tools.Literal(pattern)) == tools.Literal(tool)
}
