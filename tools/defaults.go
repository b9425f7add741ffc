package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

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
