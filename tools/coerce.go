package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxRounds limits how often Coerce checks its own changes: decoded text may contain more
// encoded text.
const maxRounds = 16

// Coerce checks the arguments of a call. Where a value has a type other than the schema requires,
// Coerce corrects common mistakes of models without loss:
//
//   - a string with exactly one JSON number, true, false or null becomes
//     the value: "5" -> 5, "5.5" -> 5.5 (not for an integer), "true" -> true;
//   - a string with the text of a JSON object or array becomes the value: models
//     often encode nested arguments twice;
//   - a number becomes a string of the same characters: 5 -> "5". Booleans
//     and null do not, because they are more likely to be wrong values;
//   - a property of the arguments themselves that is null, is optional and must not be null
//     is left out.
//
// The required type may come through references, anyOf, enum and const. Valid arguments are
// returned as the same slice. Otherwise all bytes except the changed values stay the same: key
// order, white space, number literals. A number such as 5.0 is an integer in JSON Schema and stays
// too.
//
// A required property with a default may be left out, see [Schema.Fill].
//
// The result is valid. If the arguments are invalid even after the changes, the error is a
// [*ValidationError] about their changed form. If spend refuses more work, Coerce returns its
// error, like [Schema.Validate].
func (s *Schema) Coerce(args []byte, spend Spend) (coerced []byte, err error) {
	m := s.meter(spend)
	if stopped := m.run(func() { coerced, err = s.coerce(m, args) }); stopped != nil {
		return nil, stopped
	}
	return coerced, err
}

func (s *Schema) coerce(m *meter, args []byte) ([]byte, error) {
	changed := map[string]bool{} // each value is changed at most once, since requirements may contradict each other
	for round := 0; ; round++ {
		v, err := parseValue(m, args, MaxValueDepth)
		if err != nil {
			return nil, unreadable(err)
		}
		lib := s.check(m, v, true)
		if lib == nil {
			return args, nil
		}
		if names := s.leftOut(m, v); round == 0 && len(names) > 0 {
			m.free(0) // the next round parses the rest
			args = without(m, args, names)
			continue
		}
		d := demands{meter: m, value: v, edits: map[string][]byte{}}
		d.collect(lib)
		maps.DeleteFunc(d.edits, func(at string, _ []byte) bool { return changed[at] })
		if len(d.edits) == 0 || round == maxRounds {
			return nil, s.explain(m, lib, v)
		}
		for at := range d.edits {
			changed[at] = true
		}
		m.free(0) // the next round parses the edited text
		args = splice(m, args, d.edits)
	}
}

// demands finds the edits that the library's errors suggest.
type demands struct {
	meter *meter
	value any
	edits map[string][]byte // new text, by JSON pointer
}

func (d demands) collect(e *jsonschema.ValidationError) {
	d.meter.take(schemaCost)
	switch k := e.ErrorKind.(type) {
	case *kind.Contains, *kind.MinContains:
		return // these contain errors of attempts
	case *kind.Type:
		d.propose(e.InstanceLocation, func(_ any, typ string) bool { return slices.Contains(k.Want, typ) })
	case *kind.Enum:
		d.propose(e.InstanceLocation, func(v any, _ string) bool {
			return slices.ContainsFunc(k.Want, func(want any) bool { return d.sameScalar(v, want) })
		})
	case *kind.Const:
		d.propose(e.InstanceLocation, func(v any, _ string) bool { return d.sameScalar(v, k.Want) })
	}
	for _, cause := range e.Causes {
		d.collect(cause)
	}
}

// propose adds an edit at a place if the value has another form, with a JSON Schema type, that
// wanted accepts.
func (d demands) propose(at []string, wanted func(v any, typ string) bool) {
	old, ok := lookup(d.value, at)
	if !ok {
		return
	}
	var text []byte
	switch old := old.(type) {
	case json.Number:
		if wanted(old.String(), "string") {
			text = []byte(`"` + old.String() + `"`)
		}
	case string:
		defer d.meter.free(len(d.meter.trees))
		v, ok := d.fromText(old)
		if !ok {
			return
		}
		if wanted(v, kindOf(v)) || d.isInteger(v) && wanted(v, "integer") {
			text = []byte(strings.TrimSpace(old))
		}
	}
	if text != nil {
		d.edits[pointer(at)] = text
	}
}

// fromText decodes a string with the text of another JSON value. White space is allowed only around
// objects and arrays, where white space is common and harmless.
func (d demands) fromText(s string) (any, bool) {
	trimmed := strings.Trim(s, " \t\r\n")
	if trimmed == "" || trimmed[0] == '"' {
		return nil, false
	}
	if c := trimmed[0]; c != '{' && c != '[' && len(trimmed) != len(s) {
		return nil, false
	}
	v, err := parseValue(d.meter, []byte(trimmed), MaxValueDepth)
	return v, err == nil
}

