// Package jsonvalue decodes foreign JSON into Go values.
//
// A few bytes of JSON can become many bytes of Go: the seven bytes {"":1}, are a map of 350 bytes.
// So a text is measured before any value is built. Texts with too many values are refused, and the
// memory of accepted texts is taken from a [Room] first. Other packages do not decode foreign JSON
// into maps, slices and any (TestDecodersOfJSON in host): they use this package, or evaluate the
// text without values for its parts.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Limits of texts.
const (
	// MaxValues is the number of values of all kinds, at any depth, of which a tree is built.
	MaxValues = 1_000_000
	// MaxUncounted is the largest number of values of a tree outside any Room. Such a tree has 35
	// MB at most, and the bytes of the texts.
	MaxUncounted = 100_000
	// MaxDepth is the nesting depth of objects and arrays.
	MaxDepth = 10_000
	// MaxNumberDigits is the length of the longest number, and the largest power of ten, accepted
	// by Exact. An exact computation with 1e999999999 would make an integer of a gigabit.
	MaxNumberDigits = 4096
)

// Room has the memory for trees of a run, a principal or a server.
type Room interface {
	// Take takes bytes, and may wait for them. Without an error they are given back by Give.
	Take(bytes int64) error
	Give(bytes int64)
}

// Alone is the Room of a verb of the command, which has the process for itself. Only MaxValues
// limits Alone.
var Alone Room = alone{}

type alone struct{}

func (alone) Take(int64) error { return nil }
func (alone) Give(int64)       {}

// Options say how a text is decoded.
type Options struct {
	// Room has the memory of the tree. With a nil Room, at most MaxUncounted values are decoded.
	Room Room
	// Depth is the deepest nesting; 0 is MaxDepth.
	Depth int
	// Values is the largest number of decoded values; 0 means the maximum.
	Values int
	// Exact refuses texts that another parser could read differently: texts with repeated names,
	// with invalid UTF-8, and with too long numbers. Otherwise the last of equal names counts, and
	// invalid UTF-8 becomes U+FFFD.
	Exact bool
	// Step is called with the bytes of each token; nil: no call.
	Step func(bytes int64)
	// Text converts a text other than a name to a value; nil: a string.
	Text func(string) any
}

// Tree is a decoded text.
type Tree struct {
	// Value is nil, or a bool, json.Number, string, []any or map[string]any.
	Value any
	room  Room
	bytes int64
}

// Free gives the memory back to the Room. The Value must not be used afterwards.
func (t *Tree) Free() {
	t.Value = nil
	if t.room != nil {
		t.room.Give(t.bytes)
		t.room = nil
	}
}

// Error describes a fault in a text.
type Error struct {
	Pointer string // JSON pointer to the place, "" for the whole
	Message string
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Message
	}
	return e.Pointer + ": " + e.Message
}

// TooManyError reports a text with too many values.
type TooManyError struct {
	Values, Most int
}

func (e *TooManyError) Error() string {
	return fmt.Sprintf("has %d JSON values, more than the limit of %d (use fewer at a time)", e.Values, e.Most)
}

// Decode decodes exactly one value, which the caller must free. The error is an *Error, a
// *TooManyError, or from the Room.
func (o Options) Decode(raw []byte) (*Tree, error) {
	values, size := measure(raw)
	size += 2 * int64(len(raw)) // the texts, and a copy of a text during unescaping
	if !o.Exact {
		size += 2 * int64(len(raw)) // a byte of invalid UTF-8 becomes the three bytes of U+FFFD
	}
	most := MaxValues
	if o.Room == nil {
		most = MaxUncounted
	}
	if o.Values > 0 {
		most = min(most, o.Values)
	}
	if values > most {
		return nil, &TooManyError{values, most}
	}
	if o.Depth == 0 {
		o.Depth = MaxDepth
	}
	t := &Tree{room: o.Room, bytes: size}
	if o.Room != nil {
		if err := o.Room.Take(size); err != nil {
			return nil, err
		}
	}
	done := false
	defer func() { // also if Step panics
		if !done {
			t.Free()
		}
	}()
	d := decoder{Options: o, raw: raw, text: jsontext.NewDecoder(bytes.NewBuffer(raw),
		jsontext.AllowDuplicateNames(true), // their own check would keep all names
		jsontext.AllowInvalidUTF8(!o.Exact))}
	v, err := d.value()
	if err != nil {
		return nil, describe(err)
	}
	if _, err := d.text.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &Error{"", "not valid JSON: more than one value"}
	}
	t.Value, done = v, true
	return t, nil
}

// Decode decodes exactly one value as encoding/json does, with the text of numbers. At most
// MaxUncounted values are accepted.
func Decode(raw []byte) (any, error) {
	t, err := Options{}.Decode(raw)
	if err != nil {
		return nil, err
	}
	return t.Value, nil
}

