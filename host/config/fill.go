package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Filling says how [Section.Fill] replaces references.
type Filling struct {
	// Value returns the value of a reference as JSON. The error says why there is none; its
	// text is for people.
	Value func(name string) ([]byte, error)
	// Skip are keys of the table in which {{ has no special meaning.
	Skip []string
	// Verbatim are keys of the table in which ${ has no special meaning.
	Verbatim []string
	// JSONText reports whether the string under a key, such as "mock[0].returns_json", is
	// JSON text. References are then replaced in the strings within it.
	JSONText func(key string) bool
}

// Fill returns a copy of the table in which the references {{NAME}} in strings have been
// replaced, at any depth. A string that is nothing but one reference becomes the value, of
// whatever type; in other strings, the value becomes part of the text. Nothing is expanded
// or replaced in a value, so it cannot refer to variables of the environment.
//
// A value with a reference that has no value, or with a variable of the environment that is
// not set, is treated as if it were not there; see Missing.
func (s *Section) Fill(f Filling) *Section {
	filled := *s.t
	filled.known = nil
	root := *s.t.node
	root.fields = make(map[string]*node, len(root.keys))
	for _, key := range root.keys {
		n := s.t.node.fields[key]
		if !slices.Contains(f.Skip, key) {
			n = (&filler{t: s.t, Filling: f, verbatim: slices.Contains(f.Verbatim, key)}).node(key, n)
		}
		root.fields[key] = n
		root.pending = root.pending || n.pending
	}
	filled.node = &root
	return &Section{&filled}
}

// Missing returns an error that says which value is needed under a key, or in the table if
// key is "", and is not known; nil if there is none.
func (s *Section) Missing(key string) *Problem {
	if n := s.t.find(key); n != nil && n.pending {
		return n.firstMissing()
	}
	return nil
}

func (n *node) firstMissing() *Problem {
	if n.missing != nil {
		return n.missing
	}
	for _, key := range n.keys {
		if f := n.fields[key]; f.pending {
			return f.firstMissing()
		}
	}
	for _, item := range n.items {
		if item.pending {
			return item.firstMissing()
		}
	}
	return nil
}

// Reread fills the table and reads it a second time, after the file has been read. It
// returns the secrets that are found, and the problems, joined as by [LoadWithin]. It may be
// called from several goroutines at once.
func (s *Section) Reread(f Filling, read func(*Section)) (secrets []string, err error) {
	r := *s.t.r
	r.problems, r.secrets, r.warnings, r.shown = nil, nil, nil, map[string]string{}
	apart := *s.t
	apart.r, apart.known = &r, nil
	read((&Section{&apart}).Fill(f))
	return r.secrets, join(r.report())
}

// Report adds a problem that Missing has returned to those of the file.
func (s *Section) Report(p *Problem) { s.t.r.problems = append(s.t.r.problems, p) }

// Hide makes values secrets of the file.
func (s *Section) Hide(values ...string) { s.t.r.secrets = append(s.t.r.secrets, values...) }

// filler fills one key of a table.
type filler struct {
	t *table
	Filling
	verbatim bool // ${ has no special meaning
}

// node returns a filled copy of a node, or the node itself.
func (f *filler) node(key string, n *node) *node {
	switch n.kind {
	case kindString:
		if f.JSONText != nil && f.JSONText(key) {
			return f.jsonText(key, n)
		}
		return f.text(key, n)
	case kindTable, kindArray:
	default:
		return n
	}
	c := *n
	c.items, c.fields = slices.Clone(n.items), make(map[string]*node, len(n.keys))
	for i, item := range c.items {
		c.items[i] = f.node(fmt.Sprintf("%s[%d]", key, i), item)
		c.pending = c.pending || c.items[i].pending
	}
	for _, name := range c.keys {
		c.fields[name] = f.node(key+"."+name, n.fields[name])
		c.pending = c.pending || c.fields[name].pending
	}
	return &c
}

// text fills a string.
func (f *filler) text(key string, n *node) *node {
	pieces, err := splitReferences(n.text)
	if err != nil {
		f.t.problem(key, "%v", err)
		return n
	}
	c := *n
	c.parts = []part{}
	for _, p := range pieces {
		if p.name == "" {
			c.parts = append(c.parts, part{text: p.text})
			f.variables(key, &c, p.text)
			continue
		}
		raw, err := f.Value(p.name)
		if err != nil {
			f.miss(key, &c, err)
			continue
		}
		value, problem := parseJSON(raw)
		switch {
		case problem != nil:
			f.miss(key, &c, fmt.Errorf("{{%s}} has a value that is not JSON", p.name))
		case len(pieces) == 1:
			return value.asValue(n)
		case value.kind == kindString:
			c.parts = append(c.parts, part{value.text, true})
		default:
			c.parts = append(c.parts, part{string(raw), true})
		}
	}
	if c.pending {
		return &c // text is as in the file
	}
	c.text = ""
	for _, p := range c.parts {
		c.text += p.text
	}
	return &c
}

