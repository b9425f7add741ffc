package tools

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

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
