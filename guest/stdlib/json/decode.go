package json

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

const (
	decodeErrorClass = "JSONDecodeError"
	// maxDigits is the length of the longest integer, as in Python.
	maxDigits = 4300
)

// A decoder reads a JSON text.
type decoder struct {
	call  *stdlib.Call
	text  string
	pos   int
	depth int
	hooks hooks
	// pending has the members of open containers, so each can be made with the exact size.
	pending []starlark.Value
	// keys has keys seen before: objects in a list usually have the same ones.
	keys [64]starlark.Value
}

// fail returns a JSONDecodeError for an offset in bytes.
func (d *decoder) fail(message string, at int) error {
	before := d.text[:at]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	pos := utf8.RuneCountInString(before)
	return &stdlib.Error{
		Class: decodeErrorClass, Bases: []string{stdlib.ValueError},
		Message: fmt.Sprintf("%s: line %d column %d (char %d)", message, line, column, pos),
		Attrs: starlark.StringDict{
			"msg": starlark.String(message), "doc": starlark.String(d.text), "pos": starlark.MakeInt(pos),
			"lineno": starlark.MakeInt(line), "colno": starlark.MakeInt(column),
		},
	}
}

func (d *decoder) document() (starlark.Value, error) {
	if strings.HasPrefix(d.text, "\ufeff") {
		return nil, d.fail("Unexpected UTF-8 BOM (decode using utf-8-sig)", 0)
	}
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	if d.next(); d.pos < len(d.text) {
		return nil, d.fail("Extra data", d.pos)
	}
	return v, nil
}

// next skips white space and returns the next byte, 0 at the end.
func (d *decoder) next() byte {
	for ; d.pos < len(d.text); d.pos++ {
		switch c := d.text[d.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

var words = []struct {
	text  string
	value starlark.Value
}{{"true", starlark.True}, {"false", starlark.False}, {"null", starlark.None}}

func (d *decoder) value() (starlark.Value, error) {
	switch c := d.next(); {
	case c == '"':
		s, err := d.str()
		return starlark.String(s), err
	case c == '{':
		return d.container((*decoder).object)
	case c == '[':
		return d.container((*decoder).array)
	case c == '-' || '0' <= c && c <= '9':
		return d.number()
	}
	rest := d.text[d.pos:]
	for _, w := range words {
		if strings.HasPrefix(rest, w.text) {
			d.pos += len(w.text)
			return w.value, nil
		}
	}
	for name, f := range map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)} {
		if strings.HasPrefix(rest, name) {
			return d.constant(name, f)
		}
	}
	return nil, d.fail("Expecting value", d.pos)
}

func (d *decoder) constant(name string, f float64) (starlark.Value, error) {
	d.pos += len(name)
	if d.hooks.constant != nil {
		return d.call.Call(d.hooks.constant, starlark.String(name))
	}
	return starlark.Float(f), nil
}

// container reads an array or object; d.pos is at the bracket.
func (d *decoder) container(read func(*decoder) (starlark.Value, error)) (starlark.Value, error) {
	if d.depth++; d.depth > maxDepth {
		return nil, stdlib.Errorf(stdlib.RecursionError, "JSON is nested deeper than %d levels", maxDepth)
	}
	d.pos++
	v, err := read(d)
	d.depth--
	return v, err
}

func (d *decoder) array() (starlark.Value, error) {
	start := len(d.pending)
	if d.next() == ']' {
		d.pos++
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
			elems := append([]starlark.Value(nil), d.pending[start:]...)
			d.pending = d.pending[:start]
			return starlark.NewList(elems), nil
		}
		return nil, d.fail("Expecting ',' delimiter", d.pos)
	}
}

func (d *decoder) object() (starlark.Value, error) {
	start := len(d.pending)
	if d.next() == '}' {
		d.pos++
		return d.close(start)
	}
	for {
		if d.next() != '"' {
			return nil, d.fail("Expecting property name enclosed in double quotes", d.pos)
		}
		key, err := d.key()
		if err != nil {
			return nil, err
		}
		if d.next() != ':' {
			return nil, d.fail("Expecting ':' delimiter", d.pos)
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
			return d.close(start)
		}
		return nil, d.fail("Expecting ',' delimiter", d.pos)
	}
}

// close makes the object of the members pending from start on.
func (d *decoder) close(start int) (starlark.Value, error) {
	members := d.pending[start:]
	d.pending = d.pending[:start]
	if d.hooks.pairs != nil {
		pairs := make([]starlark.Value, 0, len(members)/2)
		for i := 0; i < len(members); i += 2 {
			pairs = append(pairs, starlark.Tuple{members[i], members[i+1]})
		}
		return d.call.Call(d.hooks.pairs, starlark.NewList(pairs))
	}
	o := d.call.Env().NewDict(len(members) / 2)
	for i := 0; i < len(members); i += 2 {
		if err := o.Underlying().SetKey(members[i], members[i+1]); err != nil {
			return nil, err
		}
	}
	if d.hooks.object != nil {
		return d.call.Call(d.hooks.object, o)
	}
	return o, nil
}

