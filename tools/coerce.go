package tools

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
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