// variables looks for variables of the environment that are not set.
func (f *filler) variables(key string, n *node, text string) {
	if f.verbatim {
		return
	}
	_, errs := expand(text, f.t.r.getenv)
	for _, err := range errs {
		if _, unset := err.(*UnsetError); unset {
			f.miss(key, n, err)
		}
	}
}

// miss records that a string has no value.
func (f *filler) miss(key string, n *node, err error) {
	n.pending = true
	if n.missing == nil {
		n.missing = &Problem{File: f.t.r.file, Key: f.t.path(key), Text: err.Error(), Err: err}
		n.missing.Line, n.missing.Column = n.position()
	}
}

// jsonText fills the strings in JSON text.
func (f *filler) jsonText(key string, n *node) *node {
	if !strings.Contains(n.text, "{{") {
		return n
	}
	root, problem := parseJSON([]byte(n.text))
	if problem != nil {
		return n // it is reported when it is read
	}
	root.place(n)
	inner := &filler{t: f.t, Filling: Filling{Value: f.Value}, verbatim: true}
	root = inner.node(key, root)
	c := *n
	if c.pending = root.pending; c.pending {
		c.missing = root.firstMissing()
		return &c
	}
	plain := &table{r: &reader{shown: map[string]string{}}}
	c.text = string(plain.raw("", root, func(_, _ string, n *node) (string, bool) { return n.text, true }))
	c.parts = []part{{c.text, true}}
	return &c
}

// place makes the position of all nodes in n that of another one.
func (n *node) place(of *node) {
	n.pos = of.pos
	for _, item := range n.items {
		item.place(of)
	}
	for _, f := range n.fields {
		f.place(of)
	}
}

// asValue returns n as the value of a reference that is all of the string that is written
// elsewhere.
func (n *node) asValue(written *node) *node {
	n.place(written)
	n.written = written.written
	n.filled = true
	n.protect()
	return n
}

// as returns the value of a reference as a string where only that is allowed, if it is a
// number or a boolean, and any other node as it is.
func (n *node) as(kinds []kind) *node {
	scalar := n.kind == kindInteger || n.kind == kindFloat || n.kind == kindBool
	if !n.filled || !scalar || len(kinds) != 1 || kinds[0] != kindString {
		return n
	}
	text := *n
	text.kind = kindString
	text.protect()
	return &text
}

// protect makes expand leave all strings in n as they are.
func (n *node) protect() {
	if n.kind == kindString {
		n.parts = []part{{n.text, true}}
	}
	for _, item := range n.items {
		item.protect()
	}
	for _, f := range n.fields {
		f.protect()
	}
}

// part is a part of a string.
type part struct {
	text  string
	value bool // it is the value of a reference, in which nothing is expanded
}

// expand expands the variables in a string, except in values of references.
func (n *node) expand(getenv func(string) (string, bool)) (e expansion, errs []error) {
	if n.parts == nil {
		return expand(n.text, getenv)
	}
	for _, p := range n.parts {
		var next expansion
		if p.value {
			next.text = p.text
		} else {
			var wrong []error
			next, wrong = expand(p.text, getenv)
			errs = append(errs, wrong...)
		}
		for _, v := range next.vars {
			e.vars = append(e.vars, varSpan{v.span.after(len(e.text)), v.name})
		}
		for _, ref := range next.refs {
			e.refs = append(e.refs, refSpan{ref.span.after(len(e.text)), ref.Reference})
		}
		e.text += next.text
	}
	return e, errs
}

// after returns the span in a text before which there are n bytes.
func (s span) after(n int) span { return span{s.from + n, s.to + n} }

// ValueOf returns the JSON for a value that a person has written as text, such as a cell of
// a table: the text itself if it is JSON, else the text as a string.
func ValueOf(text string) []byte {
	if _, problem := parseJSON([]byte(text)); problem != nil || strings.TrimSpace(text) != text {
		return wire.Quote(text)
	}
	return []byte(text)
}
