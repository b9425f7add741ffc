package discover

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Limits of examples.
const (
	exampleLevels  = 5
	exampleLiteral = 600  // bytes of one argument
	maxGiven       = 500  // bytes of an example or default from a schema
	shownArguments = 3    // optional arguments are shown up to this number
	shownItems     = 3    // items of a list, if the schema requires as many
	maxExample     = 3000 // bytes of all arguments; longer examples are left out
)

// exampler creates matching values for simple schemas.
type exampler struct {
	reader
	open map[*node]bool // schemas for which a value is being created
}

// example returns a call with plausible arguments, and the arguments as a raw object.
func example(call string, d *schemaDocument) (string, []byte) {
	e := &exampler{reader{d, maxSteps}, map[*node]bool{}}
	arguments, err := parse(e.call(e.shape(schemas{d.root})))
	if err != nil || arguments.kind != '{' || len(arguments.raw) > maxExample {
		return call + "({})", []byte("{}")
	}
	keywords := !slices.ContainsFunc(arguments.members, func(m member) bool { return !Identifier(m.name) })
	t := text{head: call + "(", tail: ")", separator: ", ", breakable: true}
	if !keywords {
		t.head, t.tail = call+"({", "})"
	}
	for _, m := range arguments.members {
		name := m.name + "="
		if !keywords {
			name = strconv.Quote(m.name) + ": "
		}
		t.parts = append(t.parts, text{head: name + literal(m.value, exampleLiteral)})
	}
	return t.layout(0, 0, 0), arguments.raw
}

// call returns the object of arguments.
func (e *exampler) call(s *shape) []byte {
	for _, given := range s.examples {
		if given.kind == '{' && len(given.raw) <= maxGiven {
			return given.raw
		}
	}
	s = e.chooseOptions(s)
	defer e.markOpen(s)()
	chosen := e.chooseArguments(s)
	if len(chosen) == 0 {
		return []byte("{}")
	}
	return e.object(chosen, 0)
}

// chooseArguments returns the arguments for an example: the required ones, and a few others for
// which the schema has an example; at least one argument, if the tool has any.
func (e *exampler) chooseArguments(s *shape) []property {
	var chosen, others []property
	for _, p := range s.ordered() {
		of := e.shape(p.of)
		switch {
		case s.requires(p.name), len(chosen) < shownArguments && len(of.examples) > 0:
			chosen = append(chosen, p)
		case of.rules["deprecated"] == nil:
			others = append(others, p)
		}
	}
	if len(chosen) == 0 {
		return others[:min(1, len(others))]
	}
	return chosen
}

// markOpen marks the schemas of s as open until the returned function is called.
func (e *exampler) markOpen(s *shape) (closed func()) {
	var mine []*node
	for n := range s.seen {
		if !e.open[n] {
			e.open[n] = true
			mine = append(mine, n)
		}
	}
	return func() {
		for _, n := range mine {
			delete(e.open, n)
		}
	}
}

// recurs reports whether a value of s would contain another value of s.
func (e *exampler) recurs(s *shape) bool {
	for n := range s.seen {
		if e.open[n] {
			return true
		}
	}
	return false
}

// chooseOptions takes the first possible option of each choice, preferably an option that does not
// recur.
func (e *exampler) chooseOptions(s *shape) *shape {
	for len(s.choices) > 0 && e.steps > 0 {
		c := s.choices[0]
		next := (*shape)(nil)
		for _, option := range c.options {
			if c.keyword != "oneOf" && c.keyword != "anyOf" {
				break
			}
			if e.recurs(e.shape(schemas{option})) && next != nil {
				continue
			}
			if w := e.withOption(s, 0, option); !w.never {
				next = w
				if !e.recurs(e.shape(schemas{option})) {
					break
				}
			}
		}
		if next == nil {
			next = e.withOption(s, 0, anything)
		}
		s = next
	}
	return s
}

func (e *exampler) object(properties []property, level int) []byte {
	var o wire.Object
	for _, p := range properties {
		o.Raw(p.name, e.value(p.of, p.name, level+1))
	}
	return o.Bytes()
}

