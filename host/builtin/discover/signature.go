package discover

import (
	"fmt"
	"slices"
	"strings"
)

// Function is a tool to be described.
type Function struct {
	// Call is how scripts write it: github.search_issues.
	Call string
	// Input and Output are its raw JSON Schemas; Output may be nil.
	Input, Output []byte
}

// Description says how to call a tool.
type Description struct {
	// Signature is call(name: type, name: type = default) -> type, over several
	// lines if it is long, then the types it has names for. "= ..." is an
	// argument that may be left out and has no default. A function with arguments
	// whose names are no identifiers takes one dict: call({"name": type}).
	Signature string
	// Arguments are lines on those of which there is more to say than their type.
	Arguments []string
	// Conditions are lines on arguments that depend on one another.
	Conditions []string
	// Example is a call with plausible arguments; ExampleArguments are these as a
	// raw JSON object. They need not match a schema that is hard to match.
	Example          string
	ExampleArguments []byte
}

// How much of a description there is at most, in bytes and levels.
const (
	inputRoom  = 6000
	outputRoom = 2000
	maxLevels  = 6
	outLevels  = 4
)

// Describe describes f, whatever its schemas are.
func Describe(f Function) Description {
	root, err := parse(f.Input)
	if err != nil {
		return Description{
			Signature: f.Call + "(**arguments)", Example: f.Call + "({})", ExampleArguments: []byte("{}"),
			Conditions: []string{"the inputSchema is too large or no JSON, and was not read"},
		}
	}
	document := newSchemaDocument(root)
	var d Description
	var arguments text
	var where []string
	for levels := maxLevels; levels > 0; levels-- {
		t := &typer{room: inputRoom, deep: levels, root: "Arguments", reader: reader{schemaDocument: document}}
		if arguments, d.Conditions, where = t.function(f.Call); t.written {
			break
		}
	}
	if f.Output != nil {
		result, more := returns(f.Output)
		arguments.tail += " -> "
		arguments = text{parts: []text{arguments, result}}
		where = append(where, more...)
	}
	d.Signature = strings.Join(append([]string{arguments.layout(0, 0, 0)}, where...), "\n")
	d.Arguments = notes(document)
	d.Example, d.ExampleArguments = example(f.Call, document)
	return d
}

// returns is what a function with the outputSchema raw returns.
func returns(raw []byte) (result text, where []string) {
	root, err := parse(raw)
	if err != nil {
		return text{head: "any"}, nil
	}
	document := newSchemaDocument(root)
	for levels := outLevels; levels > 0; levels-- {
		t := &typer{room: outputRoom, deep: levels, root: "Result", reader: reader{schemaDocument: document}}
		result = t.stable(func() text { return t.typeOf(schemas{root}, 0) })
		if where = t.where(); t.written {
			break
		}
	}
	return result, where
}

// stable writes until no further schema turns out to contain itself, so that
// all places that mean it name it.
func (t *typer) stable(write func() text) text {
	room := t.room
	for {
		known := len(t.aliases)
		t.room, t.steps, t.written, t.active = room, maxSteps, true, map[*node]int{}
		if result := write(); len(t.aliases) == known || known > maxAliases {
			return result
		}
	}
}

// maxAliases bounds the types that get names.
const maxAliases = 8

// where are the types that have names.
func (t *typer) where() []string {
	var lines []string
	for i := 0; i < len(t.aliases) && i < maxAliases; i++ { // more may be found on the way
		a := t.aliases[i]
		t.active = map[*node]int{}
		definition := t.shaped(t.shape(schemas{a.of}), 0)
		definition.head = "where " + a.name + " = " + definition.head
		lines = append(lines, definition.layout(0, 0, 0))
	}
	return lines
}

// function is the call with its arguments.
func (t *typer) function(call string) (f text, conditions, where []string) {
	f = t.stable(func() text {
		s := t.shape(schemas{t.schemaDocument.root})
		conditions = t.spread(s, 0)
		for n := range s.seen {
			t.active[n]++
		}
		return t.arguments(call, s)
	})
	return f, conditions, t.where()
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
	if t.full() { // there may be arguments that were not met
		list.parts = append(list.parts, text{head: "..."})
	}
	return list
}

// spread gives s the properties that its choices add, as ones that may be left
// out, and says when they may.
func (t *typer) spread(s *shape, level int) (conditions []string) {
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
			conditions = append(conditions, t.spread(o, level+1)...)
			required = append(required, o.required)
			s.offer(o)
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

// maxConditions and maxForm bound what is said of choices.
const (
	maxConditions = 8
	maxForm       = 160
	maxForms      = 8
)

// offer takes over the properties of an option: those that s has are as s says,
// unless it says nothing.
func (s *shape) offer(o *shape) {
	for _, p := range o.properties {
		i := slices.IndexFunc(s.properties, func(known property) bool { return known.name == p.name })
		switch {
		case i < 0:
			// One more option is one more type: what options say of a property does
			// not hold at once.
			s.properties = append(s.properties, property{p.name, schemas{either(p.of)}})
		case s.properties[i].of[0].raw == nil: // of another option
			n := s.properties[i].of[0]
			n.members[0].value.items = append(n.members[0].value.items, both(p.of))
		case !slices.ContainsFunc(s.properties[i].of, (*node).types):
			s.properties[i].of = append(schemas{either(p.of)}, s.properties[i].of...)
		}
	}
}

// either is a schema, made up by us and so without raw text, that has all as
// its only option yet.
func either(all schemas) *node {
	return &node{kind: '{', members: []member{{"anyOf", &node{kind: '[', items: []*node{both(all)}}}}}
}

func both(all schemas) *node {
	return &node{kind: '{', members: []member{{"allOf", &node{kind: '[', items: all}}}}
}

// requireAll makes s require what all options do.
func (s *shape) requireAll(options [][]string) {
	for _, name := range options[0] {
		if !slices.ContainsFunc(options[1:], func(names []string) bool { return !slices.Contains(names, name) }) {
			s.require(name)
		}
	}
}

// form says what distinguishes an option.
func (t *typer) form(o *shape) string {
	if len(o.properties) == 0 && len(o.required) > 0 {
		return listed(o.required, " and ")
	}
	deep := t.deep
	t.deep = 2
	defer func() { t.deep = deep }()
	room := t.room
	form := t.shaped(o, 1).flat()
	t.room = room // it is bounded below
	return Clip(form, maxForm)
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
