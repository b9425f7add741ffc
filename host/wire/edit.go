package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// lenient accepts what peers send and we only pass on: neither duplicate names
// nor invalid UTF-8 deep inside a value are ours to judge.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

type decoder struct {
	jsontext.Decoder
	buf *bytes.Buffer
}

var decoders = sync.Pool{New: func() any { return &decoder{buf: new(bytes.Buffer)} }}

func newDecoder(raw []byte) *decoder {
	d := decoders.Get().(*decoder)
	*d.buf = *bytes.NewBuffer(raw)
	d.Reset(d.buf, lenient...)
	return d
}

func (d *decoder) release() {
	*d.buf = bytes.Buffer{}
	d.Reset(d.buf, lenient...)
	decoders.Put(d)
}

// finish reads the closing delimiter and makes sure that nothing follows.
func (d *decoder) finish() error {
	if _, err := d.ReadToken(); err != nil {
		return syntax(err)
	}
	switch _, err := d.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errors.New("more than one value")
	default:
		return syntax(err)
	}
}

// member is one member of an object; raw[start:end] is its value, raw[at:end]
// its name and value.
type member struct {
	name           string
	at, start, end int
}

// members calls f for each member of the object raw, in order, until f returns
// false. It checks the whole of raw if f never does.
func members(raw []byte, f func(member) bool) error {
	d := newDecoder(raw)
	defer d.release()
	tok, err := d.ReadToken()
	if err != nil {
		return syntax(err)
	}
	if tok.Kind() != '{' {
		return errors.New("not a JSON object")
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return syntax(err)
		}
		m := member{at: int(d.InputOffset()) - len(name)}
		m.name = unquote(name)
		v, err := d.ReadValue()
		if err != nil {
			return syntax(err)
		}
		m.end = int(d.InputOffset())
		m.start = m.end - len(v)
		if !f(m) {
			return nil
		}
	}
	return d.finish()
}

// syntax says what is wrong with JSON text, and where.
func syntax(err error) error {
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case errors.As(err, &s):
		return fmt.Errorf("%w at byte %d", s.Err, s.ByteOffset)
	}
	return err
}

func unquote(raw []byte) string {
	if len(raw) >= 2 && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	b, _ := jsontext.AppendUnquote(nil, raw) // invalid UTF-8 becomes U+FFFD
	return string(b)
}

// find locates the last member called name, the one that JSON readers keep.
func find(obj []byte, name string) (m member, ok bool, err error) {
	err = members(obj, func(x member) bool {
		if x.name == name {
			m, ok = x, true
		}
		return true
	})
	return m, ok, err
}

// findOnly is find in a copy of obj without the earlier members of that name;
// in obj itself where there are none.
func findOnly(obj []byte, name string) (only []byte, m member, ok bool, err error) {
	for {
		var first member
		count := 0
		err = members(obj, func(x member) bool {
			if x.name == name {
				if count == 0 {
					first = x
				}
				m = x
				count++
			}
			return true
		})
		if err != nil || count < 2 {
			return obj, m, count == 1, err
		}
		obj = cut(obj, first)
	}
}

// Get is the raw value at path below the object obj. It is not found when obj
// or anything on the way is no object.
func Get(obj []byte, path ...string) (value []byte, ok bool) {
	value = obj
	for _, name := range path {
		m, found, err := find(value, name)
		if !found || err != nil {
			return nil, false
		}
		value = value[m.start:m.end]
	}
	return value, true
}

// GetString is the string at path below the object obj.
func GetString(obj []byte, path ...string) (s string, ok bool) {
	raw, ok := Get(obj, path...)
	if !ok || len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return unquote(raw), true
}

// Set returns a copy of the object obj with the raw value at path, every other
// byte as it was. A nil obj counts as an empty object; objects missing on the
// way are made; new members go last. Of several members with the name only the
// last stays: a reader that takes the first must not see another value. It
// fails when obj or anything on the way is no object.
func Set(obj, value []byte, path ...string) ([]byte, error) {
	if len(path) == 0 {
		return value, nil
	}
	if obj == nil {
		obj = []byte("{}")
	}
	obj, m, ok, err := findOnly(obj, path[0])
	if err != nil {
		return nil, fmt.Errorf("set %q: %w", path[0], err)
	}
	if ok {
		inner, err := Set(obj[m.start:m.end], value, path[1:]...)
		if err != nil {
			return nil, err
		}
		return splice(obj, m.start, m.end, inner), nil
	}
	inner, err := Set(nil, value, path[1:]...)
	if err != nil {
		return nil, err
	}
	entry := append(appendString(nil, path[0]), ':')
	entry = append(entry, inner...)
	end := bytes.LastIndexByte(obj, '}')
	if body := bytes.TrimRight(obj[:end], " \t\r\n"); body[len(body)-1] != '{' {
		entry = append([]byte{','}, entry...)
	}
	return splice(obj, end, end, entry), nil
}

// Delete returns obj without the member at path; obj itself when there is no
// such member. It fails when obj or anything on the way is no object.
func Delete(obj []byte, path ...string) ([]byte, error) {
	for {
		m, ok, err := find(obj, path[0])
		if err != nil {
			return nil, fmt.Errorf("delete %q: %w", path[0], err)
		}
		if !ok {
			return obj, nil
		}
		if len(path) > 1 {
			inner, err := Delete(obj[m.start:m.end], path[1:]...)
			if err != nil {
				return nil, err
			}
			return splice(obj, m.start, m.end, inner), nil
		}
		obj = cut(obj, m)
	}
}

// cut removes a member with one of the commas beside it.
func cut(obj []byte, m member) []byte {
	before := bytes.TrimRight(obj[:m.at], " \t\r\n")
	if before[len(before)-1] == ',' {
		return splice(obj, len(before)-1, m.end, nil)
	}
	after := bytes.TrimLeft(obj[m.end:], " \t\r\n")
	if after[0] == ',' {
		return splice(obj, m.at, len(obj)-len(after)+1, nil)
	}
	return splice(obj, m.at, m.end, nil)
}

func splice(b []byte, start, end int, with []byte) []byte {
	out := make([]byte, 0, len(b)-(end-start)+len(with))
	out = append(out, b[:start]...)
	out = append(out, with...)
	return append(out, b[end:]...)
}

// Quote is s as a JSON string; invalid UTF-8 becomes U+FFFD.
func Quote(s string) []byte { return appendString(nil, s) }

func appendString(b []byte, s string) []byte {
	out, err := jsontext.AppendQuote(b, s)
	if err != nil { // only for invalid UTF-8, which AppendQuote has replaced
		q, _ := json.Marshal(s)
		return append(b, q...)
	}
	return out
}

// Object tells whether raw is a valid JSON object.
func Object(raw []byte) bool {
	return members(raw, func(member) bool { return true }) == nil
}

// maxElements bounds what Elements allocates for a hostile array.
const maxElements = 1 << 20

// Elements are the raw elements of the JSON array raw, of which there may be
// about a million.
func Elements(raw []byte) ([][]byte, error) {
	items, ok, err := split(raw, maxElements)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New("not a JSON array")
	}
	return items, nil
}
