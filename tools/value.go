package tools

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Limits of JSON values checked against a schema.
const (
	// MaxValueDepth is the nesting depth of objects and arrays.
	MaxValueDepth = 1000
	// MaxNumberDigits is the length of the longest number literal, and the largest accepted power
	// of ten: checking is exact.
	MaxNumberDigits = jsonvalue.MaxNumberDigits
)

// parseValue parses exactly one JSON value into the types of the schema library: nil, bool,
// json.Number, string, []any, map[string]any. Invalid UTF-8 and duplicate names are refused,
// because another parser could get a different value from the same bytes. The meter keeps the
// memory of the value until the value is freed.
func parseValue(m *meter, raw []byte, maxDepth int) (any, error) {
	options := jsonvalue.Options{Depth: maxDepth, Exact: true, Step: m.token}
	if m.room != nil {
		options.Room = m
	}
	if m.unknown != "" {
		options.Text = m.known
	}
	tree, err := options.Decode(raw)
	if err != nil {
		return nil, err
	}
	m.trees = append(m.trees, tree)
	return tree.Value, nil
}

// token counts a token of JSON.
func (m *meter) token(bytes int64) { m.take(tokenCost + byteCost*bytes) }

// known returns a text, unless the text stands for an unknown value.
func (m *meter) known(text string) any {
	if strings.HasPrefix(text, m.unknown) {
		return unknown{}
	}
	return text
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

// kindOf returns the JSON type of a parsed value, as named in JSON Schema.
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
