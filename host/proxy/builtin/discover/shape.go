package discover

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// schemas are schemas that all apply.
type schemas []*node

// property is a possible member of an object.
type property struct {
	name string
	of   schemas
}

// choice is a list of schemas; at least one of them applies.
type choice struct {
	keyword string // oneOf, anyOf, if (then, else), dependentSchemas
	options []*node
}

// shape is the combination of schemas that all apply.
type shape struct {
	never    bool // no value matches
	typed    bool
	types    []string // if typed is set
	listed   bool
	literals []*node // if listed is set: all possible values

	properties []property
	required   []string
	rest       schemas // of unlisted members
	closed     bool    // no other members are allowed
	items      schemas
	tuple      []schemas
	choices    []choice
	conditions []string

	title, description string
	value              *node            // default
	examples           []*node          // of any type
	rules              map[string]*node // other keywords that restrict a value
	seen               map[*node]bool
	references         []*node // targets of references
}

// ruleKeywords are the keywords that restrict values without changing their type.
var ruleKeywords = setOf("format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
	"multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
	"contentEncoding", "contentMediaType", "deprecated")

// reader creates the shapes of a document. steps limits the work.
type reader struct {
	*schemaDocument
	steps int
}

// maxSteps is the number of visited schemas for one description, including repeated visits.
const maxSteps = 4000

// maxMembers is the number of members read of one object, more than a description shows.
const maxMembers = 500

func (r *reader) shape(all schemas) *shape {
	s := &shape{rules: map[string]*node{}, seen: map[*node]bool{}}
	for _, n := range all {
		r.add(s, n)
	}
	return s
}

// withOption returns s with option in place of the choice at index i.
func (r *reader) withOption(s *shape, i int, option *node) *shape {
	c := *s
	c.types, c.literals = slices.Clone(s.types), slices.Clone(s.literals)
	c.properties = make([]property, len(s.properties))
	for j, p := range s.properties {
		c.properties[j] = property{p.name, slices.Clone(p.of)}
	}
	c.required, c.rest, c.items = slices.Clone(s.required), slices.Clone(s.rest), slices.Clone(s.items)
	c.tuple = make([]schemas, len(s.tuple))
	for j, t := range s.tuple {
		c.tuple[j] = slices.Clone(t)
	}
	c.choices = slices.Delete(slices.Clone(s.choices), i, i+1)
	c.conditions, c.references = slices.Clone(s.conditions), slices.Clone(s.references)
	c.rules = make(map[string]*node, len(s.rules))
	for k, v := range s.rules {
		c.rules[k] = v
	}
	c.seen = make(map[*node]bool, len(s.seen))
	for k := range s.seen {
		c.seen[k] = true
	}
	r.steps -= (len(s.properties) + len(s.required) + len(s.literals) + len(s.seen)) / 16
	r.add(&c, option)
	return &c
}

// add combines n into s. Where only one value is possible, the value nearer to the place of use
// wins: a description next to a $ref over the description in the target.
func (r *reader) add(s *shape, n *node) {
	if n == nil || s.seen[n] || r.steps <= 0 {
		return
	}
	r.steps -= 1 + len(n.members)/8
	s.seen[n] = true
	if n.kind == 'f' {
		s.never = true
	}
	for _, m := range n.object() {
		r.keyword(s, n, m.name, m.value)
	}
	r.conditional(s, n)
	for _, m := range n.object() {
		switch m.name {
		case "$ref", "$dynamicRef", "$recursiveRef":
			if target := r.resolve(m.value.text()); target != nil && m.value.kind == '"' {
				s.references = append(s.references, target)
				r.add(s, target)
			}
		case "allOf":
			for _, part := range m.value.items {
				r.add(s, part)
			}
		}
	}
}

func (r *reader) keyword(s *shape, n *node, keyword string, v *node) {
	r.steps -= (len(v.members) + len(v.items)) / 32
	switch keyword {
	case "type":
		s.restrict(v)
	case "const":
		s.restrictTo([]*node{v})
	case "enum":
		s.restrictTo(v.items)
	case "properties":
		for _, m := range v.members {
			if len(s.properties) < maxMembers {
				s.property(m.name, m.value)
			}
		}
	case "required":
		for _, name := range v.texts() {
			s.require(name)
		}
	case "additionalProperties", "unevaluatedProperties":
		s.additional(v)
	case "patternProperties":
		for _, m := range v.members {
			s.rest = append(s.rest, m.value)
		}
	case "items", "prefixItems":
		s.elements(n, keyword, v)
	case "oneOf", "anyOf":
		if len(v.items) > 0 {
			s.choices = append(s.choices, choice{keyword, v.items})
		}
	case "title", "description":
		s.annotate(keyword, v.text())
	case "default":
		if s.value == nil {
			s.value = v
		}
	case "examples":
		s.examples = append(s.examples, v.items...)
	case "example":
		s.examples = append(s.examples, v)
	default:
		if ruleKeywords[keyword] && s.rules[keyword] == nil {
			s.rules[keyword] = v
		}
	}
}

