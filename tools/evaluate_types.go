package tools

import (
	"encoding/json"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// mismatch returns the first of "type", "const", "enum" and "format" violated by the value. Nothing
// else is then reported about the value.
func (f *frame) mismatch() jsonschema.ErrorKind {
	s := f.s
	if s.Types != nil && !s.Types.IsEmpty() && !f.hasType(*s.Types) {
		return &kind.Type{Got: kindOf(f.v), Want: s.Types.ToStrings()}
	}
	if s.Const != nil && !f.meter.equal(f.v, *s.Const) {
		return &kind.Const{Got: f.v, Want: *s.Const}
	}
	if s.Enum != nil && !f.schema.parts[s].enum.contains(f.meter, f.v) {
		return &kind.Enum{Got: f.v, Want: s.Enum.Values}
	}
	if text, ok := f.v.(string); ok && s.Format != nil {
		if err := f.meter.format(s.Format, text); err != nil {
			return &kind.Format{Got: f.v, Want: s.Format.Name, Err: err}
		}
	}
	return nil
}

// typeBits are the library's bits for types.
var typeBits = func() map[string]jsonschema.Types {
	bits := map[string]jsonschema.Types{}
	for _, name := range []string{"null", "boolean", "number", "integer", "string", "array", "object"} {
		var t jsonschema.Types
		t.Add(name)
		bits[name] = t
	}
	return bits
}()

func (f *frame) hasType(want jsonschema.Types) bool {
	if want&typeBits[kindOf(f.v)] != 0 {
		return true
	}
	n, ok := f.v.(json.Number)
	return ok && want&typeBits["integer"] != 0 && f.meter.isInteger(n)
}

func (f *frame) text(text string) {
	s := f.s
	if s.MinLength != nil || s.MaxLength != nil {
		f.meter.text(len(text))
		n := utf8.RuneCountInString(text)
		if s.MinLength != nil && n < *s.MinLength {
			f.add(&kind.MinLength{Got: n, Want: *s.MinLength})
		}
		if s.MaxLength != nil && n > *s.MaxLength {
			f.add(&kind.MaxLength{Got: n, Want: *s.MaxLength})
		}
	}
	if p, ok := s.Pattern.(*pattern); ok && !p.match(f.meter, text) {
		f.add(&kind.Pattern{Got: text, Want: p.String()})
	}
}

func (f *frame) number(lit json.Number) {
	s := f.s
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return
	}
	n := f.meter.number(lit)
	compare := func(with *big.Rat) int {
		f.meter.take(calculation(n) + calculation(with))
		return n.Cmp(with)
	}
	if s.Minimum != nil && compare(s.Minimum) < 0 {
		f.add(&kind.Minimum{Got: n, Want: s.Minimum})
	}
	if s.Maximum != nil && compare(s.Maximum) > 0 {
		f.add(&kind.Maximum{Got: n, Want: s.Maximum})
	}
	if s.ExclusiveMinimum != nil && compare(s.ExclusiveMinimum) <= 0 {
		f.add(&kind.ExclusiveMinimum{Got: n, Want: s.ExclusiveMinimum})
	}
	if s.ExclusiveMaximum != nil && compare(s.ExclusiveMaximum) >= 0 {
		f.add(&kind.ExclusiveMaximum{Got: n, Want: s.ExclusiveMaximum})
	}
	if s.MultipleOf != nil {
		f.meter.take(10 * (calculation(n) + calculation(s.MultipleOf)))
		if !new(big.Rat).Quo(n, s.MultipleOf).IsInt() {
			f.add(&kind.MultipleOf{Got: n, Want: s.MultipleOf})
		}
	}
}

// calculation returns the work of multiplying with a number.
func calculation(r *big.Rat) int64 {
	words := int64(r.Num().BitLen()+r.Denom().BitLen()) / 64
	return 100 + words*words
}

// format checks a text with the library's format of the same name, or with our own where the
// library's could take long.
func (m *meter) format(format *jsonschema.Format, text string) error {
	m.text(len(text))
	switch format.Name {
	case "regex":
		m.take(patternCost(text))
		_, err := parsePattern(text)
		return err
	case "json-pointer":
		return m.pointer(text)
	case "relative-json-pointer":
		digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
		if digits == 0 || digits > 1 && text[0] == '0' {
			return jsonschema.LocalizableError("must start with non-negative integer")
		}
		if text = text[digits:]; text == "#" {
			return nil
		}
		return m.pointer(text)
	case "uri", "iri", "uri-reference", "iri-reference":
		if len(text) > maxFormatText {
			return m.longReference(format, text)
		}
	}
	if len(text) > maxFormatText {
		return jsonschema.LocalizableError("longer than %d bytes", maxFormatText)
	}
	m.take(int64(len(text)) * 20)
	return format.Validate(text)
}

// maxFormatText is the longest text checked with the library's formats.
const maxFormatText = 1 << 16

func (m *meter) pointer(text string) error {
	if text != "" && text[0] != '/' {
		return jsonschema.LocalizableError("not starting with /")
	}
	for i := range len(text) {
		m.take(byteCost)
		if text[i] == '~' && (i+1 == len(text) || text[i+1] != '0' && text[i+1] != '1') {
			return jsonschema.LocalizableError("~ must be followed by 0 or 1")
		}
	}
	return nil
}

// longReference passes the beginning of a long URL, such as a data URL of an image, to the library,
// and checks the characters of the rest directly.
func (m *meter) longReference(format *jsonschema.Format, text string) error {
	cut := maxFormatText
	for cut > maxFormatText-8 && (text[cut-1] == '%' || text[cut-2] == '%' || !utf8.RuneStart(text[cut])) {
		cut--
	}
	for i := cut; i < len(text); i++ {
		m.take(byteCost)
		c := text[i]
		switch {
		case c < ' ' || c == 0x7f:
			return jsonschema.LocalizableError("invalid control character")
		case c == '\\' && strings.HasSuffix(format.Name, "-reference"):
			return jsonschema.LocalizableError(`contains \`)
		case c == '%' && !(i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2])):
			return jsonschema.LocalizableError("invalid URL escape at byte %d", i)
		}
	}
	m.take(maxFormatText * 20)
	return format.Validate(text[:cut])
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }
