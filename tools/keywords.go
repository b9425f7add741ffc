package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/big"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

const (
	// maxPatternSize is the largest number of instructions of a regular expression with expanded
	// repetitions.
	maxPatternSize = 20_000
	// maxPatternsSize is the same for all regular expressions of a schema.
	maxPatternsSize = 200_000
	// maxUnicodeClasses is the largest number of classes in a regular expression that are slow to
	// parse.
	maxUnicodeClasses = 32

	runeCost        = 32 // matching a character of a text
	instructionCost = 8  // additionally for each instruction of the pattern
)

// pattern is a compiled regular expression. A match can be stopped.
type pattern struct {
	*regexp.Regexp
	size int64
}

// patternSchema is an entry of "patternProperties".
type patternSchema struct {
	*pattern
	schema *jsonschema.Schema
}

// match reports whether the pattern matches a text. In Go, matching takes time proportional
// to the product of both lengths.
func (p *pattern) match(m *meter, text string) bool {
	perRune := runeCost + instructionCost*p.size
	if int64(len(text)) <= workSlice/perRune {
		m.take(int64(len(text)+1) * perRune)
		return p.MatchString(text)
	}
	return p.MatchReader(&meteredText{m, text, perRune})
}

// meteredText is a text for which each character costs work.
type meteredText struct {
	meter *meter
	rest  string
	cost  int64
}

func (t *meteredText) ReadRune() (rune, int, error) {
	t.meter.take(t.cost) // may panic; the regexp package has no state that a panic could damage
	if t.rest == "" {
		return 0, 0, io.EOF
	}
	r, n := utf8.DecodeRuneInString(t.rest)
	t.rest = t.rest[n:]
	return r, n, nil
}

// patterns compiles the patterns of one schema. Some are requested more than once.
type patterns struct {
	meter  *meter
	byText map[string]*pattern
	size   int64
}

// compile implements jsonschema.RegexpEngine.
func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if known := p.byText[text]; known != nil {
		return known, nil
	}
	p.meter.take(patternCost(text))
	tree, err := parsePattern(text)
	if err != nil {
		return nil, err
	}
	size := patternSize(tree)
	if p.size += size; p.size > maxPatternsSize {
		return nil, fmt.Errorf("the patterns of the schema have more than %d parts in all (write fewer, or fewer repetitions)", maxPatternsSize)
	}
	p.meter.take(size * 1000)
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p.byText[text] = &pattern{re, size}
	return p.byText[text], nil
}

// patternCost returns the work of parsing a pattern accepted by parsePattern.
func patternCost(text string) int64 {
	if len(text) > MaxPatternBytes {
		return 0
	}
	return int64(len(text))*500 + int64(unicodeClasses(text))*500_000
}

