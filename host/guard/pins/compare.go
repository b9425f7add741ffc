package pins

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Change is a difference between a lock and the offer of a server.
type Change struct {
	Server  string
	Surface wire.Surface
	Name    string // of the tool or prompt; URI of the resource
	// Path leads to the place in the definition: "$.inputSchema.properties.a.type"; "$" is
	// the whole definition.
	Path string
	Kind Kind
	// Was and Is are both sides as clipped JSON; "" for a missing side.
	Was, Is string

	steps []any // the steps of Path
}

// Kind is a kind of change.
type Kind string

// The kinds of changes.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Changed Kind = "changed"
)

// Compare returns the differences between the lock and the lists of a server, sorted by surface,
// name and path. Surfaces missing in lists are not compared, and resources only if the lock has
// recorded the server's resources, which the lock of a proxy has not; a definition missing in the
// lock is new. The order of members, of "required", of "enum" and of a prompt's arguments does not
// matter. The error is a [*ListError].
func (l *Lock) Compare(name string, lists Lists) ([]Change, error) {
	var changes []Change
	for _, surface := range wire.Surfaces {
		raw, asked := lists[surface]
		if _, recorded := l.servers[name][surface]; !asked || surface == wire.Resources && l.Has(name) && !recorded {
			continue
		}
		now, err := readList(surface, raw)
		if err != nil {
			return nil, err
		}
		changes = append(changes, compareDefinitions(name, surface, l.servers[name][surface], now)...)
	}
	return changes, nil
}

// CompareAbout returns the differences between a server's handshake in the lock and a raw
// handshake; none if the lock has no handshake.
func (l *Lock) CompareAbout(name string, handshake []byte) []Change {
	was, recorded := l.servers[name][About]
	if !recorded {
		return nil
	}
	return compareDefinitions(name, About, was, definitions{"": about(handshake)})
}

func compareDefinitions(server string, surface wire.Surface, was, now definitions) []Change {
	var changes []Change
	all := maps.Clone(now)
	maps.Copy(all, was)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		c := Change{Server: server, Surface: surface, Name: key}
		before, had := was[key]
		after, has := now[key]
		c.Path = "$"
		switch {
		case !had:
			c.Kind = Added
			changes = append(changes, c)
		case !has:
			c.Kind = Removed
			changes = append(changes, c)
		case before.digest != after.digest:
			changes = append(changes, c.compare(before.canonical, after.canonical, false)...)
		}
	}
	return changes
}

// compare returns the changes of the definition of c, from one canonical form to another. If exact
// is set, the order of sets matters.
func (c Change) compare(before, after []byte, exact bool) []Change {
	was, _ := jsonvalue.Decode(before) // they can be decoded, see Ambiguous
	is, _ := jsonvalue.Decode(after)
	if !exact {
		was, is = ordered("", was), ordered("", is)
	}
	var changes []Change
	for _, d := range expect.Differences(was, is, false) {
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

// ordered replaces arrays that stand for sets by objects with the items as members, so an added
// item is a single difference. name is the name of the member with the value v.
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

// asSet returns the items of an array that stands for a set, or nil. Sets are "required" and "enum"
// in a JSON Schema, and the arguments of a prompt, by name.
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

// setKey returns a string unchanged and other values as JSON. A string with the look of JSON gets a
// different key.
func setKey(item any) string {
	s, ok := item.(string)
	if !ok {
		return string(compact(item))
	}
	if json.Valid([]byte(s)) {
		return string(compact(s))
	}
	return s
}
