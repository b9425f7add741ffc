package permissions

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

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
