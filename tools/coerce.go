package tools

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxRounds bounds how often Coerce looks again at what it has changed: text
// that was JSON may hold more of it.
const maxRounds = 16

// Coerce checks the arguments of a call, and where the schema demands another
// type than a value has, changes what models commonly get wrong, if that loses
// nothing:
//
//   - a string that is exactly one JSON number, true, false or null becomes
//     that value: "5" -> 5, "5.5" -> 5.5 (not for an integer), "true" -> true;
//   - a string that is the text of a JSON object or array becomes it: models
//     often encode nested arguments twice;
//   - a number becomes a string of the same characters: 5 -> "5". The booleans
//     and null do not: they are more often a wrong value than a wrong spelling.
//
// The demand may come through references, anyOf, enum and const. Arguments
// that are valid are returned as the same slice; otherwise all bytes but those
// of the changed values stay as they were: key order, white space, number
// literals. A number such as 5.0 is an integer to JSON Schema and stays too.
//
// What is returned validates. If the changed arguments still do not, the error
// is a [*ValidationError] that lists what is wrong with their changed form.
func (s *Schema) Coerce(args []byte) ([]byte, error) {
	changed := map[string]bool{} // each place at most once: demands may contradict
	for round := 0; ; round++ {
		v, err := parseValue(args, MaxValueDepth)
		if err != nil {
			return nil, unreadable(err)
		}
		lib := s.check(v, len(args))
		if lib == nil {
			return args, nil
		}
		d := demands{value: v, edits: map[string][]byte{}}
		d.collect(lib)
		maps.DeleteFunc(d.edits, func(at string, _ []byte) bool { return changed[at] })
		if len(d.edits) == 0 || round == maxRounds {
			return nil, s.explain(lib, v)
		}
		for at := range d.edits {
			changed[at] = true
		}
		args = splice(args, d.edits)
	}
}

// demands finds the edits that the library's errors suggest.
type demands struct {
	value any
	edits map[string][]byte // new text, by pointer
}

func (d demands) collect(e *jsonschema.ValidationError) {
	switch k := e.ErrorKind.(type) {
	case *kind.Contains, *kind.MinContains, *kind.ContentSchema:
		return // what these list are attempts, or about another value
	case *kind.Type:
		d.propose(e.InstanceLocation, func(_ any, typ string) bool { return slices.Contains(k.Want, typ) })
	case *kind.Enum:
		d.propose(e.InstanceLocation, func(v any, _ string) bool {
			return slices.ContainsFunc(k.Want, func(want any) bool { return sameScalar(v, want) })
		})
	case *kind.Const:
		d.propose(e.InstanceLocation, func(v any, _ string) bool { return sameScalar(v, k.Want) })
	}
	for _, cause := range e.Causes {
		d.collect(cause)
	}
}

// propose puts down the edit at a place if the value has another form that is
// wanted, asked with the value and its JSON Schema type.
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
		v, ok := fromText(old)
		if !ok {
			return
		}
		if wanted(v, kindOf(v)) || isInteger(v) && wanted(v, "integer") {
			text = []byte(strings.TrimSpace(old))
		}
	}
	if text != nil {
		d.edits[pointer(at)] = text
	}
}

// fromText reads a string that spells another JSON value. White space is only
// allowed around objects and arrays, where it is common and means nothing.
func fromText(s string) (any, bool) {
	trimmed := strings.Trim(s, " \t\r\n")
	if trimmed == "" || trimmed[0] == '"' {
		return nil, false
	}
	if c := trimmed[0]; c != '{' && c != '[' && len(trimmed) != len(s) {
		return nil, false
	}
	v, err := parseValue([]byte(trimmed), MaxValueDepth)
	return v, err == nil
}

func isInteger(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	r, ok := new(big.Rat).SetString(n.String())
	return ok && r.IsInt()
}

// sameScalar compares as JSON Schema does: numbers by value.
func sameScalar(a, b any) bool {
	x, ok := a.(json.Number)
	if !ok {
		switch a.(type) {
		case nil, bool, string:
			return a == b
		}
		return false
	}
	y, ok := b.(json.Number)
	if !ok {
		return false
	}
	p, ok1 := new(big.Rat).SetString(x.String())
	q, ok2 := new(big.Rat).SetString(y.String())
	return ok1 && ok2 && p.Cmp(q) == 0
}

// splice replaces the scalars at the given pointers and copies all else byte
// for byte. args has been parsed before, so reading cannot fail.
func splice(args []byte, edits map[string][]byte) []byte {
	dec := jsontext.NewDecoder(bytes.NewBuffer(args), jsontext.AllowDuplicateNames(true))
	var out []byte
	copied := 0
	for {
		switch dec.PeekKind() {
		case '{', '}', '[', ']':
			if _, err := dec.ReadToken(); err != nil {
				return args
			}
			continue
		case 0: // the end
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
