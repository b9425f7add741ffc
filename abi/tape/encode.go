package tape

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// Encode returns the tape of a JSON text (RFC 8259). Invalid UTF-8 and lone surrogates become
// U+FFFD. Of equal keys of an object, the first gives the place and the last the value.
//
// ok is false if the text is not valid JSON, is nested deeper than abi.MaxDepth, is longer than
// MaxText, has a number too large for a float, or would become a tape more than a few times larger.
// Time and memory are in proportion to the text.
func Encode(text []byte) (tape []byte, ok bool) {
	if len(text) > MaxText {
		return nil, false
	}
	e := encoder{
		text: text, words: make([]uint32, 1+SlotWords, 64+len(text)/5), bytes: make([]byte, 0, len(text)),
		ids: make(map[string]uint32), shapes: make(map[string]uint32), most: 4*len(text) + 1024,
	}
	root, ok := e.value()
	if !ok {
		return nil, false
	}
	if e.space(); e.pos < len(text) || !e.fits() {
		return nil, false
	}
	e.words[0] = uint32(len(e.words))
	e.words[Root], e.words[Root+1] = root.a, root.b
	tape = make([]byte, 0, 4*len(e.words)+len(e.bytes))
	for _, w := range e.words {
		tape = binary.LittleEndian.AppendUint32(tape, w)
	}
	return append(tape, e.bytes...), true
}

type slot struct{ a, b uint32 }

func tagged(tag Tag, rest int, b uint32) slot { return slot{uint32(tag) | uint32(rest)<<TagBits, b} }

// encoder writes a tape.
type encoder struct {
	text  []byte
	pos   int
	depth int
	most  int // bytes of the tape
	words []uint32
	bytes []byte
	// pending has the values of the open containers, and keys the keys.
	pending []slot
	keys    []uint32
	// ids has the numbers of all keys of the text; names has their places among the bytes; marks
	// has for each key the last object with the key, and the place there.
	ids   map[string]uint32
	names []name
	marks []mark
	count uint32 // objects
	// shapes has the shapes by the numbers of their keys, as bytes.
	shapes map[string]uint32
	key    []byte // of shapes
}

type name struct{ sig, length, offset uint32 }

type mark struct {
	object uint32
	at     int
}

// fits reports whether the tape is not too large.
func (e *encoder) fits() bool { return 4*len(e.words)+len(e.bytes) <= e.most }

func (e *encoder) space() {
	for e.pos < len(e.text) {
		switch e.text[e.pos] {
		case ' ', '\t', '\n', '\r':
			e.pos++
		default:
			return
		}
	}
}

// next skips white space and returns the next byte, 0 at the end.
func (e *encoder) next() byte {
	e.space()
	if e.pos < len(e.text) {
		return e.text[e.pos]
	}
	return 0
}

func (e *encoder) value() (slot, bool) {
	switch c := e.next(); c {
	case '"':
		offset, length, ok := e.str()
		return tagged(String, length, offset), ok
	case '{':
		return e.container((*encoder).object)
	case '[':
		return e.container((*encoder).list)
	case 't':
		return tagged(True, 0, 0), e.word("true")
	case 'f':
		return tagged(False, 0, 0), e.word("false")
	case 'n':
		return tagged(Null, 0, 0), e.word("null")
	default:
		return e.number()
	}
}

func (e *encoder) word(word string) bool {
	if len(e.text)-e.pos < len(word) || string(e.text[e.pos:e.pos+len(word)]) != word {
		return false
	}
	e.pos += len(word)
	return true
}

// container reads an array or object; e.pos is at the bracket.
func (e *encoder) container(read func(*encoder) (slot, bool)) (slot, bool) {
	if e.depth++; e.depth > abi.MaxDepth || !e.fits() {
		return slot{}, false
	}
	e.pos++
	s, ok := read(e)
	e.depth--
	return s, ok
}

