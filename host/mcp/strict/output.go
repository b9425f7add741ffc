package strict

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// output reads an outputSchema. Clients with version 1 of the SDK for TypeScript compile the output
// schemas of all tools with Ajv after listing, and refuse the list if a schema cannot be compiled.
func output(r *reader) string {
	start, cuts := r.next(), len(r.cuts)
	if r.modern {
		return outputValue.read(r)
	}
	if why := outputSchema.read(r); why != "" {
		r.quiet = r.stateless && strings.HasPrefix(why, ".type ")
		return why
	}
	var within []cut
	for _, c := range r.cuts[cuts:] {
		within = append(within, cut{c.start - start, c.end - start, c.with})
	}
	return compile(apply(r.raw[start:r.at()], within))
}

// maxPointers is the largest number of places in a schema that references may name, including the
// surrounding places.
const maxPointers = 4096

// place is a place in a schema, where references lead to or through.
type place struct {
	below  map[string]*place // by the name of a member, or the index of an element
	wanted bool              // a $ref leads here
	found  bool
	next   *place // where the $ref of the schema here leads to
}

// compiler looks for constructs that Ajv cannot compile. A compiler reads a schema twice: first the
// references, then the schemas, including schemas that only references lead to.
type compiler struct {
	d      *jsontext.Decoder
	root   place
	places int
	wanted []*place // by real references, and not by values that look like references
	// typed is set if the last type was not an empty list, null if the last type allows null.
	typed, null bool
}

// compile returns why a schema cannot be compiled, or "". Doubtful constructs count as errors.
func compile(schema []byte) string {
	c := &compiler{d: newDecoder(schema)}
	if why := c.references(); why != "" {
		return why
	}
	c.d = newDecoder(schema)
	if why := c.schema(&c.root, true); why != "" {
		return why
	}
	for _, p := range c.wanted {
		if !p.found {
			return " has a $ref to a missing place"
		}
	}
	for _, p := range c.wanted {
		if circular(p) {
			return " has a $ref that leads back to itself"
		}
	}
	return ""
}

// circular reports whether the references of schemas lead in a circle.
func circular(p *place) bool {
	slow := p
	for p.next != nil && p.next.next != nil {
		if p, slow = p.next.next, slow.next; p == slow {
			return true
		}
	}
	return false
}

// references finds the places named by strings called $ref, anywhere in the next value.
func (c *compiler) references() string {
	switch c.d.PeekKind() {
	case '[':
		_, _ = c.d.ReadToken()
		for c.d.PeekKind() != ']' {
			if why := c.references(); why != "" {
				return why
			}
		}
		_, _ = c.d.ReadToken()
	case '{':
		_, _ = c.d.ReadToken()
		for c.d.PeekKind() != '}' {
			name, _ := c.d.ReadToken()
			if name.String() == "$ref" && c.d.PeekKind() == '"' {
				ref, _ := c.d.ReadToken()
				if _, why := c.place(ref.String()); why == tooMany {
					return why
				}
			} else if why := c.references(); why != "" {
				return why
			}
		}
		_, _ = c.d.ReadToken()
	default:
		_ = c.d.SkipValue()
	}
	return ""
}

const tooMany = " has too many references"

// place returns the place of a reference, or the fault of the reference.
func (c *compiler) place(ref string) (p *place, why string) {
	p = &c.root
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, " has a $ref to another document"
	}
	if rest == "" {
		return p, ""
	}
	if rest[0] != '/' {
		return nil, " has a $ref that is not a path"
	}
	for part := range strings.SplitSeq(rest[1:], "/") {
		part, err := url.PathUnescape(part)
		if err != nil || !utf8.ValidString(part) {
			return nil, " has a $ref that is not valid"
		}
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		below := p.below[part]
		if below == nil {
			if c.places++; c.places > maxPointers {
				return nil, tooMany
			}
			if p.below == nil {
				p.below = map[string]*place{}
			}
			below = &place{}
			p.below[part] = below
		}
		p = below
	}
	p.wanted = true
	return p, ""
}