// value returns a value for the argument or member called name.
func (e *exampler) value(all schemas, name string, level int) []byte {
	s := e.shape(all)
	if given := s.schemaValue(); given != nil {
		return given
	}
	if s = e.chooseOptions(s); s.schemaValue() != nil {
		return s.schemaValue()
	}
	defer e.markOpen(s)()
	kinds := s.kinds()
	kind := "string"
	if i := slices.IndexFunc(kinds, func(k string) bool { return k != "null" }); i >= 0 {
		kind = kinds[i]
	} else if len(kinds) > 0 {
		kind = "null"
	}
	switch kind {
	case "null":
		return []byte("null")
	case "boolean":
		return []byte("true")
	case "integer", "number":
		return s.number()
	case "array":
		return e.array(s, name, level)
	case "object":
		properties := slices.DeleteFunc(s.ordered(), func(p property) bool { return !s.requires(p.name) })
		if level >= exampleLevels || e.steps <= 0 {
			properties = nil
		}
		if len(properties) == 0 && s.rest != nil && len(s.properties) == 0 && level < exampleLevels {
			properties = []property{{"key", s.rest[:1]}}
		}
		return e.object(properties, level)
	}
	return wire.Quote(s.string(name))
}

// schemaValue returns a value from the schema itself (const, enum, default, example), or nil.
func (s *shape) schemaValue() []byte {
	candidates := slices.Clone(s.examples)
	if s.value != nil {
		candidates = append(candidates, s.value)
	}
	if s.listed {
		candidates = append(candidates, s.literals...)
	}
	for _, c := range candidates {
		if c.kind != 'n' && len(c.raw) <= maxGiven {
			return c.raw
		}
	}
	return nil
}

func (e *exampler) array(s *shape, name string, level int) []byte {
	var items [][]byte
	if level < exampleLevels && e.steps > 0 {
		for _, of := range s.tuple {
			items = append(items, e.value(of, name, level+1))
		}
		if s.tuple == nil {
			of := s.items
			if of == nil {
				of = schemas{anything}
			}
			least := s.rules["minItems"].small()
			if least <= 0 && e.recurs(e.shape(of)) {
				return []byte("[]")
			}
			for range min(max(least, 1), shownItems) {
				items = append(items, e.value(of, strings.TrimSuffix(name, "s"), level+1))
			}
		}
	}
	return wire.Array(items)
}

// number returns the least allowed number; without a minimum, 1 or the greatest smaller number that
// is allowed.
func (s *shape) number() []byte {
	read := func(keyword string) (*big.Rat, string) {
		n := s.rules[keyword]
		if n == nil || n.kind != '0' || len(n.raw) > 30 || strings.ContainsAny(string(n.raw), "eE") {
			return nil, ""
		}
		v, ok := new(big.Rat).SetString(string(n.raw))
		if !ok {
			return nil, ""
		}
		return v, string(n.raw)
	}
	one := big.NewRat(1, 1)
	text := "1"
	if m, raw := read("multipleOf"); m != nil {
		one, text = m, raw
	}
	if low, raw := read("minimum"); low != nil && low.Cmp(one) > 0 {
		return []byte(raw)
	}
	if low, _ := read("exclusiveMinimum"); low != nil && low.Cmp(one) >= 0 {
		return []byte(new(big.Int).Add(new(big.Int).Quo(low.Num(), low.Denom()), big.NewInt(1)).String())
	}
	if high, raw := read("maximum"); high != nil && high.Cmp(one) < 0 {
		return []byte(raw)
	}
	return []byte(text)
}

// formats are strings for the formats of JSON Schema.
var formats = map[string]string{
	"date-time": "2026-01-31T09:30:00Z", "date": "2026-01-31", "time": "09:30:00Z", "duration": "PT1H",
	"email": "ada@example.com", "idn-email": "ada@example.com", "hostname": "example.com", "idn-hostname": "example.com",
	"ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "uri-reference": "/page",
	"url": "https://example.com/", "iri": "https://example.com/", "uuid": "123e4567-e89b-12d3-a456-426614174000",
	"regex": "^a+$", "json-pointer": "/a",
}