func (s *shape) annotate(keyword, text string) {
	if keyword == "title" && s.title == "" {
		s.title = text
	}
	if keyword == "description" && s.description == "" {
		s.description = text
	}
}

// restrict applies the keyword type.
func (s *shape) restrict(v *node) {
	types := v.texts()
	if v.kind == '"' {
		types = []string{v.text()}
	}
	if types == nil {
		return
	}
	if !s.typed {
		s.typed, s.types = true, types
		return
	}
	has := func(list []string, t string) bool { return slices.Contains(list, t) }
	before := s.types
	s.types = nil
	for _, t := range before {
		switch {
		case has(types, t), t == "integer" && has(types, "number"):
			s.types = append(s.types, t)
		case t == "number" && has(types, "integer"):
			s.types = append(s.types, "integer")
		}
	}
	s.never = s.never || len(s.types) == 0
}

// restrictTo applies the keywords enum and const.
func (s *shape) restrictTo(values []*node) {
	if !s.listed {
		s.listed, s.literals = true, slices.Clone(values)
	} else {
		s.literals = slices.DeleteFunc(s.literals, func(l *node) bool {
			return !slices.ContainsFunc(values, func(v *node) bool { return bytes.Equal(l.raw, v.raw) })
		})
	}
	s.never = s.never || len(s.literals) == 0
}

func (s *shape) property(name string, of *node) {
	for i, p := range s.properties {
		if p.name == name {
			s.properties[i].of = append(p.of, of)
			return
		}
	}
	s.properties = append(s.properties, property{name, schemas{of}})
}

func (s *shape) require(name string) {
	if len(s.required) < maxMembers && !slices.Contains(s.required, name) {
		s.required = append(s.required, name)
	}
}

// additional applies the keyword additionalProperties.
func (s *shape) additional(v *node) {
	switch v.kind {
	case 'f':
		s.closed = true
	case 't', '{':
		s.rest = append(s.rest, v)
	}
}

// elements applies the keywords items and prefixItems. Before 2020-12, items could be a
// list of the first items, and additionalItems applied to the rest.
func (s *shape) elements(n *node, keyword string, v *node) {
	switch {
	case v.kind == '[' && s.tuple == nil:
		for _, item := range v.items {
			s.tuple = append(s.tuple, schemas{item})
		}
		if more := n.get("additionalItems"); keyword == "items" && more != nil {
			s.items = append(s.items, more)
		}
	case v.kind == '[':
	case keyword == "items":
		s.items = append(s.items, v)
	}
}

// conditional applies the keywords that hold only for some values.
func (r *reader) conditional(s *shape, n *node) {
	if then, other := n.get("then"), n.get("else"); n.get("if") != nil && (then != nil || other != nil) {
		s.choices = append(s.choices, choice{"if", []*node{orAny(then), orAny(other)}})
	}
	for _, keyword := range []string{"dependentSchemas", "dependentRequired", "dependencies"} {
		for _, m := range n.get(keyword).object() {
			if m.value.kind == '[' {
				if names := m.value.texts(); len(names) > 0 {
					s.conditions = append(s.conditions, quoted(m.name)+" needs "+joinNames(names, " and ")+", too")
				}
				continue
			}
			s.choices = append(s.choices, choice{"dependentSchemas", []*node{anything, m.value}})
		}
	}
}

var anything = &node{kind: 't', raw: []byte("true")}

func orAny(n *node) *node {
	if n == nil {
		return anything
	}
	return n
}

// typing are the keywords with which an option of a choice can restrict types. Options
// without them only distinguish more cases.
var typing = setOf("type", "enum", "const", "properties", "patternProperties", "additionalProperties", "items",
	"prefixItems", "oneOf", "anyOf", "allOf", "$ref", "$dynamicRef", "$recursiveRef", "then", "else")

// typesDiffer reports whether the options of c differ in type.
func (c choice) typesDiffer() bool {
	return slices.ContainsFunc(c.options, (*node).types)
}

// types reports whether a schema restricts types.
func (n *node) types() bool {
	return n.kind == 'f' || slices.ContainsFunc(n.members, func(m member) bool { return typing[m.name] })
}

// kinds returns the possible types of a value of s; nil for any.
func (s *shape) kinds() []string {
	switch {
	case s.typed:
		return s.types
	case len(s.properties) > 0 || len(s.required) > 0 || s.rest != nil || s.closed:
		return []string{"object"}
	case s.items != nil || s.tuple != nil:
		return []string{"array"}
	case s.rules["minLength"] != nil || s.rules["maxLength"] != nil || s.rules["pattern"] != nil || s.rules["format"] != nil:
		return []string{"string"}
	case s.rules["minimum"] != nil || s.rules["maximum"] != nil || s.rules["multipleOf"] != nil:
		return []string{"number"}
	}
	return nil
}

// maxDocument is the size of the largest parsed schema, in bytes.
const maxDocument = 256 << 10

// maxNesting is the depth to which a document is parsed; deeper values are ignored.
const maxNesting = 64