// child returns the place of a part of the value at p; nil for a place without a reference.
func (p *place) child(name string) *place {
	if p == nil {
		return nil
	}
	return p.below[name]
}

// keywords are Ajv's readings of the known keywords.
var keywords map[string]func(c *compiler, p *place) string

func init() { keywords = keywordTable() } // which refers to itself

func keywordTable() map[string]func(c *compiler, p *place) string {
	return map[string]func(c *compiler, p *place) string{
		"minimum": kind('0'), "maximum": kind('0'), "exclusiveMinimum": kind('0'), "exclusiveMaximum": kind('0'), "multipleOf": kind('0'),
		"minLength": kind('0'), "maxLength": kind('0'), "minItems": kind('0'), "maxItems": kind('0'), "minProperties": kind('0'), "maxProperties": kind('0'),
		"required": kind('['), "uniqueItems": kind('t', 'f'), "format": kind('"'), "nullable": kind('t', 'f'),
		"pattern": (*compiler).pattern, "type": (*compiler).types, "enum": (*compiler).enum,
		"properties": (*compiler).schemas, "$defs": (*compiler).schemas, "definitions": (*compiler).schemas,
		"patternProperties": (*compiler).patterns, "dependencies": (*compiler).dependencies,
		"not": (*compiler).inner, "if": (*compiler).inner, "then": (*compiler).inner, "else": (*compiler).inner, "contains": (*compiler).inner,
		"propertyNames": (*compiler).inner, "additionalProperties": (*compiler).inner, "additionalItems": (*compiler).inner,
		"allOf": (*compiler).list, "anyOf": (*compiler).list, "oneOf": (*compiler).list, "items": (*compiler).items,
		"$id": refused, "$anchor": refused, "$dynamicAnchor": refused, "id": refused,
		"formatMinimum": refused, "formatMaximum": refused, "formatExclusiveMinimum": refused, "formatExclusiveMaximum": refused,
	}
}

// schema reads a schema at a place, which is nil if no reference leads to or through the place.
func (c *compiler) schema(p *place, root bool) string {
	if p != nil {
		p.found = true
	}
	switch c.d.PeekKind() {
	case 't', 'f':
		_ = c.d.SkipValue()
		return ""
	case '{':
	default:
		return " has a schema that is neither an object nor a boolean"
	}
	_, _ = c.d.ReadToken()
	var of struct{ types, null, nullable, never bool }
	for c.d.PeekKind() != '}' {
		token, _ := c.d.ReadToken()
		name := token.String()
		read, known := keywords[name]
		value := c.d.PeekKind()
		switch {
		case name == "$ref":
			if why := c.ref(p); why != "" {
				return why
			}
		case root && name == "$id" && value == '"', !known:
			if why := c.other(p.child(name)); why != "" {
				return why
			}
		default:
			switch why := read(c, p.child(name)); {
			case why == wrong:
				return " has a wrong " + name
			case why != "":
				return why
			case name == "type":
				of.types, of.null = c.typed, c.null
			case name == "nullable":
				of.nullable, of.never = true, value == 'f'
			}
		}
	}
	_, _ = c.d.ReadToken()
	if of.nullable && (!of.types || of.null && of.never) {
		return " has a wrong nullable"
	}
	return ""
}

// wrong is returned for a value not allowed by the keyword.
const wrong = "-"

// kind returns a check for a value of the given kinds.
func kind(kinds ...jsontext.Kind) func(*compiler, *place) string {
	return func(c *compiler, p *place) string {
		if !slices.Contains(kinds, c.d.PeekKind()) {
			return wrong
		}
		return c.other(p)
	}
}

func refused(*compiler, *place) string { return wrong }

// other reads a value that is not a schema, unless a reference leads to a part of the value.
func (c *compiler) other(p *place) string {
	if p == nil {
		_ = c.d.SkipValue()
		return ""
	}
	if p.wanted {
		return c.schema(p, false)
	}
	switch c.d.PeekKind() {
	case '{':
		return c.members(p, (*compiler).other)
	case '[':
		return c.elements(p, (*compiler).other)
	}
	_ = c.d.SkipValue()
	return ""
}

