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

	"github.com/go-json-experiment/json/jsontext"
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