func (e *encoder) list() (slot, bool) {
	start := len(e.pending)
	if e.next() == ']' {
		e.pos++
		return tagged(List, 0, 0), true
	}
	for {
		v, ok := e.value()
		if !ok {
			return v, false
		}
		e.pending = append(e.pending, v)
		more, ok := e.more(']')
		if !ok {
			return v, false
		}
		if !more {
			return tagged(List, len(e.pending)-start, e.close(start)), true
		}
	}
}

// more reads the separator after a member or an element, and reports whether another follows.
func (e *encoder) more(closing byte) (more, ok bool) {
	c := e.next()
	e.pos++
	return c == ',', c == ',' || c == closing
}

// close writes the slots of a container, and returns their index.
func (e *encoder) close(start int) uint32 {
	at := uint32(len(e.words))
	for _, s := range e.pending[start:] {
		e.words = append(e.words, s.a, s.b)
	}
	e.pending = e.pending[:start]
	return at
}

func (e *encoder) object() (slot, bool) {
	start, keys := len(e.pending), len(e.keys)
	if e.next() == '}' {
		e.pos++
		return tagged(Dict, int(e.shape(keys)), 0), true
	}
	for {
		if e.next() != '"' {
			return slot{}, false
		}
		id, ok := e.member()
		if !ok || e.next() != ':' {
			return slot{}, false
		}
		e.pos++
		v, ok := e.value()
		if !ok {
			return v, false
		}
		e.keys, e.pending = append(e.keys, id), append(e.pending, v)
		more, ok := e.more('}')
		if !ok {
			return v, false
		}
		if !more {
			e.merge(keys, start)
			shape := e.shape(keys)
			return tagged(Dict, int(shape), e.close(start)), true
		}
	}
}

// member reads the key of a member and returns the key's number.
func (e *encoder) member() (uint32, bool) {
	offset, length, ok := e.str()
	if !ok {
		return 0, false
	}
	key := e.bytes[offset:]
	if id, ok := e.ids[string(key)]; ok {
		e.bytes = e.bytes[:offset]
		return id, true
	}
	id := uint32(len(e.names))
	own := string(key)
	e.ids[own] = id
	e.names = append(e.names, name{Signature(own), uint32(length), offset})
	e.marks = append(e.marks, mark{})
	return id, true
}

// merge joins equal keys of the object with keys and values from these places on.
func (e *encoder) merge(keys, start int) {
	e.count++
	n := 0
	for i, id := range e.keys[keys:] {
		v, m := e.pending[start+i], &e.marks[id]
		if m.object == e.count {
			e.pending[start+m.at] = v
			continue
		}
		*m = mark{e.count, n}
		e.keys[keys+n], e.pending[start+n] = id, v
		n++
	}
	e.keys, e.pending = e.keys[:keys+n], e.pending[:start+n]
}

// shape returns the index of the shape with the keys from this place on.
func (e *encoder) shape(keys int) uint32 {
	list := e.keys[keys:]
	e.keys = e.keys[:keys]
	e.key = e.key[:0]
	for _, id := range list {
		e.key = binary.LittleEndian.AppendUint32(e.key, id)
	}
	if at, ok := e.shapes[string(e.key)]; ok {
		return at
	}
	at := uint32(len(e.words))
	e.shapes[string(e.key)] = at
	e.words = append(e.words, uint32(len(list)))
	for _, id := range list {
		e.words = append(e.words, e.names[id].sig)
	}
	for _, id := range list {
		e.words = append(e.words, e.names[id].length, e.names[id].offset)
	}
	return at
}