// members reads the members of the next object.
func (c *compiler) members(p *place, read func(c *compiler, p *place) string) string {
	_, _ = c.d.ReadToken()
	for c.d.PeekKind() != '}' {
		name, _ := c.d.ReadToken()
		if why := read(c, p.child(name.String())); why != "" {
			return why
		}
	}
	_, _ = c.d.ReadToken()
	return ""
}

// elements reads the elements of the next array.
func (c *compiler) elements(p *place, read func(c *compiler, p *place) string) string {
	_, _ = c.d.ReadToken()
	for i := 0; c.d.PeekKind() != ']'; i++ {
		var below *place
		if p != nil {
			below = p.child(strconv.Itoa(i))
		}
		if why := read(c, below); why != "" {
			return why
		}
	}
	_, _ = c.d.ReadToken()
	return ""
}

func (c *compiler) inner(p *place) string { return c.schema(p, false) }

func (c *compiler) schemas(p *place) string {
	if c.d.PeekKind() != '{' {
		return wrong
	}
	return c.members(p, (*compiler).inner)
}

func (c *compiler) list(p *place) string {
	if c.d.PeekKind() != '[' {
		return wrong
	}
	return c.elements(p, (*compiler).inner)
}

func (c *compiler) items(p *place) string {
	if c.d.PeekKind() == '[' {
		return c.list(p)
	}
	return c.inner(p)
}

func (c *compiler) dependencies(p *place) string {
	if c.d.PeekKind() != '{' {
		return wrong
	}
	return c.members(p, func(c *compiler, p *place) string {
		if c.d.PeekKind() == '[' {
			return c.other(p)
		}
		return c.inner(p)
	})
}

func (c *compiler) patterns(p *place) string {
	if c.d.PeekKind() != '{' {
		return wrong
	}
	_, _ = c.d.ReadToken()
	for c.d.PeekKind() != '}' {
		token, _ := c.d.ReadToken()
		name := token.String()
		if !validPattern(name) {
			return wrong
		}
		if why := c.inner(p.child(name)); why != "" {
			return why
		}
	}
	_, _ = c.d.ReadToken()
	return ""
}

func (c *compiler) pattern(*place) string {
	if c.d.PeekKind() != '"' {
		return wrong
	}
	token, _ := c.d.ReadToken()
	if !validPattern(token.String()) {
		return wrong
	}
	return ""
}

func (c *compiler) types(*place) string {
	c.typed, c.null = false, false
	one := func(c *compiler, _ *place) string {
		if c.d.PeekKind() != '"' {
			return wrong
		}
		token, _ := c.d.ReadToken()
		switch token.String() {
		case "null":
			c.null = true
		case "string", "number", "integer", "boolean", "object", "array":
		default:
			return wrong
		}
		c.typed = true
		return ""
	}
	if c.d.PeekKind() == '[' {
		return c.elements(nil, one)
	}
	return one(c, nil)
}

func (c *compiler) enum(p *place) string {
	if c.d.PeekKind() != '[' {
		return wrong
	}
	_, _ = c.d.ReadToken()
	if c.d.PeekKind() == ']' {
		return wrong
	}
	for i := 0; c.d.PeekKind() != ']'; i++ {
		if why := c.other(p.child(strconv.Itoa(i))); why != "" {
			return why
		}
	}
	_, _ = c.d.ReadToken()
	return ""
}

// ref reads the $ref of the schema at p.
func (c *compiler) ref(p *place) string {
	if c.d.PeekKind() != '"' {
		return " has a wrong $ref"
	}
	token, _ := c.d.ReadToken()
	to, why := c.place(token.String())
	if why != "" {
		return why
	}
	c.wanted = append(c.wanted, to)
	if p != nil {
		p.next = to
	}
	return ""
}