// exampleByName are strings for arguments with common names, by the last word of the name.
var exampleByName = map[string]string{
	"path": "path/to/it", "file": "path/to/file.txt", "filename": "file.txt", "directory": "path/to/folder",
	"url": "https://example.com/", "uri": "https://example.com/", "email": "ada@example.com", "date": "2026-01-31",
	"query": "words to look for", "pattern": "*.txt", "city": "Berlin", "language": "en", "branch": "main",
}

// string returns a string for the argument called name; "<name>" if nothing better is
// known.
func (s *shape) string(name string) string {
	value := "<" + display.Summary(name, maxName) + ">"
	if parts := words(name, 16); len(parts) > 0 {
		if v, ok := exampleByName[parts[len(parts)-1]]; ok {
			value = v
		}
	}
	if v, ok := formats[s.rules["format"].text()]; ok {
		value = v
	}
	if n := s.rules["maxLength"].small(); n >= 0 && len(value) > n {
		value = strings.ToValidUTF8(value[:n], "")
	}
	if n := s.rules["minLength"].small(); n > len(value) {
		value += strings.Repeat("x", n-len(value))
	}
	return value
}

// small returns a number from 0 to maxGiven, otherwise -1. n may be nil.
func (n *node) small() int {
	v := 0
	if n == nil || n.kind != '0' {
		return -1
	}
	for _, c := range n.raw {
		if v = 10*v + int(c-'0'); c < '0' || c > '9' || v > maxGiven {
			return -1
		}
	}
	return v
}

// maxLiteral is the largest length of a shown literal, in bytes.
const maxLiteral = 200

// literal returns a JSON value in the syntax of scripts; "..." if the text is longer than most.
func literal(n *node, most int) string {
	if text, ok := appendLiteral("", n, most); ok {
		return text
	}
	return "..."
}

// appendLiteral appends a literal to text, and returns false if the result is longer than most.
func appendLiteral(text string, n *node, most int) (string, bool) {
	if len(text)+len(n.raw) > 6*most { // an escape is up to six times as long as the escaped character
		return text, false
	}
	switch n.kind {
	case '{':
		text += "{"
		for i, m := range n.members {
			text += comma(i) + strconv.Quote(m.name) + ": "
			var ok bool
			if text, ok = appendLiteral(text, m.value, most); !ok {
				return text, false
			}
		}
		text += "}"
	case '[':
		text += "["
		for i, item := range n.items {
			var ok bool
			if text, ok = appendLiteral(text+comma(i), item, most); !ok {
				return text, false
			}
		}
		text += "]"
	case '"':
		text += strconv.Quote(n.text())
	case 't':
		text += "True"
	case 'f':
		text += "False"
	case 'n':
		text += "None"
	default:
		text += string(n.raw)
	}
	return text, len(text) <= most
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ", "
}

// keywords cannot be names of attributes or keyword arguments: the grammar uses or reserves
// them (Starlark specification, "Lexical elements").
var keywords = setOf("and", "break", "continue", "def", "elif", "else", "for", "if", "in", "lambda", "load", "not", "or",
	"pass", "return", "while", "as", "assert", "async", "await", "class", "del", "except", "finally", "from", "global",
	"import", "is", "nonlocal", "raise", "try", "with", "yield", "True", "False", "None")

// Identifier reports whether scripts can write name after a dot or as a keyword argument.
func Identifier(name string) bool {
	for i, c := range []byte(name) {
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && !keywords[name]
}

// maxName is the length of the shown part of a name.
const maxName = 80

func quoted(name string) string {
	if len(name) > maxName {
		name = display.Summary(name, maxName)
	}
	return strconv.Quote(name)
}

// joinNames joins names, at most a dozen.
func joinNames(names []string, last string) string {
	all := make([]string, 0, len(names))
	for i, n := range names {
		if i == 12 {
			all = append(all, "...")
			break
		}
		all = append(all, quoted(n))
	}
	if len(all) > 1 && !slices.Contains(all, "...") {
		return strings.Join(all[:len(all)-1], ", ") + last + all[len(all)-1]
	}
	return strings.Join(all, ", ")
}
