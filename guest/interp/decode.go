package interp

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/tape"
	"github.com/mcp-metatool/mcp-metatool/guest/extend"
)

// decodeJSON decodes a JSON text (RFC 8259), which must not be changed afterwards. Integers are
// exact, whatever their size; a number with a fraction or an exponent is a float. Keys keep their
// order; of equal keys, the value of the last key counts. Invalid UTF-8 and lone surrogates become
// U+FFFD. Nesting deeper than abi.MaxDepth is an error.
func decodeJSON(data []byte) (starlark.Value, error) { return decodeJSONString(stringOf(data)) }

// stringOf returns constant bytes as a string.
func stringOf(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

func decodeJSONString(text string) (starlark.Value, error) {
	d := decoder{text: text}
	return d.whole()
}

// whole reads the only value of the text.
func (d *decoder) whole() (starlark.Value, error) {
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	d.space()
	if d.pos < len(d.text) {
		return nil, d.unexpected("after the value")
	}
	return v, nil
}

// A decoder reads a JSON text in a single pass. All answers of tools are decoded, at much of the
// cost of a run.
type decoder struct {
	text  string
	pos   int
	depth int
	// pending holds the members of the open containers, so each container can be made with the
	// exact size.
	pending []starlark.Value
	// keys holds keys of earlier objects, from the second object on. Objects in a list
	// usually have the same keys, and reusing a key saves an allocation.
	keys    *[64]starlark.Value
	objects int
	run     *run // nil unless withheld answers can be in the text
}

func (d *decoder) errorf(format string, args ...any) error {
	return fmt.Errorf("invalid JSON at offset %d: %w", d.pos, fmt.Errorf(format, args...))
}

func (d *decoder) unexpected(where string) error {
	if d.pos >= len(d.text) {
		return d.errorf("unexpected end %s", where)
	}
	r, _ := utf8.DecodeRuneInString(d.text[d.pos:])
	return d.errorf("unexpected %q %s", r, where)
}

func (d *decoder) space() {
	for d.pos < len(d.text) {
		switch d.text[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// next skips white space and returns the next byte, 0 at the end.
func (d *decoder) next() byte {
	d.space()
	if d.pos >= len(d.text) {
		return 0
	}
	return d.text[d.pos]
}

func (d *decoder) value() (starlark.Value, error) {
	switch c := d.next(); c {
	case '"':
		s, err := d.str()
		if err != nil {
			return nil, err
		}
		if d.run != nil {
			if w := d.run.withheldIn(s); w != nil {
				return w, nil
			}
		}
		return starlark.String(s), nil
	case '{':
		return d.object()
	case '[':
		return d.array()
	case 't':
		return d.word("true", starlark.True)
	case 'f':
		return d.word("false", starlark.False)
	case 'n':
		return d.word("null", starlark.None)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return d.number()
	}
	return nil, d.unexpected("where a value should be")
}

func (d *decoder) word(word string, v starlark.Value) (starlark.Value, error) {
	if !strings.HasPrefix(d.text[d.pos:], word) {
		return nil, d.unexpected("where a value should be")
	}
	d.pos += len(word)
	return v, nil
}

// enter counts a level of nesting; d.pos is at the bracket.
func (d *decoder) enter() error {
	if d.depth++; d.depth > abi.MaxDepth {
		return d.errorf("%w", errTooDeep)
	}
	d.pos++
	return nil
}

func (d *decoder) array() (starlark.Value, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	start := len(d.pending)
	if d.next() == ']' {
		d.pos++
		d.depth--
		return starlark.NewList(nil), nil
	}
	for {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		d.pending = append(d.pending, v)
		switch d.next() {
		case ',':
			d.pos++
			continue
		case ']':
			d.pos++
			d.depth--
			elems := make([]starlark.Value, len(d.pending)-start)
			copy(elems, d.pending[start:])
			d.pending = d.pending[:start]
			return starlark.NewList(elems), nil
		}
		return nil, d.unexpected("in an array")
	}
}

func (d *decoder) object() (starlark.Value, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	d.objects++
	start := len(d.pending)
	if d.next() == '}' {
		d.pos++
		d.depth--
		return newObject(0), nil
	}
	for {
		if d.next() != '"' {
			return nil, d.unexpected("where a key should be")
		}
		key, err := d.key()
		if err != nil {
			return nil, err
		}
		if d.next() != ':' {
			return nil, d.unexpected("after a key")
		}
		d.pos++
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		d.pending = append(d.pending, key, v)
		switch d.next() {
		case ',':
			d.pos++
			continue
		case '}':
			d.pos++
			d.depth--
			return d.closeObject(start)
		}
		return nil, d.unexpected("in an object")
	}
}

func (d *decoder) closeObject(start int) (starlark.Value, error) {
	members := d.pending[start:]
	o := newObject(len(members) / 2)
	for i := 0; i < len(members); i += 2 {
		if err := o.Dict.SetKey(members[i], members[i+1]); err != nil {
			return nil, err
		}
	}
	d.pending = d.pending[:start]
	return o, nil
}

// key reads a string and returns an equal earlier string if possible.
func (d *decoder) key() (starlark.Value, error) {
	raw, plain, err := d.scanString()
	if err != nil {
		return nil, err
	}
	if !plain {
		s, err := d.unescape(raw)
		return starlark.String(s), err
	}
	if len(raw) == 0 {
		return starlark.String(""), nil
	}
	if d.keys == nil {
		if d.objects < 2 {
			return starlark.String(strings.Clone(raw)), nil
		}
		d.keys = new([64]starlark.Value)
	}
	slot := &d.keys[(uint(len(raw))*7+uint(raw[0])*3+uint(raw[len(raw)-1]))%uint(len(d.keys))]
	if seen, ok := (*slot).(starlark.String); ok && string(seen) == raw {
		return *slot, nil
	}
	*slot = starlark.String(strings.Clone(raw))
	return *slot, nil
}

// str reads a string. It returns a copy, so a script that keeps a single field does not keep the
// memory of the whole answer.
func (d *decoder) str() (string, error) {
	raw, plain, err := d.scanString()
	if err != nil {
		return "", err
	}
	if plain {
		return strings.Clone(raw), nil
	}
	return d.unescape(raw)
}

// scanString skips a string. It returns the text between the quotes, and whether this text is the
// value itself.
func (d *decoder) scanString() (raw string, plain bool, err error) {
	d.pos++
	start := d.pos
	text := d.text
	plain = true
	ascii := true
	for i := start; ; i++ {
		for i < len(text) && plainByte[text[i]] {
			i++
		}
		if i >= len(text) {
			d.pos = len(text)
			return "", false, d.errorf("a string is not closed")
		}
		switch c := text[i]; {
		case c == '"':
			d.pos = i + 1
			raw = text[start:i]
			if !ascii && plain {
				plain = utf8.ValidString(raw)
			}
			return raw, plain, nil
		case c == '\\':
			plain = false
			i++
		case c >= utf8.RuneSelf:
			ascii = false
		default:
			d.pos = i
			return "", false, d.errorf("control character %q in a string", c)
		}
	}
}

// unescape returns the value of a string's raw text; d.pos is after the string.
func (d *decoder) unescape(raw string) (string, error) {
	out := make([]byte, 0, len(raw)+2*utf8.UTFMax)
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '\\':
			n, ok := appendEscape(&out, raw[i:])
			if !ok {
				d.pos -= len(raw) - i + 1
				return "", d.errorf("bad escape in a string")
			}
			i += n
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			r, n := utf8.DecodeRuneInString(raw[i:])
			out = utf8.AppendRune(out, r) // U+FFFD for invalid UTF-8
			i += n
		}
	}
	return string(out), nil
}

// appendEscape appends the value of the escape sequence at the start of s and returns the length of
// the sequence.
func appendEscape(out *[]byte, s string) (n int, ok bool) {
	if len(s) < 2 {
		return 0, false
	}
	c := s[1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r, ok := hex4(s[2:])
		if !ok {
			return 0, false
		}
		n = 6
		if utf16.IsSurrogate(r) {
			low, ok := rune(0), false
			if strings.HasPrefix(s[6:], `\u`) {
				low, ok = hex4(s[8:])
			}
			// DecodeRune returns U+FFFD for anything but a pair.
			if r = utf16.DecodeRune(r, low); ok && r != utf8.RuneError {
				n = 12
			}
		}
		*out = utf8.AppendRune(*out, r)
		return n, true
	default:
		return 0, false
	}
	*out = append(*out, c)
	return 2, true
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := s[i]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// number reads a number by the grammar of RFC 8259 section 6.
func (d *decoder) number() (starlark.Value, error) {
	start := d.pos
	if d.text[d.pos] == '-' {
		d.pos++
	}
	digits := d.pos
	if !d.digits() {
		return nil, d.unexpected("in a number")
	}
	if d.text[digits] == '0' && d.pos > digits+1 {
		d.pos = digits
		return nil, d.errorf("a number has a leading zero")
	}
	whole := true
	if d.pos < len(d.text) && d.text[d.pos] == '.' {
		whole = false
		d.pos++
		if !d.digits() {
			return nil, d.unexpected("in a number")
		}
	}
	if d.pos < len(d.text) && d.text[d.pos]|0x20 == 'e' {
		whole = false
		d.pos++
		if d.pos < len(d.text) && (d.text[d.pos] == '+' || d.text[d.pos] == '-') {
			d.pos++
		}
		if !d.digits() {
			return nil, d.unexpected("in a number")
		}
	}
	literal := d.text[start:d.pos]
	if whole {
		return integer(literal), nil
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		d.pos = start
		return nil, d.errorf("a number is too large for a float")
	}
	return starlark.Float(f), nil
}

func (d *decoder) digits() bool {
	start := d.pos
	for d.pos < len(d.text) && '0' <= d.text[d.pos] && d.text[d.pos] <= '9' {
		d.pos++
	}
	return d.pos > start
}

// integer returns the int of a checked literal.
func integer(literal string) starlark.Value {
	if len(literal) <= 18 { // always fits
		digits := strings.TrimPrefix(literal, "-")
		var n int64
		for i := range len(digits) {
			n = n*10 + int64(digits[i]-'0')
		}
		if len(digits) < len(literal) {
			n = -n
		}
		return starlark.MakeInt64(n)
	}
	n, _ := new(big.Int).SetString(literal, 10)
	return starlark.MakeBigInt(n)
}

// The values of answers. Most scripts use a small part of the answers, so the dicts of a tape make
// their values on demand. Scripts cannot see the difference.

// answerValue returns the value of a successful call.
func (r *run) answerValue(a abi.Answer) (starlark.Value, error) {
	if a.Tape == nil {
		return r.decode(a.Value)
	}
	t := &tapeReader{words: a.Tape, text: tapeText(a.Tape)}
	// Later values keep the whole tape in memory, so the size is limited.
	limit := r.memory
	if limit == 0 {
		limit = mostMemory
	}
	if size := uint64(len(a.Tape)) * wordBytes; extend.LazyDict != nil && r.lazyBytes+size <= limit/lazyPart {
		r.lazyBytes += size
		t.lazy = true
	}
	return t.value(tape.Root), nil
}

const (
	// lazyPart is the part of a run's memory for tapes of lazy dicts.
	lazyPart  = 16
	wordBytes = 4
)

// tapeText returns the bytes of a tape after the words.
func tapeText(words []uint32) string {
	n := int(words[0])
	rest := words[n:]
	return unsafe.String((*byte)(unsafe.Pointer(unsafe.SliceData(rest))), len(rest)*wordBytes)
}

// tapeReader makes the values of a tape. Package tape explains the words.
type tapeReader struct {
	words []uint32
	text  string
	lazy  bool
	// keys has the keys of shapes.
	keys map[uint32]*[]starlark.Value
}

var _ extend.LazySource = (*tapeReader)(nil)

// value returns the value in the slot at an index.
func (t *tapeReader) value(slot uint32) starlark.Value {
	a, b := t.words[slot], t.words[slot+1]
	rest := a >> tape.TagBits
	switch tape.Tag(a & (1<<tape.TagBits - 1)) {
	case tape.String:
		return starlark.String(t.string(rest, b))
	case tape.Int:
		return starlark.MakeInt64(int64(int32(b)))
	case tape.Dict:
		return t.dict(rest, b)
	case tape.List:
		elems := make([]starlark.Value, rest)
		for i := range elems {
			elems[i] = t.value(b + uint32(i)*tape.SlotWords)
		}
		return starlark.NewList(elems)
	case tape.BigInt:
		return integer(t.text[b : b+rest])
	case tape.Float:
		return starlark.Float(math.Float64frombits(uint64(t.words[b]) | uint64(t.words[b+1])<<32))
	case tape.True:
		return starlark.True
	case tape.False:
		return starlark.False
	}
	return starlark.None
}

// string returns a part of the text: a copy unless the tape is kept anyway, so a script with a
// single kept string does not keep the whole answer.
func (t *tapeReader) string(length, offset uint32) string {
	s := t.text[offset : offset+length]
	if t.lazy {
		return s
	}
	return strings.Clone(s)
}

func (t *tapeReader) dict(shape, slots uint32) starlark.Value {
	n := t.words[shape]
	if n == 0 {
		return newObject(0)
	}
	if t.lazy {
		return Object{extend.LazyDict(int(n), t, shape, slots).(*starlark.Dict)}
	}
	o := newObject(int(n))
	for i, k := range *t.shapeKeys(shape) {
		// SetKey cannot fail: keys are strings.
		_ = o.Dict.SetKey(k, t.value(slots+uint32(i)*tape.SlotWords))
	}
	return o
}

// shapeKeys returns the keys of a shape.
func (t *tapeReader) shapeKeys(shape uint32) *[]starlark.Value {
	if keys := t.keys[shape]; keys != nil {
		return keys
	}
	n := t.words[shape]
	keys := make([]starlark.Value, n)
	for i := range keys {
		keys[i] = starlark.String(t.key(shape, n, uint32(i)))
	}
	if t.keys == nil {
		t.keys = make(map[uint32]*[]starlark.Value)
	}
	t.keys[shape] = &keys
	return &keys
}

// key returns key i of a shape of n keys.
func (t *tapeReader) key(shape, n, i uint32) string {
	at := shape + 1 + n + i*tape.KeyWords
	return t.string(t.words[at], t.words[at+1])
}

// Find returns the index of a key in a shape, -1 if absent.
func (t *tapeReader) Find(shape uint32, key string) int {
	n := t.words[shape]
	signature := tape.Signature(key)
	for i, s := range t.words[shape+1 : shape+1+n] {
		if s == signature && t.key(shape, n, uint32(i)) == key {
			return i
		}
	}
	return -1
}

// Keys returns the keys of a shape, as a *[]starlark.Value.
func (t *tapeReader) Keys(shape uint32) any { return t.shapeKeys(shape) }

// Make makes value i of a dict with these slots. v is a *starlark.Value.
func (t *tapeReader) Make(slots uint32, i int, v any) {
	*v.(*starlark.Value) = t.value(slots + uint32(i)*tape.SlotWords)
}
