package tools

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

// Limits of JSON values that are checked against a schema.
const (
	// MaxValueDepth is the nesting depth of objects and arrays.
	MaxValueDepth = 1000
	// MaxNumberDigits is the length of the longest number literal, and the largest power of
	// ten, that is accepted. Checking is exact, so that 1e999999999 would otherwise become
	// an integer of a gigabit.
	MaxNumberDigits = 4096
)

// valueError says why bytes are not an acceptable JSON value.
type valueError struct{ Violation }

func (e *valueError) Error() string { return e.String() }

// parseValue parses exactly one JSON value into the types that the schema library uses:
// nil, bool, json.Number, string, []any, map[string]any. Invalid UTF-8 and duplicate names
// are refused, because another parser could get a different value from the same bytes.
func parseValue(m *meter, raw []byte, maxDepth int) (any, error) {
	p := valueParser{meter: m, dec: jsontext.NewDecoder(bytes.NewBuffer(raw)), depth: maxDepth}
	v, err := p.value()
	if err != nil {
		return nil, p.wrap(err)
	}
	if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &valueError{Violation{"", "not valid JSON: more than one value"}}
	}
	return v, nil
}

type valueParser struct {
	meter *meter
	dec   *jsontext.Decoder
	depth int
}

func (p *valueParser) wrap(err error) error {
	var ve *valueError
	var se *jsontext.SyntacticError
	switch {
	case errors.As(err, &ve):
		return ve
	case errors.As(err, &se):
		msg := fmt.Sprintf("not valid JSON: %v (at byte %d)", se.Err, se.ByteOffset)
		return &valueError{Violation{string(se.JSONPointer), display.Clip(msg, 300)}}
	case errors.Is(err, io.EOF):
		return &valueError{Violation{"", "not valid JSON: it is empty"}}
	}
	return &valueError{Violation{"", "not valid JSON: " + err.Error()}}
}

func (p *valueParser) value() (any, error) {
	tok, err := p.read()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return tok.Bool(), nil
	case '"':
		text := tok.String()
		if from := p.meter.unknown; from != "" && strings.HasPrefix(text, from) {
			return unknown{}, nil
		}
		return text, nil
	case '0':
		lit := tok.String()
		if !exactNumber(lit) {
			return nil, p.refuse(fmt.Sprintf("the number %s is too long (at most %d digits, and exponents up to ±%[2]d)", display.Clip(lit, 40), MaxNumberDigits))
		}
		return json.Number(lit), nil
	case '{':
		return p.object()
	default: // '[': the decoder has refused everything else
		return p.array()
	}
}

func (p *valueParser) read() (jsontext.Token, error) {
	from := p.dec.InputOffset()
	tok, err := p.dec.ReadToken()
	p.meter.take(tokenCost + byteCost*(p.dec.InputOffset()-from))
	return tok, err
}

func (p *valueParser) refuse(msg string) error {
	return &valueError{Violation{string(p.dec.StackPointer()), msg}}
}

func (p *valueParser) enter() error {
	if p.dec.StackDepth() > p.depth {
		return p.refuse(fmt.Sprintf("nested deeper than %d levels", p.depth))
	}
	return nil
}

func (p *valueParser) object() (any, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	obj := map[string]any{}
	for p.dec.PeekKind() != '}' {
		name, err := p.read()
		if err != nil {
			return nil, err
		}
		key := name.String() // before the next read, which may overwrite the token's bytes
		if obj[key], err = p.value(); err != nil {
			return nil, err
		}
	}
	_, err := p.dec.ReadToken()
	return obj, err
}

func (p *valueParser) array() (any, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	arr := []any{}
	for p.dec.PeekKind() != ']' {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		arr = append(arr, v)
	}
	_, err := p.dec.ReadToken()
	return arr, err
}

// exactNumber reports whether a JSON number literal is small enough for exact arithmetic.
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

// lookup follows the tokens of a JSON pointer.
func lookup(v any, tokens []string) (any, bool) {
	for _, tok := range tokens {
		switch c := v.(type) {
		case map[string]any:
			next, ok := c[tok]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(tok)
			if err != nil || i < 0 || i >= len(c) {
				return nil, false
			}
			v = c[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// pointer returns tokens as a JSON pointer (RFC 6901).
func pointer(tokens []string) string {
	var p jsontext.Pointer
	for _, tok := range tokens {
		p = p.AppendToken(tok)
	}
	return string(p)
}

// kindOf returns the JSON type of a parsed value, as JSON Schema names it.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	default:
		return "object"
	}
}
