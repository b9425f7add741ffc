package discover

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// typer writes schemas as types. room limits the length of the output.
type typer struct {
	reader
	room   int // bytes left
	deep   int // levels of nesting to expand
	active map[*node]int
	// aliases are the names of schemas that contain themselves, in the order of discovery; root is
	// the name of the document itself.
	aliases []alias
	root    string
	written bool // nothing was left out for lack of room
}

type alias struct {
	of   *node
	name string
}

// maxUnion is the number of shown options of a choice. Only the room limits the options of an
// enumeration.
const maxUnion = 12

// leaf returns an unbreakable text.
func (t *typer) leaf(s string) text {
	if t.room -= len(s); t.room < 0 {
		t.written = false
		return text{head: "..."}
	}
	return text{head: s}
}

func (t *typer) full() bool {
	if t.room > 0 && t.steps > 0 {
		return false
	}
	t.written = false
	return true
}

// typeOf returns the type described by all the schemas together. level is the nesting level, 1 for
// an argument.
func (t *typer) typeOf(all schemas, level int) text {
	if t.full() {
		return text{head: "..."}
	}
	s := t.shape(all)
	if target := s.reference(all); target != nil {
		if name, ok := t.alias(target); ok {
			return t.leaf(name)
		}
	}
	return t.shapeType(s, level)
}

// reference returns the schema if all is only a reference to it, else nil.
func (s *shape) reference(all schemas) *node {
	if len(all) != 1 || len(s.references) == 0 {
		return nil
	}
	kinds := 0
	for _, m := range all[0].members {
		if typing[m.name] {
			kinds++
		}
	}
	if kinds != 1 || all[0].get("allOf") != nil {
		return nil
	}
	return s.references[0]
}

// alias returns the name of a schema that contains itself. The name is known once the schema was
// found inside itself.
func (t *typer) alias(n *node) (string, bool) {
	for _, a := range t.aliases {
		if a.of == n {
			return a.name, true
		}
	}
	if t.active[n] == 0 {
		return "", false
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(t.aliases, func(a alias) bool { return a.name == name })
	}
	base := t.nameOf(n)
	name := base
	for i := 2; taken(name); i++ {
		name = base + strconv.Itoa(i)
	}
	t.aliases = append(t.aliases, alias{n, name})
	return name, true
}

// nameOf returns a name for a schema: the title, or the key in the document.
func (t *typer) nameOf(n *node) string {
	if n == t.schemaDocument.root {
		return t.root
	}
	for _, keyword := range []string{"$defs", "definitions"} {
		for _, m := range t.schemaDocument.root.get(keyword).object() {
			if m.value == n {
				return aliasName(m.name)
			}
		}
	}
	return aliasName(n.get("title").text())
}

func aliasName(s string) string {
	name := ""
	for _, part := range strings.FieldsFunc(s[:min(len(s), maxName)], func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		name += strings.ToUpper(part[:1]) + part[1:]
	}
	if !Identifier(name) {
		return "Nested" + name
	}
	return name
}

func (t *typer) shapeType(s *shape, level int) text {
	for n := range s.seen {
		t.active[n]++
	}
	defer func() {
		for n := range s.seen {
			t.active[n]--
		}
	}()
	switch {
	case t.full():
		return text{head: "..."}
	case s.never:
		return t.leaf("never")
	case s.listed:
		var u union
		for _, l := range s.literals {
			if t.full() {
				u.add(text{head: "..."})
				break
			}
			u.add(t.leaf(literal(l, maxLiteral)))
		}
		return u.text()
	}
	for i, c := range s.choices {
		if c.typesDiffer() {
			return t.choice(s, i, level)
		}
	}
	kinds := s.kinds()
	if kinds == nil {
		return t.leaf("any")
	}
	var u union
	for _, kind := range kinds {
		u.add(t.kind(s, kind, level))
	}
	return u.text()
}

// choice returns s with each option of choice i.
func (t *typer) choice(s *shape, i, level int) text {
	alone := s.onlyChoice(i)
	var u union
	for n, option := range s.choices[i].options {
		if n == maxUnion || t.full() {
			u.add(text{head: "..."})
			break
		}
		if alone {
			u.add(t.typeOf(schemas{option}, level))
		} else if w := t.withOption(s, i, option); !w.never {
			u.add(t.shapeType(w, level))
		}
	}
	if len(u.parts) == 0 {
		return t.leaf("never")
	}
	return u.text()
}

// onlyChoice reports whether s says nothing about types except by choice i.
func (s *shape) onlyChoice(i int) bool {
	for j, c := range s.choices {
		if j != i && c.typesDiffer() {
			return false
		}
	}
	return !s.typed && s.properties == nil && s.required == nil && s.rest == nil && !s.closed && s.items == nil && s.tuple == nil
}

// kind returns s as a value of a single JSON type.
func (t *typer) kind(s *shape, kind string, level int) text {
	switch kind {
	case "string":
		return t.leaf("str")
	case "integer":
		return t.leaf("int")
	case "number":
		return t.leaf("float")
	case "boolean":
		return t.leaf("bool")
	case "null":
		return t.leaf("None")
	case "array":
		return t.array(s, level)
	case "object":
		return t.object(s, level)
	}
	return t.leaf("any")
}

