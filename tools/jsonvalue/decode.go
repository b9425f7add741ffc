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