// Unmarshal is json.Unmarshal for a foreign text and a type that can grow larger than the text, for
// example a slice. At most MaxUncounted values are accepted.
func Unmarshal(raw []byte, into any) error {
	if err := Few(raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// Few returns a *TooManyError if a text has more than MaxUncounted values.
func Few(raw []byte) error {
	if values, _ := measure(raw); values > MaxUncounted {
		return &TooManyError{values, MaxUncounted}
	}
	return nil
}

// Valid reports why Decode would refuse a text, without building anything.
func Valid(raw []byte) error {
	if err := Few(raw); err != nil {
		return err
	}
	if !json.Valid(raw) {
		return &Error{"", "not valid JSON"}
	}
	return nil
}

// decoder builds a tree.
type decoder struct {
	Options
	raw  []byte
	text *jsontext.Decoder
}

// describe returns an error of a decoder as an *Error.
func describe(err error) error {
	var own *Error
	var se *jsontext.SyntacticError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &se):
		msg := fmt.Sprintf("not valid JSON: %v (at byte %d)", se.Err, se.ByteOffset)
		return &Error{string(se.JSONPointer), display.Clip(msg, 300)}
	case errors.Is(err, io.EOF):
		return &Error{"", "not valid JSON: it is empty"}
	}
	return &Error{"", "not valid JSON: " + err.Error()}
}

func (d *decoder) value() (any, error) {
	tok, err := d.read()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return tok.Bool(), nil
	case '"':
		if d.Text != nil {
			return d.Text(tok.String()), nil
		}
		return tok.String(), nil
	case '0':
		lit := tok.String()
		if d.Exact && !exactNumber(lit) {
			return nil, d.refuse(fmt.Sprintf("the number %s is too long (at most %d digits, and exponents up to ±%[2]d)", display.Clip(lit, 40), MaxNumberDigits))
		}
		return json.Number(lit), nil
	case '{':
		return d.object()
	default: // '[': the decoder has refused everything else
		return d.array()
	}
}

func (d *decoder) read() (jsontext.Token, error) {
	from := d.text.InputOffset()
	tok, err := d.text.ReadToken()
	if d.Step != nil {
		d.Step(d.text.InputOffset() - from)
	}
	return tok, err
}

func (d *decoder) refuse(msg string) error {
	return &Error{string(d.text.StackPointer()), msg}
}

func (d *decoder) enter() error {
	if d.text.StackDepth() > d.Depth {
		return d.refuse(fmt.Sprintf("nested deeper than %d levels", d.Depth))
	}
	return nil
}

func (d *decoder) object() (any, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	obj := map[string]any{}
	for d.text.PeekKind() != '}' {
		at := d.text.InputOffset()
		tok, err := d.read()
		if err != nil {
			return nil, err
		}
		name := tok.String() // before the next read, which may overwrite the token's bytes
		if _, again := obj[name]; again && d.Exact {
			at += int64(bytes.IndexByte(d.raw[at:], '"'))
			return nil, &jsontext.SyntacticError{ByteOffset: at, JSONPointer: d.text.StackPointer(), Err: jsontext.ErrDuplicateName}
		}
		if obj[name], err = d.value(); err != nil {
			return nil, err
		}
	}
	_, err := d.text.ReadToken()
	return obj, err
}

func (d *decoder) array() (any, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	arr := []any{}
	for d.text.PeekKind() != ']' {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		arr = append(arr, v)
	}
	_, err := d.text.ReadToken()
	return arr, err
}

// exactNumber reports whether a JSON number is small enough for exact arithmetic.
func exactNumber(lit string) bool {
	if len(lit) > MaxNumberDigits {
		return false
	}
	i := strings.IndexAny(lit, "eE")
	if i < 0 {
		return true
	}
	exp, err := strconv.Atoi(lit[i+1:])
	return err == nil && exp >= -MaxNumberDigits && exp <= MaxNumberDigits
}

// The largest sizes in a tree, in bytes, without the texts.
const (
	valueBytes  = 96  // an any in an array that grows, or in a map, with the header of the text
	memberBytes = 64  // more for a member, as long as the map grows
	objectBytes = 352 // a map of up to eight members
	arrayBytes  = 48
)

// measure returns the number of values in a text, and a bound of the tree's bytes. In an invalid
// text, it measures at least the part before the fault. It builds nothing.
func measure(raw []byte) (values int, size int64) {
	values = 1
	inText := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if inText {
			if c == '\\' {
				i++
			}
			inText = c != '"'
			continue
		}
		switch c {
		case '"':
			inText = true
		case ',':
			values++
		case ':':
			size += memberBytes
		case '{', '[':
			size += arrayBytes
			if isEmpty(raw[i+1:]) {
				continue
			}
			values++
			if c == '{' {
				size += objectBytes
			}
		}
	}
	return values, size + int64(values)*valueBytes
}

// isEmpty reports whether an object or an array with its beginning read ends at once.
func isEmpty(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '}' || c == ']'
		}
	}
	return true
}