var errDocument = errors.New("not a JSON document that can be read")

// node is a value in a JSON document. Members keep their order, and numbers their digits.
type node struct {
	kind    jsontext.Kind // as of tokens: { [ " 0 t f n
	raw     []byte
	members []member // of an object, the last of each name
	items   []*node  // of an array
}

type member struct {
	name  string
	value *node
}

// parse parses a document. The tree refers to raw.
func parse(raw []byte) (*node, error) {
	if len(raw) > maxDocument {
		return nil, errDocument
	}
	p := parser{raw, jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	n, err := p.value(maxNesting)
	if err != nil {
		return nil, errDocument
	}
	return n, nil
}

type parser struct {
	raw []byte
	d   *jsontext.Decoder
}

func (p *parser) value(depth int) (*node, error) {
	n := &node{kind: p.d.PeekKind()}
	if depth == 0 || n.kind != '{' && n.kind != '[' {
		v, err := p.d.ReadValue()
		end := p.d.InputOffset()
		if err == nil {
			n.raw = p.raw[int(end)-len(v) : end]
		}
		return n, err
	}
	if _, err := p.d.ReadToken(); err != nil {
		return n, err
	}
	start := p.d.InputOffset() - 1
	at := map[string]int{}
	for p.d.PeekKind() != n.kind+2 { // '}' is '{' + 2, ']' is '[' + 2
		var key string
		if n.kind == '{' {
			tok, err := p.d.ReadToken()
			if err != nil {
				return n, err
			}
			key = tok.String()
		}
		v, err := p.value(depth - 1)
		if err != nil {
			return n, err
		}
		i, again := at[key]
		switch {
		case n.kind == '[':
			n.items = append(n.items, v)
		case again:
			n.members[i].value = v
		default:
			at[key] = len(n.members)
			n.members = append(n.members, member{key, v})
		}
	}
	_, err := p.d.ReadToken()
	n.raw = p.raw[start:p.d.InputOffset()]
	return n, err
}

// get returns the member called name, or nil. n may be nil.
func (n *node) get(name string) *node {
	if n != nil {
		for _, m := range n.members {
			if m.name == name {
				return m.value
			}
		}
	}
	return nil
}

// text returns the value of a string, "" for other values.
func (n *node) text() string {
	if n == nil || n.kind != '"' {
		return ""
	}
	b, _ := jsontext.AppendUnquote(nil, n.raw) // invalid UTF-8 becomes U+FFFD
	return string(b)
}

// texts returns the strings in an array.
func (n *node) texts() []string {
	var all []string
	if n != nil {
		for _, item := range n.items {
			if item.kind == '"' {
				all = append(all, item.text())
			}
		}
	}
	return all
}

// propertyNames returns the names of the arguments in a raw inputSchema.
func propertyNames(schema []byte) []string {
	root, err := parse(schema)
	if err != nil {
		return nil
	}
	var names []string
	for _, m := range root.get("properties").object() {
		names = append(names, m.name)
	}
	return names
}

func (n *node) object() []member {
	if n == nil {
		return nil
	}
	return n.members
}

// schemaDocument is a schema and the targets of references within the schema.
type schemaDocument struct {
	root  *node
	named map[string]*node // by "#anchor" and by $id
}

func newSchemaDocument(root *node) *schemaDocument {
	d := &schemaDocument{root: root, named: map[string]*node{}}
	d.collect(root)
	return d
}

func (d *schemaDocument) collect(n *node) {
	for _, m := range n.members {
		switch id := m.value.text(); m.name {
		case "$anchor", "$dynamicAnchor":
			d.name("#"+id, n)
		case "$id", "id":
			if id != "" {
				d.name(strings.TrimSuffix(id, "#"), n)
			}
		}
		d.collect(m.value)
	}
	for _, item := range n.items {
		d.collect(item)
	}
}

func (d *schemaDocument) name(name string, n *node) {
	if d.named[name] == nil {
		d.named[name] = n
	}
}

// resolve returns the target of a reference; nil if the document does not have the target.
func (d *schemaDocument) resolve(ref string) *node {
	if n := d.named[strings.TrimSuffix(ref, "#")]; n != nil && ref != "" {
		return n
	}
	base, fragment, _ := strings.Cut(ref, "#")
	n := d.root
	if base != "" {
		if n = d.named[base]; n == nil {
			return nil
		}
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	if fragment == "" {
		return n
	}
	if fragment[0] != '/' {
		return d.named["#"+fragment]
	}
	for _, step := range strings.Split(fragment[1:], "/") {
		n = n.child(strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~"))
		if n == nil {
			return nil
		}
	}
	return n
}

// child follows a single step of a JSON pointer.
func (n *node) child(step string) *node {
	if n.kind != '[' {
		return n.get(step)
	}
	i := 0
	for _, c := range step {
		if i = 10*i + int(c-'0'); c < '0' || c > '9' || i >= len(n.items) {
			return nil
		}
	}
	if step == "" {
		return nil
	}
	return n.items[i]
}