// key reads a string and returns an equal earlier string if possible.
func (d *decoder) key() (starlark.Value, error) {
	s, err := d.str()
	if err != nil || s == "" {
		return starlark.String(s), err
	}
	slot := &d.keys[(uint(len(s))*7+uint(s[0])*3+uint(s[len(s)-1]))%uint(len(d.keys))]
	if seen, ok := (*slot).(starlark.String); ok && string(seen) == s {
		return *slot, nil
	}
	*slot = starlark.String(s)
	return *slot, nil
}

// str reads a string; d.pos is at the quote. The result is a copy, so a script with a kept field
// does not keep the memory of the whole text.
func (d *decoder) str() (string, error) {
	start := d.pos
	d.pos++
	for i := d.pos; i < len(d.text); i++ {
		switch c := d.text[i]; {
		case c == '"':
			s := d.text[d.pos:i]
			d.pos = i + 1
			if !utf8.ValidString(s) {
				return strings.ToValidUTF8(s, "\ufffd"), nil
			}
			return strings.Clone(s), nil
		case c == '\\':
			return d.escaped(start, i)
		case c < ' ':
			return "", d.fail("Invalid control character at", i)
		}
	}
	return "", d.fail("Unterminated string starting at", start)
}

// escaped reads a string from the first escape on.
func (d *decoder) escaped(start, i int) (string, error) {
	out := append([]byte(nil), d.text[d.pos:i]...)
	for i < len(d.text) {
		c := d.text[i]
		switch {
		case c == '"':
			d.pos = i + 1
			return strings.ToValidUTF8(string(out), "\ufffd"), nil
		case c < ' ':
			return "", d.fail("Invalid control character at", i)
		case c != '\\':
			out = append(out, c)
			i++
			continue
		}
		if i+1 >= len(d.text) {
			break
		}
		if c = d.text[i+1]; c == 'u' {
			r, n, err := d.unicode(i + 1)
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
			i = n
			continue
		}
		at := strings.IndexByte(`"\/bfnrt`, c)
		if at < 0 {
			return "", d.fail("Invalid \\escape", i)
		}
		out = append(out, "\"\\/\b\f\n\r\t"[at])
		i += 2
	}
	return "", d.fail("Unterminated string starting at", start)
}

// unicode reads \uXXXX after the backslash, with the second half of a pair. It returns the offset
// after the escape.
func (d *decoder) unicode(at int) (rune, int, error) {
	r, ok := hex4(d.text, at+1)
	if !ok {
		return 0, 0, d.fail("Invalid \\uXXXX escape", at)
	}
	at += 5
	if utf16.IsSurrogate(r) {
		if strings.HasPrefix(d.text[at:], `\u`) {
			if low, ok := hex4(d.text, at+2); ok {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					return pair, at + 6, nil
				}
			}
		}
		return utf8.RuneError, at, nil // UTF-8 has no half of a pair
	}
	return r, at, nil
}

func hex4(text string, at int) (rune, bool) {
	if at+4 > len(text) {
		return 0, false
	}
	n, err := strconv.ParseUint(text[at:at+4], 16, 16)
	return rune(n), err == nil
}

func (d *decoder) number() (starlark.Value, error) {
	start, i := d.pos, d.pos
	digits := func() bool {
		from := i
		for i < len(d.text) && '0' <= d.text[i] && d.text[i] <= '9' {
			i++
		}
		return i > from
	}
	if d.text[i] == '-' {
		i++
	}
	if i < len(d.text) && d.text[i] == '0' {
		i++
	} else if !digits() {
		if strings.HasPrefix(d.text[start:], "-Infinity") {
			return d.constant("-Infinity", math.Inf(-1))
		}
		return nil, d.fail("Expecting value", start)
	}
	whole := i
	if i < len(d.text) && d.text[i] == '.' {
		if i++; !digits() {
			i = whole
		}
	}
	fraction := i
	if i < len(d.text) && d.text[i]|0x20 == 'e' {
		if i++; i < len(d.text) && (d.text[i] == '+' || d.text[i] == '-') {
			i++
		}
		if !digits() {
			i = fraction
		}
	}
	d.pos = i
	if text := d.text[start:i]; i > whole {
		return d.float(text)
	} else {
		return d.integer(text)
	}
}

func (d *decoder) float(text string) (starlark.Value, error) {
	if d.hooks.float != nil {
		return d.call.Call(d.hooks.float, starlark.String(text))
	}
	f, _ := strconv.ParseFloat(text, 64) // too large a number is infinite
	return starlark.Float(f), nil
}

func (d *decoder) integer(text string) (starlark.Value, error) {
	if d.hooks.integer != nil {
		return d.call.Call(d.hooks.integer, starlark.String(text))
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return starlark.MakeInt64(n), nil
	}
	if len(text) > maxDigits {
		return nil, stdlib.Errorf(stdlib.ValueError, "Exceeds the limit (%d digits) for integer string conversion: value has %d digits", maxDigits, len(text))
	}
	n, _ := new(big.Int).SetString(text, 10)
	return starlark.MakeBigInt(n), nil
}
