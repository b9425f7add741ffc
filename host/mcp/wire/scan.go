package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// maxDepth is how deeply objects and arrays can be nested.
const maxDepth = 10_000

// The scan functions return the end of a piece of JSON text (RFC 8259) that begins at raw[i], and
// validate the text. They accept features of values that are only passed on: duplicate names,
// invalid UTF-8 and lone surrogates. With a fault they return the fault's position instead.

// fault is the reason why a text is not valid JSON.
type fault uint8

const (
	noFault    fault = iota
	unexpected       // an unexpected byte, or the end of the text
	tooDeep
)

// errNotObject means that JSON text is not an object.
var errNotObject = errors.New("not a JSON object")

// syntax returns the error for a fault.
func syntax(raw []byte, at int, f fault) error {
	switch {
	case at >= len(raw):
		return io.ErrUnexpectedEOF
	case f == tooDeep:
		return fmt.Errorf("more than %d nested objects and arrays at byte %d", maxDepth, at)
	}
	return fmt.Errorf("invalid character %q at byte %d", raw[at:at+1], at)
}

// skipSpace returns the position after white space.
func skipSpace(raw []byte, i int) int {
	for i < len(raw) && raw[i] <= ' ' && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\r' || raw[i] == '\t') {
		i++
	}
	return i
}

// scanValue returns the end of a value nested depth levels deep.
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
	if i = skipSpace(raw, i+1); i < len(raw) && raw[i] == '}' {
		return i + 1, noFault
	}
	for {
		if i, f = scanString(raw, i); f != noFault {
			return i, f
		}
		if i, f = scanColon(raw, i); f != noFault {
			return i, f
		}
		if i, f = scanValue(raw, i, depth+1); f != noFault {
			return i, f
		}
		i = skipSpace(raw, i)
		switch {
		case i >= len(raw):
			return i, unexpected
		case raw[i] == '}':
			return i + 1, noFault
		case raw[i] != ',':
			return i, unexpected
		}
		i = skipSpace(raw, i+1)
	}
}

// scanColon returns the start of a member's value. The name of the member ends at i.
func scanColon(raw []byte, i int) (value int, f fault) {
	if i = skipSpace(raw, i); i >= len(raw) || raw[i] != ':' {
		return i, unexpected
	}
	return skipSpace(raw, i+1), noFault
}

func scanArray(raw []byte, i, depth int) (end int, f fault) {
	if depth >= maxDepth {
		return i, tooDeep
	}
	if i = skipSpace(raw, i+1); i < len(raw) && raw[i] == ']' {
		return i + 1, noFault
	}
	for {
		if i, f = scanValue(raw, i, depth+1); f != noFault {
			return i, f
		}
		i = skipSpace(raw, i)
		switch {
		case i >= len(raw):
			return i, unexpected
		case raw[i] == ']':
			return i + 1, noFault
		case raw[i] != ',':
			return i, unexpected
		}
		i = skipSpace(raw, i+1)
	}
}

func scanString(raw []byte, i int) (end int, f fault) {
	if i >= len(raw) || raw[i] != '"' {
		return i, unexpected
	}
	for i++; ; {
		i = skipPlain(raw, i)
		switch {
		case i >= len(raw) || raw[i] < ' ':
			return i, unexpected
		case raw[i] == '"':
			return i + 1, noFault
		case raw[i] == '\\':
			if i, f = scanEscape(raw, i); f != noFault {
				return i, f
			}
		default:
			i++
		}
	}
}

// skipPlain skips bytes without a special meaning in a string, eight at a time, up to the first
// quote, backslash or control character, or to the last seven bytes.
func skipPlain(raw []byte, i int) int {
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
		return i + 1, noFault
	case 'u':
	default:
		return i, unexpected
	}
	for range 4 {
		if i++; i >= len(raw) || !isHex(raw[i]) {
			return i, unexpected
		}
	}
	return i + 1, noFault
}

func scanNumber(raw []byte, i int) (end int, f fault) {
	if raw[i] == '-' {
		i++
	}
	if i < len(raw) && raw[i] == '0' {
		i++
	} else if i, f = scanDigits(raw, i); f != noFault {
		return i, f
	}
	if i < len(raw) && raw[i] == '.' {
		if i, f = scanDigits(raw, i+1); f != noFault {
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
	return i, noFault
}

// scanDigits returns the end of at least one digit.
func scanDigits(raw []byte, i int) (end int, f fault) {
	if i >= len(raw) || !isDigit(raw[i]) {
		return i, unexpected
	}
	for i++; i < len(raw) && isDigit(raw[i]); i++ {
	}
	return i, noFault
}

func scanLiteral(raw []byte, i int, literal string) (end int, f fault) {
	for k := range len(literal) {
		if i+k >= len(raw) || raw[i+k] != literal[k] {
			return i + k, unexpected
		}
	}
	return i + len(literal), noFault
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
