package tape

import (
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

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
