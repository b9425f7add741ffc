package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// maxDepth is how deep objects and arrays may be nested in one another.
const maxDepth = 10_000

// The functions below find the end of a piece of JSON text (RFC 8259) that
// begins at raw[i], and check it on the way. They are lenient as to what we
// only pass on: neither duplicate names nor invalid UTF-8 nor single surrogates
// deep inside a value are ours to judge. With a fault the position is where it
// is.

// fault is why a text is not valid JSON.
type fault uint8

const (
	sound      fault = iota
	unexpected       // byte, or end of the text
	tooDeep
)

// errNotObject says that JSON text is a value of another kind.
var errNotObject = errors.New("not a JSON object")

// syntax is the error of a fault.
func syntax(raw []byte, at int, f fault) error {
	switch {
	case at >= len(raw):
		return io.ErrUnexpectedEOF
	case f == tooDeep:
		return fmt.Errorf("more than %d objects and arrays in one another at byte %d", maxDepth, at)
	}
	return fmt.Errorf("invalid character %q at byte %d", raw[at:at+1], at)
}

// space is the position behind white space.
func space(raw []byte, i int) int {
	for i < len(raw) && raw[i] <= ' ' && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\r' || raw[i] == '\t') {
		i++
	}
	return i
}

// scanValue is the end of a value that is nested in depth others.
func scanValue(raw []byte, i, depth int) (end int, f fault) {
	if i >= len(raw) {
		return i, unexpected
	}
	switch c := raw[i]; {
	case c == '"':
		return scanString(raw, i)
	case c == '{':
		return scanObject(raw, i, depth)
	case c == '[':
		return scanArray(raw, i, depth)
	case c == '-' || isDigit(c):
		return scanNumber(raw, i)
	case c == 't':
		return scanLiteral(raw, i, "true")
	case c == 'f':
		return scanLiteral(raw, i, "false")
	case c == 'n':
		return scanLiteral(raw, i, "null")
	}
	return i, unexpected
}

func scanObject(raw []byte, i, depth int) (end int, f fault) {
	if depth >= maxDepth {
		return i, tooDeep
	}
	if i = space(raw, i+1); i < len(raw) && raw[i] == '}' {
		return i + 1, sound
	}
	for {
		if i, f = scanString(raw, i); f != sound {
			return i, f
		}
		if i, f = scanColon(raw, i); f != sound {
			return i, f
		}
		if i, f = scanValue(raw, i, depth+1); f != sound {
			return i, f
		}
		i = space(raw, i)
		switch {
		case i >= len(raw):
			return i, unexpected
		case raw[i] == '}':
			return i + 1, sound
		case raw[i] != ',':
			return i, unexpected
		}
		i = space(raw, i+1)
	}
}

// scanColon is where the value of a member begins whose name ends at i.
func scanColon(raw []byte, i int) (value int, f fault) {
	if i = space(raw, i); i >= len(raw) || raw[i] != ':' {
		return i, unexpected
	}
	return space(raw, i+1), sound
}

func scanArray(raw []byte, i, depth int) (end int, f fault) {
	if depth >= maxDepth {
		return i, tooDeep
	}
	if i = space(raw, i+1); i < len(raw) && raw[i] == ']' {
		return i + 1, sound
	}
	for {
		if i, f = scanValue(raw, i, depth+1); f != sound {
			return i, f
		}
		i = space(raw, i)
		switch {
		case i >= len(raw):
			return i, unexpected
		case raw[i] == ']':
			return i + 1, sound
		case raw[i] != ',':
			return i, unexpected
		}
		i = space(raw, i+1)
	}
}

func scanString(raw []byte, i int) (end int, f fault) {
	if i >= len(raw) || raw[i] != '"' {
		return i, unexpected
	}
	for i++; ; {
		i = plain(raw, i)
		switch {
		case i >= len(raw) || raw[i] < ' ':
			return i, unexpected
		case raw[i] == '"':
			return i + 1, sound
		case raw[i] == '\\':
			if i, f = scanEscape(raw, i); f != sound {
				return i, f
			}
		default:
			i++
		}
	}
}

// plain goes on while eight bytes at a time are none that matter in a string:
// a quote, a backslash or a control character. Of eight that have one, it finds
// the first.
func plain(raw []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for i+8 <= len(raw) {
		x := binary.LittleEndian.Uint64(raw[i:])
		quote, slash := x^ones*'"', x^ones*'\\'
		found := ((x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash) & highs
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
		i += 8
	}
	return i
}

func scanEscape(raw []byte, i int) (end int, f fault) {
	if i++; i >= len(raw) {
		return i, unexpected
	}
	switch raw[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1, sound
	case 'u':
	default:
		return i, unexpected
	}
	for range 4 {
		if i++; i >= len(raw) || !isHex(raw[i]) {
			return i, unexpected
		}
	}
	return i + 1, sound
}

func scanNumber(raw []byte, i int) (end int, f fault) {
	if raw[i] == '-' {
		i++
	}
	if i < len(raw) && raw[i] == '0' {
		i++
	} else if i, f = scanDigits(raw, i); f != sound {
		return i, f
	}
	if i < len(raw) && raw[i] == '.' {
		if i, f = scanDigits(raw, i+1); f != sound {
			return i, f
		}
	}
	if i < len(raw) && (raw[i] == 'e' || raw[i] == 'E') {
		i++
		if i < len(raw) && (raw[i] == '+' || raw[i] == '-') {
			i++
		}
		return scanDigits(raw, i)
	}
	return i, sound
}

// scanDigits is the end of one digit or more.
func scanDigits(raw []byte, i int) (end int, f fault) {
	if i >= len(raw) || !isDigit(raw[i]) {
		return i, unexpected
	}
	for i++; i < len(raw) && isDigit(raw[i]); i++ {
	}
	return i, sound
}

func scanLiteral(raw []byte, i int, literal string) (end int, f fault) {
	for k := range len(literal) {
		if i+k >= len(raw) || raw[i+k] != literal[k] {
			return i + k, unexpected
		}
	}
	return i + len(literal), sound
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
