package pins

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
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

// String describes the change in a line, such as
//
//	tool "get-sum": inputSchema: property "a": type changed from "number" to "string"
func (c Change) String() string {
	item := fmt.Sprintf("%s %q", noun(c.Surface), c.Name)
	if c.Surface == About {
		item = fmt.Sprintf("server %q", c.Server)
	}
	if len(c.steps) == 0 {
		switch c.Kind {
		case Added:
			return item + " is new"
		case Removed:
			return item + " is gone"
		}
	}
	return item + ": " + c.describe()
}

// describe returns the change of the definition in words.
func (c Change) describe() string {
	parents, rest := c.place()
	names := make([]string, len(rest))
	for i, step := range rest {
		names[i] = plainName(step)
	}
	subject := strings.Join(names, ".")
	if len(rest) == 0 && len(parents) > 0 { // a whole property or argument
		parents, subject = parents[:len(parents)-1], parents[len(parents)-1]
	}
	return strings.Join(append(parents, c.event(rest, subject)), ": ")
}

// event describes the change of subject, the target of the steps.
func (c Change) event(steps []string, subject string) string {
	position := false // rather than an item of a set
	if n := len(c.steps); n > 0 {
		_, position = c.steps[n-1].(int)
	}
	if len(steps) == 2 && !position {
		switch key := steps[0] + " " + string(c.Kind); key {
		case "required added":
			return fmt.Sprintf("property %q is now required", steps[1])
		case "required removed":
			return fmt.Sprintf("property %q is no longer required", steps[1])
		case "enum added":
			return fmt.Sprintf("value %s is now allowed", c.Is)
		case "enum removed":
			return fmt.Sprintf("value %s is no longer allowed", c.Was)
		}
	}
	switch c.Kind {
	case Added:
		return fmt.Sprintf("%s was added: %s", subject, c.Is)
	case Removed:
		return fmt.Sprintf("%s was removed (it was %s)", subject, c.Was)
	}
	return fmt.Sprintf("%s changed from %s to %s", subject, c.Was, c.Is)
}

// place splits the path into the part with a description in words and the remaining steps.
func (c Change) place() (parents, rest []string) {
	for _, s := range c.steps {
		rest = append(rest, fmt.Sprint(s))
	}
	if len(rest) > 1 && (rest[0] == "inputSchema" || rest[0] == "outputSchema") {
		parents, rest = rest[:1:1], rest[1:]
	}
	for len(rest) >= 2 {
		switch rest[0] {
		case "properties":
			parents, rest = append(parents, fmt.Sprintf("property %q", rest[1])), rest[2:]
		case "arguments":
			parents, rest = append(parents, fmt.Sprintf("argument %q", rest[1])), rest[2:]
		case "items":
			parents, rest = append(parents, "items"), rest[1:]
		default:
			return parents, rest
		}
	}
	return parents, rest
}

// Diff returns a unified diff of the pinned and the current definition, for people: a member on
// each line, and texts line by line. A line with invisible or misleading characters is quoted. Diff
// is empty if nothing differs.
func (f *Finding) Diff() string {
	return change.Diff("pinned", lines(f.was), "now", lines(f.is))
}

// lines returns a canonical definition with a member on each line; nil for none.
func lines(canonical []byte) []byte {
	v, err := jsonvalue.Decode(canonical)
	if err != nil {
		return nil
	}
	var b strings.Builder
	writeLines(&b, "", "", v)
	return []byte(b.String())
}

// writeLines writes a value whose lines begin with indent. name is the value's name, as shown.
func writeLines(b *strings.Builder, indent, name string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			deeper := indent
			if name != "" {
				fmt.Fprintf(b, "%s%s\n", indent, name)
				deeper += "  "
			}
			for _, member := range slices.Sorted(maps.Keys(v)) {
				writeLines(b, deeper, plainName(member)+":", v[member])
			}
			return
		}
	case []any:
		if slices.ContainsFunc(v, isLarge) {
			fmt.Fprintf(b, "%s%s\n", indent, name)
			for _, item := range v {
				writeLines(b, indent+"  ", "-", item)
			}
			return
		}
	case string:
		if strings.Contains(v, "\n") {
			fmt.Fprintf(b, "%s%s\n", indent, name)
			for line := range strings.SplitSeq(v, "\n") {
				if seen(line) && !strings.HasSuffix(line, " ") {
					fmt.Fprintf(b, "%s  | %s\n", indent, line)
				} else {
					fmt.Fprintf(b, "%s  %s\n", indent, strconv.QuoteToASCII(line))
				}
			}
			return
		}
		if !seen(v) {
			fmt.Fprintf(b, "%s%s %s\n", indent, name, strconv.QuoteToASCII(v))
			return
		}
	}
	fmt.Fprintf(b, "%s%s %s\n", indent, name, compact(v))
}

// seen reports whether people see every character of a line as the character is: no invisible
// character, no unusual white space, and no accent that usually belongs to the character before.
func seen(line string) bool {
	hidden := func(r rune) bool { return r != ' ' && (!display.Harmless(r) || unicode.IsSpace(r)) }
	return !strings.ContainsFunc(line, hidden) && norm.NFC.IsNormalString(line)
}

// isLarge reports whether an item of an array gets its own lines.
func isLarge(v any) bool {
	switch v := v.(type) {
	case map[string]any, []any:
		return true
	case string:
		return len(v) > 40 || !seen(v)
	}
	return false
}

// plainName returns a simple word unchanged, and any other name of a member as JSON.
func plainName(name string) string {
	if name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$") == "" {
		return name
	}
	if !seen(name) {
		return strconv.QuoteToASCII(name)
	}
	quoted, _ := json.Marshal(name) // a string
	return string(quoted)
}