// parsePattern parses a pattern within the limits.
func parsePattern(text string) (*syntax.Regexp, error) {
	if len(text) > MaxPatternBytes {
		return nil, fmt.Errorf("it is %d bytes long (at most %d)", len(text), MaxPatternBytes)
	}
	if unicodeClasses(text) > maxUnicodeClasses {
		return nil, fmt.Errorf(`it has too many classes of Unicode (at most %d of \p and \P)`, maxUnicodeClasses)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	var bad *syntax.Error
	switch {
	case errors.As(err, &bad):
		return nil, &syntax.Error{Code: bad.Code, Expr: display.Clip(bad.Expr, 200)}
	case err != nil:
		return nil, err
	case patternSize(tree) > maxPatternSize:
		return nil, fmt.Errorf("it has more than %d parts (write fewer repetitions)", maxPatternSize)
	}
	return tree, nil
}

// unicodeClasses counts the slow parts of a possible pattern: classes with a Unicode name and, if
// case is ignored, ranges that may span alphabets, which count as eight.
func unicodeClasses(text string) int {
	n := strings.Count(text, `\p`) + strings.Count(text, `\P`)
	if !ignoresCase(text) {
		return n
	}
	for i := range len(text) - 1 {
		if text[i] == '-' && (text[i+1] == '\\' || text[i+1] >= utf8.RuneSelf) {
			n += 8
		}
	}
	return n
}

// ignoresCase reports whether a pattern may have the flag i.
func ignoresCase(text string) bool {
	for {
		_, rest, found := strings.Cut(text, "(?")
		if !found {
			return false
		}
		flags := strings.TrimLeft(rest, "imsU-")
		if strings.Contains(rest[:len(rest)-len(flags)], "i") {
			return true
		}
		text = rest
	}
}

// patternSize returns the maximum number of instructions of a pattern with expanded repetitions. A
// larger result than maxPatternSize is not exact.
func patternSize(re *syntax.Regexp) int64 {
	n := int64(1)
	switch re.Op {
	case syntax.OpLiteral:
		n = int64(len(re.Rune))
	case syntax.OpCapture, syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		n = 2
	case syntax.OpConcat, syntax.OpAlternate:
		n = int64(len(re.Sub))
	}
	below := int64(0)
	for _, sub := range re.Sub {
		below = min(below+patternSize(sub), maxPatternSize+1)
	}
	if re.Op == syntax.OpRepeat {
		times := int64(max(re.Min+1, re.Max, 1))
		return min(times*(below+2), maxPatternSize+1)
	}
	return min(n+below, maxPatternSize+1)
}

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

// seed is the seed of all hashes of values. A random seed keeps attackers from provoking
// collisions.
var seed = maphash.MakeSeed()

// number parses a literal exactly.
func (m *meter) number(lit json.Number) *big.Rat {
	m.take(numberCost(string(lit)))
	r, ok := new(big.Rat).SetString(string(lit))
	if !ok {
		return new(big.Rat) // cannot happen: the literal has been parsed as JSON, with a bounded exponent
	}
	return r
}

// numberCost returns the work of parsing a literal and calculating with the number.
func numberCost(lit string) int64 {
	digits := int64(len(lit))
	if strings.ContainsAny(lit, "eE") {
		digits += MaxNumberDigits
	}
	return 500 + 16*digits + digits*digits/256
}

// plainInteger reports whether a literal is an integer without fraction and exponent, the shortest
// form of the value; -0 is not.
func plainInteger(lit string) bool { return lit != "-0" && !strings.ContainsAny(lit, ".eE") }

// isInteger reports whether a number is an integer, in any notation.
func (m *meter) isInteger(lit json.Number) bool {
	return plainInteger(string(lit)) || m.number(lit).IsInt()
}

// canonical returns the same text for numbers with the same value.
func (m *meter) canonical(lit json.Number) string {
	if plainInteger(string(lit)) {
		return string(lit)
	}
	r := m.number(lit)
	m.take(numberCost(string(lit)))
	return r.RatString() // has no denominator for an integer
}

// hash returns the same hash for values equal in JSON Schema.
func (m *meter) hash(v any) uint64 {
	m.take(valueCost)
	text := func(tag byte, s string) uint64 {
		m.text(len(s))
		return maphash.String(seed, s) ^ uint64(tag)
	}
	switch v := v.(type) {
	case nil:
		return 1
	case bool:
		if v {
			return 2
		}
		return 3
	case json.Number:
		return text(4, m.canonical(v))
	case string:
		return text(5, v)
	case []any:
		sum := uint64(6)
		for _, item := range v {
			sum = mix(sum, m.hash(item))
		}
		return sum
	case map[string]any:
		sum := uint64(7)
		for name, member := range v { // must not depend on the order
			sum += mix(text(8, name), m.hash(member))
		}
		return mix(sum, uint64(len(v)))
	}
	return 0
}

func mix(a, b uint64) uint64 { return maphash.Comparable(seed, [2]uint64{a, b}) }

// equal compares values like JSON Schema: numbers by value, objects in any order.
func (m *meter) equal(a, b any) bool {
	m.take(valueCost)
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || m.canonical(a) == m.canonical(b))
	case string:
		b, ok := b.(string)
		if !ok || len(a) != len(b) {
			return false
		}
		m.text(len(a))
		return a == b
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !m.equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && m.equalObjects(a, b)
	default: // null and booleans
		switch b.(type) {
		case nil, bool:
			return a == b
		}
		return false
	}
}

// equalObjects always compares all members: their order is random, and the cost must not
// be.
func (m *meter) equalObjects(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	same := true
	for name := range a {
		m.take(nameCost)
		if _, ok := b[name]; !ok {
			same = false
		}
	}
	if !same {
		return false
	}
	for name, v := range a {
		if !m.equal(v, b[name]) {
			same = false
		}
	}
	return same
}

// valueSet is a set of values, for "enum".
type valueSet map[uint64][]any

func newValueSet(m *meter, values []any) valueSet {
	set := make(valueSet, len(values))
	for _, v := range values {
		h := m.hash(v)
		set[h] = append(set[h], v)
	}
	return set
}

func (s valueSet) contains(m *meter, v any) bool {
	for _, other := range s[m.hash(v)] {
		if m.equal(v, other) {
			return true
		}
	}
	return false
}

// duplicates returns the first item that equals an earlier item, and the earlier item; ok is false
// without duplicates.
func (m *meter) duplicates(items []any) (first, second int, ok bool) {
	size := 4
	for size < 2*len(items) {
		size *= 2
	}
	m.take(int64(size))
	table := make([]int32, size) // indexes from 1, by hash
	hashes := make([]uint64, len(items))
	for i, item := range items {
		m.take(valueCost)
		h := m.hash(item)
		hashes[i] = h
		at := int(h) & (size - 1)
		for ; table[at] != 0; at = (at + 1) & (size - 1) {
			m.take(valueCost)
			if j := int(table[at]) - 1; hashes[j] == h && m.equal(item, items[j]) {
				return j, i, true
			}
		}
		table[at] = int32(i + 1)
	}
	return 0, 0, false
}