func (d demands) isInteger(v any) bool {
	n, ok := v.(json.Number)
	return ok && d.meter.isInteger(n)
}

// sameScalar is equal for values other than objects and arrays.
func (d demands) sameScalar(a, b any) bool {
	switch a.(type) {
	case []any, map[string]any:
		return false
	}
	return d.meter.equal(a, b)
}

// splice replaces the scalars at the given pointers and copies everything else byte for
// byte. args has been parsed before, so reading cannot fail.
func splice(m *meter, args []byte, edits map[string][]byte) []byte {
	dec := jsontext.NewDecoder(bytes.NewBuffer(args), jsontext.AllowDuplicateNames(true))
	var out []byte
	copied := 0
	last := int64(0)
	for {
		m.take(tokenCost + byteCost*(dec.InputOffset()-last))
		last = dec.InputOffset()
		switch dec.PeekKind() {
		case '{', '}', '[', ']':
			if _, err := dec.ReadToken(); err != nil {
				return args
			}
			continue
		case 0: // the end of args
			return append(out, args[copied:]...)
		}
		name := atName(dec)
		old, err := dec.ReadValue()
		if err != nil {
			return args
		}
		if name {
			continue
		}
		if text, ok := edits[string(dec.StackPointer())]; ok {
			end := int(dec.InputOffset())
			out = append(out, args[copied:end-len(old)]...)
			out = append(out, text...)
			copied = end
		}
	}
}

// atName reports whether the next token is the name of an object member.
func atName(dec *jsontext.Decoder) bool {
	kind, n := dec.StackIndex(dec.StackDepth())
	return kind == '{' && n%2 == 0
}

// leftOut returns the members of the arguments that are null, optional, and must not be null: some
// hosts and models pass null for every parameter without a value.
func (s *Schema) leftOut(m *meter, v any) map[string]bool {
	members, _ := v.(map[string]any)
	e := &evaluation{schema: s, meter: m, lenient: true}
	out := map[string]bool{}
	for name, value := range members {
		m.take(nameCost)
		if value != nil {
			continue
		}
		if refused, required := e.null(s.root, name, 0); refused && !required {
			out[name] = true
		}
	}
	return out
}

// maxNullDepth bounds how far null follows references, which may be in a circle.
const maxNullDepth = 8

// null returns whether a property must not be null, and whether the property is required.
func (e *evaluation) null(s *jsonschema.Schema, name string, depth int) (refused, required bool) {
	e.meter.take(schemaCost)
	if s == nil || s.Bool != nil || depth > maxNullDepth {
		return false, false
	}
	if sub := s.Properties[name]; sub != nil {
		refused = e.start(sub, nil, true) != nil
		required = slices.Contains(s.Required, name) && !e.hasDefault(sub)
	} else {
		required = slices.Contains(s.Required, name)
	}
	for _, other := range append(slices.Clone(s.AllOf), s.Ref) {
		r, q := e.null(other, name, depth+1)
		refused, required = refused || r, required || q
	}
	return refused, required
}

// without removes members of an object parsed before. The other members keep their bytes.
func without(m *meter, object []byte, names map[string]bool) []byte {
	m.take(byteCost * int64(len(object)))
	dec := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return object
	}
	out := []byte{'{'}
	for dec.PeekKind() == '"' {
		raw, err := dec.ReadValue()
		if err != nil {
			return object
		}
		start := int(dec.InputOffset()) - len(raw)
		name, _ := jsontext.AppendUnquote(nil, raw)
		if _, err := dec.ReadValue(); err != nil {
			return object
		}
		if names[string(name)] {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, object[start:dec.InputOffset()]...)
	}
	return append(out, '}')
}

// defaultOf returns the default of a property: its own, or the default of the referenced schema. A
// default that violates its own schema is ignored.
func (e *evaluation) defaultOf(s *jsonschema.Schema) (any, bool) {
	for from := s; from != nil; from = from.Ref {
		e.meter.take(nameCost)
		if from.Default != nil {
			return *from.Default, e.start(s, *from.Default, true) == nil
		}
	}
	return nil, false
}

func (e *evaluation) hasDefault(s *jsonschema.Schema) bool {
	_, ok := e.defaultOf(s)
	return ok
}

// Fill adds the defaults of missing properties to valid arguments, at the end of each object. Fill
// uses "properties" at every level of the arguments, also through "$ref" and "allOf", but not the
// branches of "anyOf", "if" and similar keywords, because they may not apply. A default that
// violates the property's schema is left out.
//
// The result is valid: if all defaults together would make it invalid, only the defaults of
// required properties are added. Complete arguments are returned as the same slice. The error is
// from spend, as for [Schema.Validate], or a [*ValidationError] for invalid arguments.
func (s *Schema) Fill(args []byte, spend Spend) (filled []byte, err error) {
	m := s.meter(spend)
	if stopped := m.run(func() { filled, err = s.fill(m, args) }); stopped != nil {
		return nil, stopped
	}
	return filled, err
}