func (t *typer) array(s *shape, level int) text {
	if s.items == nil && s.tuple == nil {
		return t.leaf("list")
	}
	if level >= t.deep {
		return t.leaf("list[...]")
	}
	t.room -= len("list[]")
	if s.tuple == nil {
		return text{head: "list[", parts: []text{t.typeOf(s.items, level+1)}, tail: "]"}
	}
	list := text{head: "[", tail: "]", separator: ", ", breakable: true}
	for _, of := range s.tuple {
		if t.full() {
			list.parts = append(list.parts, text{head: "..."})
			return list
		}
		list.parts = append(list.parts, t.typeOf(of, level+1))
	}
	if s.items != nil {
		if more := t.typeOf(s.items, level+1); more.head != "never" {
			list.parts = append(list.parts, text{head: "*list[", parts: []text{more}, tail: "]"})
		}
	}
	return list
}

func (t *typer) object(s *shape, level int) text {
	properties := s.ordered()
	if len(properties) == 0 {
		switch {
		case s.rest != nil && level < t.deep:
			t.room -= len("dict[str, ]")
			return text{head: "dict[str, ", parts: []text{t.typeOf(s.rest[:1], level+1)}, tail: "]"}
		case s.closed:
			return t.leaf("{}")
		}
		return t.leaf("dict")
	}
	if level >= t.deep {
		return t.leaf("{...}")
	}
	return t.members(s, properties, level)
}

// members returns an object with its members, in the syntax of a dict.
func (t *typer) members(s *shape, properties []property, level int) text {
	o := text{head: "{", tail: "}", separator: ", ", breakable: true}
	for _, p := range properties {
		if t.full() {
			o.parts = append(o.parts, text{head: "..."})
			return o
		}
		o.parts = append(o.parts, t.member(s, p, quoted(p.name), level))
	}
	if rest := s.rest; rest != nil && rest[0].kind == '{' && len(rest[0].members) > 0 {
		o.parts = append(o.parts, text{head: "str: ", parts: []text{t.typeOf(rest[:1], level+1)}})
	}
	return o
}

// member returns a member of an object, or an argument, followed by = and the default, or by = ...
// if it is optional without a default.
func (t *typer) member(s *shape, p property, name string, level int) text {
	m := text{head: t.leaf(name + ": ").head, parts: []text{t.typeOf(p.of, level+1)}}
	if !s.requires(p.name) {
		m.tail = t.leaf(fmt.Sprintf(" = %s", t.defaultOf(p.of))).head
	}
	return m
}

// maxDefault is the length of the longest shown default, in bytes.
const maxDefault = 60

func (t *typer) defaultOf(all schemas) string {
	if s := t.shape(all); s.value != nil {
		return literal(s.value, maxDefault)
	}
	return "..."
}

// ordered returns the possible properties of s, required ones first, including required
// ones without a description.
func (s *shape) ordered() []property {
	var must, may []property
	seen := map[string]bool{}
	for _, p := range s.properties {
		seen[p.name] = true
		switch {
		case slices.ContainsFunc(p.of, func(n *node) bool { return n.kind == 'f' }): // must be absent
		case s.requires(p.name):
			must = append(must, p)
		default:
			may = append(may, p)
		}
	}
	for _, name := range s.required {
		if !seen[name] {
			must = append(must, property{name, schemas{anything}})
		}
	}
	return append(must, may...)
}

func (s *shape) requires(name string) bool { return slices.Contains(s.required, name) }

// union collects different alternatives.
type union struct {
	parts []text
	seen  map[string]bool
}

func (u *union) add(t text) {
	if t.separator == " | " {
		for _, p := range t.parts {
			u.add(p)
		}
		return
	}
	if u.seen == nil {
		u.seen = map[string]bool{}
	}
	if flat := t.flat(); !u.seen[flat] {
		u.seen[flat] = true
		u.parts = append(u.parts, t)
	}
}

func (u *union) text() text {
	if len(u.parts) == 1 {
		return u.parts[0]
	}
	return text{separator: " | ", parts: u.parts}
}

// text is a part of a signature: head, parts and tail. A breakable text has its parts on separate
// lines if they do not fit on a single line.
type text struct {
	head, tail string
	separator  string
	parts      []text
	breakable  bool
}

// width is the length above which lines are broken.
const width = 96

func (t text) flat() string {
	var b strings.Builder
	t.writeFlat(&b)
	return b.String()
}

func (t text) writeFlat(b *strings.Builder) {
	b.WriteString(t.head)
	for i, p := range t.parts {
		if i > 0 {
			b.WriteString(t.separator)
		}
		p.writeFlat(b)
	}
	b.WriteString(t.tail)
}

// layout returns t in lines. The first starts at column, the others are indented by at least
// indent. after is the length of the text that follows t on its last line.
func (t text) layout(indent, column, after int) string {
	flat := t.flat()
	if column+len(flat)+after <= width || len(t.parts) == 0 {
		return flat
	}
	var b strings.Builder
	b.WriteString(t.head)
	for i, p := range t.parts {
		if !t.breakable {
			if i > 0 {
				b.WriteString(t.separator)
			}
			b.WriteString(p.layout(indent, columnAfter(b.String(), column), len(t.tail)+after))
			continue
		}
		b.WriteString("\n" + strings.Repeat(" ", indent+4))
		b.WriteString(p.layout(indent+4, indent+4, 1) + strings.TrimRight(t.separator, " "))
	}
	if t.breakable {
		b.WriteString("\n" + strings.Repeat(" ", indent))
	}
	b.WriteString(t.tail)
	return b.String()
}

// columnAfter returns the column after s, if s starts at column.
func columnAfter(s string, column int) int {
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		return len(s) - i - 1
	}
	return column + len(s)
}