// plain marks the bytes that stand for themselves in a string, whatever their neighbours.
var plain = func() (table [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// str reads a string and appends the value to the bytes; e.pos is at the quote.
func (e *encoder) str() (offset uint32, length int, ok bool) {
	start := len(e.bytes)
	from := e.pos + 1
	ascii := true
	for i := from; i < len(e.text); {
		switch c := e.text[i]; {
		case plain[c]:
			i++
		case c == '"':
			e.bytes = append(e.bytes, e.text[from:i]...)
			e.pos = i + 1
			if !ascii {
				e.repair(start)
			}
			return uint32(start), len(e.bytes) - start, true
		case c == '\\':
			e.bytes = append(e.bytes, e.text[from:i]...)
			if i, ok = e.escape(i); !ok {
				return 0, 0, false
			}
			from = i
		case c < ' ':
			return 0, 0, false
		default:
			ascii = false
			i++
		}
	}
	return 0, 0, false
}

// repair replaces invalid UTF-8 in the bytes from start on.
func (e *encoder) repair(start int) {
	if utf8.Valid(e.bytes[start:]) {
		return
	}
	bad := string(e.bytes[start:])
	e.bytes = e.bytes[:start]
	for _, r := range bad { // U+FFFD for each invalid byte
		e.bytes = utf8.AppendRune(e.bytes, r)
	}
}

// escape appends the value of the escape sequence at i, and returns the index after the sequence.
// The appended bytes do not change the validity of adjacent UTF-8.
func (e *encoder) escape(i int) (int, bool) {
	if i+1 >= len(e.text) {
		return 0, false
	}
	c := e.text[i+1]
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
		r, ok := e.hex(i + 2)
		if !ok {
			return 0, false
		}
		i += 6
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if i+1 < len(e.text) && e.text[i] == '\\' && e.text[i+1] == 'u' {
				if low, ok := e.hex(i + 2); ok {
					pair = utf16.DecodeRune(r, low)
				}
			}
			if r = pair; r != utf8.RuneError {
				i += 6
			}
		}
		e.bytes = utf8.AppendRune(e.bytes, r)
		return i, true
	default:
		return 0, false
	}
	e.bytes = append(e.bytes, c)
	return i + 2, true
}

// hex reads four hexadecimal digits.
func (e *encoder) hex(i int) (r rune, ok bool) {
	if i+4 > len(e.text) {
		return 0, false
	}
	for _, c := range e.text[i : i+4] {
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
func (e *encoder) number() (slot, bool) {
	start := e.pos
	if e.pos < len(e.text) && e.text[e.pos] == '-' {
		e.pos++
	}
	digits := e.pos
	if !e.digits() || e.text[digits] == '0' && e.pos > digits+1 {
		return slot{}, false
	}
	whole := true
	if e.pos < len(e.text) && e.text[e.pos] == '.' {
		whole = false
		e.pos++
		if !e.digits() {
			return slot{}, false
		}
	}
	if e.pos < len(e.text) && e.text[e.pos]|0x20 == 'e' {
		whole = false
		e.pos++
		if e.pos < len(e.text) && (e.text[e.pos] == '+' || e.text[e.pos] == '-') {
			e.pos++
		}
		if !e.digits() {
			return slot{}, false
		}
	}
	literal := e.text[start:e.pos]
	if whole {
		return e.integer(literal), true
	}
	f, err := strconv.ParseFloat(string(literal), 64)
	if err != nil {
		return slot{}, false
	}
	bits := math.Float64bits(f)
	e.words = append(e.words, uint32(bits), uint32(bits>>32))
	return tagged(Float, 0, uint32(len(e.words)-2)), true
}

func (e *encoder) digits() bool {
	start := e.pos
	for e.pos < len(e.text) && '0' <= e.text[e.pos] && e.text[e.pos] <= '9' {
		e.pos++
	}
	return e.pos > start
}

func (e *encoder) integer(literal []byte) slot {
	if len(literal) <= len("-2147483648") {
		if n, err := strconv.ParseInt(string(literal), 10, 32); err == nil {
			return tagged(Int, 0, uint32(n))
		}
	}
	offset := uint32(len(e.bytes))
	e.bytes = append(e.bytes, literal...)
	return tagged(BigInt, len(literal), offset)
}