func (s *Schema) fill(m *meter, args []byte) ([]byte, error) {
	v, err := parseValue(m, args, MaxValueDepth)
	if err != nil {
		return nil, unreadable(err)
	}
	for _, all := range []bool{true, false} {
		f := filler{evaluation: &evaluation{schema: s, meter: m}, all: all, missing: map[string]map[string]any{}}
		f.value(s.root, v, nil)
		if len(f.missing) == 0 {
			return args, nil
		}
		filled, err := addMembers(m, args, f.missing)
		if err != nil {
			return nil, err
		}
		if w, err := parseValue(m, filled, MaxValueDepth); err == nil && s.check(m, w, false) == nil {
			return filled, nil
		}
	}
	return args, nil
}

// maxDefaults limits the size of the added defaults, in bytes.
const maxDefaults = 1 << 20

// addMembers adds members to the objects at the given pointers, and copies everything else
// byte for byte. args has been parsed before.
func addMembers(m *meter, args []byte, members map[string]map[string]any) ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(args), jsontext.AllowDuplicateNames(true))
	var out []byte
	var open []string // pointers of the open objects and arrays
	copied, added := 0, 0
	for last := int64(0); ; last = dec.InputOffset() {
		m.take(tokenCost + byteCost*(dec.InputOffset()-last))
		kind := dec.PeekKind()
		_, n := dec.StackIndex(dec.StackDepth())
		if _, err := dec.ReadToken(); err != nil { // the end of args
			return append(out, args[copied:]...), nil
		}
		switch kind {
		case '{', '[':
			open = append(open, string(dec.StackPointer()))
		case '}', ']':
			at := open[len(open)-1]
			open = open[:len(open)-1]
			if kind == ']' || members[at] == nil {
				continue
			}
			end := int(dec.InputOffset()) - 1
			out = append(out, args[copied:end]...)
			copied = end
			text := memberText(members[at], n > 0)
			m.text(8 * len(text))
			if added += len(text); added > maxDefaults {
				return nil, &ValidationError{[]Violation{{"", fmt.Sprintf("with the defaults of the schema it is more than %d bytes longer (give the properties that have large ones)", maxDefaults)}}}
			}
			out = append(out, text...)
		}
	}
}

// memberText returns members in the syntax of an object, with a leading comma if the object has
// other members.
func memberText(members map[string]any, others bool) []byte {
	var b bytes.Buffer
	write := json.NewEncoder(&b)
	write.SetEscapeHTML(false)
	put := func(v any) {
		_ = write.Encode(v) // cannot fail: v was read from JSON
		b.Truncate(b.Len() - 1)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if others {
			b.WriteByte(',')
		}
		others = true
		put(name)
		b.WriteByte(':')
		put(members[name])
	}
	return b.Bytes()
}

// filler finds the missing defaults of a value.
type filler struct {
	*evaluation
	all     bool                      // include optional properties
	missing map[string]map[string]any // name and default, by pointer of the object
}

func (f *filler) value(s *jsonschema.Schema, v any, at []string) {
	f.meter.take(schemaCost)
	if s.Bool != nil {
		return
	}
	if s.Ref != nil {
		f.value(s.Ref, v, at)
	}
	for _, sub := range s.AllOf {
		f.value(sub, v, at)
	}
	switch v := v.(type) {
	case map[string]any:
		f.object(s, v, at)
	case []any:
		f.array(s, v, at)
	}
}

func (f *filler) object(s *jsonschema.Schema, obj map[string]any, at []string) {
	for name, sub := range s.Properties {
		f.meter.take(nameCost)
		if v, given := obj[name]; given {
			f.value(sub, v, append(at, name))
			continue
		}
		if !f.all && !slices.Contains(s.Required, name) {
			continue
		}
		if v, ok := f.defaultOf(sub); ok {
			f.add(pointer(at), name, v)
		}
	}
	rest, ok := s.AdditionalProperties.(*jsonschema.Schema)
	if !ok {
		return
	}
	for name, v := range obj {
		if s.Properties[name] == nil {
			f.value(rest, v, append(at, name))
		}
	}
}

func (f *filler) array(s *jsonschema.Schema, items []any, at []string) {
	tuple, rest := itemSchemas(s)
	for i, item := range items {
		sub := rest
		if i < len(tuple) {
			sub = tuple[i]
		}
		if sub == nil {
			return
		}
		f.value(sub, item, append(at, strconv.Itoa(i)))
	}
}

func (f *filler) add(at, name string, v any) {
	if f.missing[at] == nil {
		f.missing[at] = map[string]any{}
	}
	if _, found := f.missing[at][name]; !found {
		f.missing[at][name] = v
	}
}
