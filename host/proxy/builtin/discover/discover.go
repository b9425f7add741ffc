// Package discover helps agents to find tools and to call them. Index is a ranked search over tool
// definitions, and Describe describes a tool as a function of the script language: start with these
// two.
//
// Definitions come from servers and are not trusted. For every definition, the output and the work
// are bounded. A meaningless schema gives a signature with little information.
package discover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Function is a tool to describe.
type Function struct {
	// Call is the function as scripts write it: github.search_issues.
	Call string
	// Input and Output are the raw JSON Schemas; Output may be nil.
	Input, Output []byte
}

// Description describes how to call a tool.
type Description struct {
	// Signature is call(name: type, name: type = default) -> type, on several lines if long,
	// followed by the definitions of named types. "= ..." is an optional argument without a
	// default. A function with arguments that are not identifiers takes one dict: call({"name":
	// type}).
	Signature string
	// Arguments are notes on arguments for which the type does not say everything.
	Arguments []string
	// Conditions are notes on arguments that depend on each other.
	Conditions []string
	// Example is a call with plausible arguments; ExampleArguments are these as a raw JSON
	// object. They may not match a complicated schema.
	Example          string
	ExampleArguments []byte
}

// Limits of a description, in bytes and levels.
const (
	inputRoom  = 6000
	outputRoom = 2000
	maxLevels  = 6
	outLevels  = 4
)

// Describe describes f, with any schemas.
func Describe(f Function) Description {
	root, err := parse(f.Input)
	if err != nil {
		return Description{
			Signature: f.Call + "(**arguments)", Example: f.Call + "({})", ExampleArguments: []byte("{}"),
			Conditions: []string{"the inputSchema is too large or not JSON, and was not read"},
		}
	}
	document := newSchemaDocument(root)
	var d Description
	var arguments text
	var types []string
	for levels := maxLevels; levels > 0; levels-- {
		t := &typer{room: inputRoom, deep: levels, root: "Arguments", reader: reader{schemaDocument: document}}
		if arguments, d.Conditions, types = t.function(f.Call); t.written {
			break
		}
	}
	if f.Output != nil {
		result, more := returns(f.Output)
		arguments.tail += " -> "
		arguments = text{parts: []text{arguments, result}}
		types = append(types, more...)
	}
	d.Signature = strings.Join(append([]string{arguments.layout(0, 0, 0)}, types...), "\n")
	d.Arguments = notes(document)
	d.Example, d.ExampleArguments = example(f.Call, document)
	return d
}

// returns describes the result of a function with the outputSchema raw.
func returns(raw []byte) (result text, types []string) {
	root, err := parse(raw)
	if err != nil {
		return text{head: "any"}, nil
	}
	document := newSchemaDocument(root)
	for levels := outLevels; levels > 0; levels-- {
		t := &typer{room: outputRoom, deep: levels, root: "Result", reader: reader{schemaDocument: document}}
		result = t.writeStable(func() text { return t.typeOf(schemas{root}, 0) })
		if types = t.definitions(); t.written {
			break
		}
	}
	return result, types
}

// writeStable repeats write until no further schema is found that contains itself, so that each
// recursive schema is referred to by name everywhere.
func (t *typer) writeStable(write func() text) text {
	room := t.room
	for {
		known := len(t.aliases)
		t.room, t.steps, t.written, t.active = room, maxSteps, true, map[*node]int{}
		if result := write(); len(t.aliases) == known || known > maxAliases {
			return result
		}
	}
}

// maxAliases limits the number of named types.
const maxAliases = 8

// definitions returns the definitions of named types.
func (t *typer) definitions() []string {
	var lines []string
	for i := 0; i < len(t.aliases) && i < maxAliases; i++ { // a definition may add aliases
		a := t.aliases[i]
		t.active = map[*node]int{}
		definition := t.shapeType(t.shape(schemas{a.of}), 0)
		definition.head = "where " + a.name + " = " + definition.head
		lines = append(lines, definition.layout(0, 0, 0))
	}
	return lines
}

// function returns the call with its arguments, the conditions, and the definitions of types.
func (t *typer) function(call string) (f text, conditions, types []string) {
	f = t.writeStable(func() text {
		s := t.shape(schemas{t.schemaDocument.root})
		conditions = t.addChoices(s, 0)
		for n := range s.seen {
			t.active[n]++
		}
		return t.arguments(call, s)
	})
	return f, conditions, t.definitions()
}

