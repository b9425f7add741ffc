package lock

import (
	"maps"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Change is one difference between a lock and what a server offers.
type Change struct {
	Server  string
	Surface wire.Surface
	Name    string // of the tool or prompt; URI of the resource
	// Path is where in the definition: "$.inputSchema.properties.a.type"; "$"
	// for the definition as a whole.
	Path string
	Kind Kind
	// Was and Is are both sides, clipped JSON; "" for none.
	Was, Is string

	steps []any // those of Path
}

// Kind is a way of changing.
type Kind string

// The kinds of changes.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Changed Kind = "changed"
)

// Compare tells how what a server offers now differs from what the lock has of
// it, in order of surface, name and path; none when it is the same. Only the
// surfaces in lists are compared; what the lock has not of them is new. The
// order of members, of "required", of "enum" and of a prompt's arguments does
// not matter. The error is a [*ListError].
func (l *Lock) Compare(name string, lists Lists) ([]Change, error) {
	var changes []Change
	for _, surface := range wire.Surfaces {
		raw, asked := lists[surface]
		if !asked {
			continue
		}
		now, err := readList(surface, raw)
		if err != nil {
			return nil, err
		}
		was := l.servers[name][surface]
		all := maps.Clone(now)
		maps.Copy(all, was)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			c := Change{Server: name, Surface: surface, Name: key}
			changes = append(changes, c.compare(was, now)...)
		}
	}
	return changes, nil
}

// compare gives the changes of the item that c names.
func (c Change) compare(was, now definitions) []Change {
	before, had := was[c.Name]
	after, has := now[c.Name]
	c.Path = "$"
	switch {
	case !had:
		c.Kind = Added
		return []Change{c}
	case !has:
		c.Kind = Removed
		return []Change{c}
	}
	var changes []Change
	for _, d := range expect.Differences(ordered("", before), ordered("", after), false) {
		each := c
		each.Path, each.steps = d.Path(), d.Steps
		each.Kind = Changed
		switch d.Kind {
		case expect.Missing:
			each.Kind = Removed
		case expect.Unexpected:
			each.Kind = Added
		}
		if each.Kind != Added {
			each.Was = expect.Show(d.Want)
		}
		if each.Kind != Removed {
			each.Is = expect.Show(d.Got)
		}
		changes = append(changes, each)
	}
	return changes
}

// ordered is a value with the arrays that are sets made to objects, by their
// items, so that one item more is one difference. name is the member it is in.
func ordered(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		o := make(map[string]any, len(v))
		for member, sub := range v {
			o[member] = ordered(member, sub)
		}
		return o
	case []any:
		if set := asSet(name, v); set != nil {
			return set
		}
		o := make([]any, len(v))
		for i, sub := range v {
			o[i] = ordered("", sub)
		}
		return o
	}
	return v
}

// asSet is an array that is a set, or nil: "required" and "enum" of a JSON
// Schema, and the arguments of a prompt, by name.
func asSet(name string, items []any) map[string]any {
	set := make(map[string]any, len(items))
	switch name {
	case "required", "enum":
		for _, item := range items {
			set[setKey(item)] = item
		}
	case "arguments":
		for _, item := range items {
			arg, _ := item.(map[string]any)
			argName, ok := arg["name"].(string)
			if !ok || set[argName] != nil {
				return nil
			}
			set[argName] = ordered("", item)
		}
	default:
		return nil
	}
	return set
}

// setKey is a string as it is, and other values as JSON; a string that looks
// like another value stays apart from it.
func setKey(item any) string {
	s, ok := item.(string)
	if !ok {
		return string(compact(item))
	}
	if _, err := expect.Parse([]byte(s)); err == nil {
		return string(compact(s))
	}
	return s
}
