package discover

import (
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Limits of notes on arguments.
const (
	maxNotes    = 60
	maxNote     = 300
	notesRoom   = 5000
	notesLevels = 3
)

// noter collects notes on arguments.
type noter struct {
	reader
	lines []string
	paths map[string]bool
	room  int
	open  map[*node]bool // schemas on the path to the visited schema
}

// notes returns lines on the arguments of a schema, such as "limit (1 to 100): most results to
// return". Nested arguments are written a.b, or a[].b in lists.
func notes(d *schemaDocument) []string {
	r := &noter{reader: reader{d, maxSteps}, paths: map[string]bool{}, room: notesRoom, open: map[*node]bool{}}
	r.nested("", r.shape(schemas{d.root}), 0)
	return r.lines
}

func (r *noter) argument(path string, all schemas, level int) {
	if level > notesLevels || len(r.lines) >= maxNotes || r.room <= 0 {
		return
	}
	s := r.shape(all)
	r.note(path, s)
	if slices.ContainsFunc(s.references, func(n *node) bool { return r.open[n] }) {
		return
	}
	r.nested(path, s, level)
}

// nested adds notes on the members below path.
func (r *noter) nested(path string, s *shape, level int) {
	if r.steps <= 0 {
		return
	}
	for n := range s.seen {
		if !r.open[n] {
			r.open[n] = true
			defer delete(r.open, n)
		}
	}
	dot := path
	if dot != "" {
		dot += "."
	}
	for _, p := range s.ordered() {
		r.argument(dot+display.Summary(p.name, maxName), p.of, level+1)
	}
	if s.items != nil {
		r.argument(path+"[]", s.items, level+1)
	}
	for _, c := range s.choices {
		for _, option := range c.options {
			if !r.open[option] {
				r.nested(path, r.shape(schemas{option}), level+1)
			}
		}
	}
}

func (r *noter) note(path string, s *shape) {
	text := display.Summary(s.description, maxNote)
	if text == "" {
		text = display.Summary(s.title, maxNote)
	}
	rules := s.ruleText()
	if text == "" && rules == "" || r.paths[path] {
		return
	}
	r.paths[path] = true
	line := path
	if rules != "" {
		line += " (" + rules + ")"
	}
	if text != "" {
		line += ": " + text
	}
	if r.room -= len(line); r.room > 0 {
		r.lines = append(r.lines, line)
	}
}

// ruleText describes the bounds of a value.
func (s *shape) ruleText() string {
	var all []string
	add := func(parts ...string) {
		if !slices.Contains(parts, "") {
			all = append(all, strings.Join(parts, " "))
		}
	}
	bound := func(keyword string) string {
		n := s.rules[keyword]
		if n == nil || n.kind != '0' && n.kind != '"' {
			return ""
		}
		if n.kind == '"' {
			return display.Summary(n.text(), maxName)
		}
		return display.Summary(string(n.raw), maxName)
	}
	between := func(from, to, of string) {
		a, b := bound(from), bound(to)
		if a == "1" && (b == a || b == "") || a == "" && b == "1" {
			of = strings.TrimSuffix(of, "s")
		}
		switch {
		case a != "" && b != "" && a == b:
			add(a + of)
		case a != "" && b != "":
			add(a, "to", b+of)
		case a != "":
			add("at least", a+of)
		case b != "":
			add("at most", b+of)
		}
	}
	add(bound("format"))
	between("minimum", "maximum", "")
	add("more than", bound("exclusiveMinimum"))
	add("less than", bound("exclusiveMaximum"))
	add("a multiple of", bound("multipleOf"))
	between("minLength", "maxLength", " characters")
	between("minItems", "maxItems", " items")
	between("minProperties", "maxProperties", " members")
	add("matches", bound("pattern"))
	add("encoded as", bound("contentEncoding"))
	add(bound("contentMediaType"))
	if n := s.rules["uniqueItems"]; n != nil && n.kind == 't' {
		add("no item twice")
	}
	if n := s.rules["deprecated"]; n != nil && n.kind == 't' {
		add("deprecated")
	}
	return strings.Join(all, ", ")
}