func (t *typer) arguments(call string, s *shape) text {
	properties := s.ordered()
	keywords := !slices.ContainsFunc(properties, func(p property) bool { return !Identifier(p.name) })
	if !keywords {
		dict := t.members(s, properties, 0)
		dict.head, dict.tail = call+"({", "})"
		return dict
	}
	list := text{head: call + "(", tail: ")", separator: ", ", breakable: true}
	for _, p := range properties {
		if t.full() {
			list.parts = append(list.parts, text{head: "..."})
			return list
		}
		list.parts = append(list.parts, t.member(s, p, p.name, 0))
	}
	if s.rest != nil && !s.closed {
		more := text{head: "**more: ", parts: []text{t.typeOf(s.rest[:1], 1)}}
		list.parts = append(list.parts, more)
	}
	if t.full() { // some arguments may not have been reached
		list.parts = append(list.parts, text{head: "..."})
	}
	return list
}

// addChoices adds the properties from the choices of s as optional ones, and says when they
// apply.
func (t *typer) addChoices(s *shape, level int) (conditions []string) {
	conditions = s.conditions
	for _, c := range s.choices {
		if level > 2 || t.full() {
			break
		}
		var forms []string
		var required [][]string
		for _, option := range c.options {
			o := t.shape(schemas{option})
			forms = append(forms, t.form(o))
			conditions = append(conditions, t.addChoices(o, level+1)...)
			required = append(required, o.required)
			s.addOptional(o)
		}
		if c.keyword == "oneOf" || c.keyword == "anyOf" {
			s.requireAll(required)
		}
		if line := c.condition(forms); line != "" && len(conditions) < maxConditions && !slices.Contains(conditions, line) {
			conditions = append(conditions, line)
		}
	}
	return conditions[:min(len(conditions), maxConditions)]
}

// maxConditions and maxForm limit the description of choices.
const (
	maxConditions = 8
	maxForm       = 160
	maxForms      = 8
)

// addOptional adds the properties of an option to s. A property that s itself describes stays
// unchanged.
func (s *shape) addOptional(o *shape) {
	for _, p := range o.properties {
		i := slices.IndexFunc(s.properties, func(known property) bool { return known.name == p.name })
		switch {
		case i < 0:
			// Another option adds another type, because the descriptions of a property in
			// different options do not apply together.
			s.properties = append(s.properties, property{p.name, schemas{either(p.of)}})
		case s.properties[i].of[0].raw == nil: // from another option
			n := s.properties[i].of[0]
			n.members[0].value.items = append(n.members[0].value.items, both(p.of))
		case !slices.ContainsFunc(s.properties[i].of, (*node).types):
			s.properties[i].of = append(schemas{either(p.of)}, s.properties[i].of...)
		}
	}
}

// either returns a new schema with all as the only option so far, without raw text.
func either(all schemas) *node {
	return &node{kind: '{', members: []member{{"anyOf", &node{kind: '[', items: []*node{both(all)}}}}}
}

func both(all schemas) *node {
	return &node{kind: '{', members: []member{{"allOf", &node{kind: '[', items: all}}}}
}

// requireAll makes s require the properties that all options require.
func (s *shape) requireAll(options [][]string) {
	for _, name := range options[0] {
		if !slices.ContainsFunc(options[1:], func(names []string) bool { return !slices.Contains(names, name) }) {
			s.require(name)
		}
	}
}

// form describes the distinguishing features of an option.
func (t *typer) form(o *shape) string {
	if len(o.properties) == 0 && len(o.required) > 0 {
		return joinNames(o.required, " and ")
	}
	deep := t.deep
	t.deep = 2
	defer func() { t.deep = deep }()
	room := t.room
	form := t.shapeType(o, 1).flat()
	t.room = room // limited below
	return display.Summary(form, maxForm)
}

func (c choice) condition(forms []string) string {
	switch c.keyword {
	case "if":
		return "what is allowed depends on other arguments (if, then, else in the inputSchema)"
	case "dependentSchemas":
		return "what is allowed depends on other arguments (dependentSchemas in the inputSchema)"
	}
	if len(forms) < 2 {
		return ""
	}
	if len(forms) > maxForms {
		forms = append(slices.Clone(forms[:maxForms]), "...")
	}
	quantity := map[string]string{"oneOf": "exactly one of these", "anyOf": "at least one of these"}[c.keyword]
	return fmt.Sprintf("%s: %s", quantity, strings.Join(forms, "; or "))
}

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
