package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

var utf8BOM = []byte("\ufeff")

// parseTOML parses a file's text into a tree.
func parseTOML(data []byte) (*node, *Problem) {
	data = bytes.TrimPrefix(data, utf8BOM)
	var root map[string]toml.Primitive
	md, err := tomldoc.Decode(string(data), &root)
	if guarded := new(tomldoc.Error); errors.As(err, &guarded) {
		line, column := lineColumn(data, guarded.Offset)
		return nil, &Problem{Line: line, Column: column, Text: guarded.Message(), Err: err}
	}
	if err != nil {
		var pe toml.ParseError
		if !errors.As(err, &pe) {
			return nil, &Problem{Text: withoutQuotes(err.Error())}
		}
		line, column := lineColumn(data, pe.Position.Start)
		return nil, &Problem{Line: line, Column: column, Text: withoutQuotes(pe.Message)}
	}
	t := &tomlFile{data: data, places: findPlaces(string(data))}
	values := make(map[string]any, len(root))
	for key, primitive := range root {
		var v any
		if err := md.PrimitiveDecode(primitive, &v); err != nil {
			return nil, &Problem{Text: withoutQuotes(err.Error())}
		}
		values[key] = v
	}
	return t.table(nil, values), nil
}

// quoted matches text in quotes in a parser's message.
var quoted = lazyregexp.New(`"(?:[^"\\]|\\.)*"|'[^']*'`)

// withoutQuotes makes a parser's message safe to show. It begins in lower case, and text
// quoted from the file is removed, because it can be a secret that somebody forgot to put
// in quotes. Names of keys stay.
func withoutQuotes(message string) string {
	r, n := utf8.DecodeRuneInString(message)
	lower := strings.ToLower(string(r)) + message[n:]
	if strings.HasPrefix(message, "Key ") {
		return strings.TrimSuffix(lower, ".")
	}
	return quoted.ReplaceAllStringFunc(lower, func(q string) string {
		if utf8.RuneCountInString(q) <= len(`"""`)+2 {
			return q // a delimiter or a single character
		}
		return "…"
	})
}

// tomlFile converts what the TOML library decodes to nodes. The library decodes tables to
// maps; places has the order and the positions of their keys.
type tomlFile struct {
	data   []byte
	places *places
}

// table returns the node of the table at path.
func (t *tomlFile) table(path []string, m map[string]any) *node {
	n := &node{kind: kindTable, fields: make(map[string]*node, len(m))}
	t.locate(n, path)
	for _, key := range t.places.order[pathID(path)] {
		t.field(n, path, key, m)
	}
	if len(n.keys) < len(m) { // add keys that places does not have, so that none is lost
		for _, key := range slices.Sorted(maps.Keys(m)) {
			t.field(n, path, key, m)
		}
	}
	return n
}

// field adds a key of m to the node of the table at path, unless it is there already.
func (t *tomlFile) field(n *node, path []string, key string, m map[string]any) {
	if v, ok := m[key]; ok && n.fields[key] == nil {
		n.keys = append(n.keys, key)
		n.fields[key] = t.value(append(path[:len(path):len(path)], key), v)
	}
}

// value returns the node of any value at path.
func (t *tomlFile) value(path []string, v any) *node {
	n := &node{}
	t.locate(n, path)
	item := func(i int) []string { return append(path[:len(path):len(path)], indexKey(i)) }
	switch v := v.(type) {
	case map[string]any:
		return t.table(path, v)
	case []map[string]any:
		n.kind = kindArray
		for i, m := range v {
			n.items = append(n.items, t.table(item(i), m))
		}
	case []any:
		n.kind = kindArray
		for i, m := range v {
			n.items = append(n.items, t.value(item(i), m))
		}
	case string:
		n.kind, n.text = kindString, v
	case int64:
		n.kind, n.text = kindInteger, fmt.Sprint(v)
	case float64:
		n.kind, n.text = kindFloat, fmt.Sprint(v)
	case bool:
		n.kind, n.text = kindBool, fmt.Sprint(v)
	default:
		n.kind, n.text = kindTime, timeText(v)
	}
	return n
}

// timeLayouts are the forms of local dates and times, by the names that the library gives
// their zones.
var timeLayouts = map[string]string{"date-local": time.DateOnly, "datetime-local": "2006-01-02T15:04:05", "time-local": time.TimeOnly}

// timeText returns a date or time as it may be in a file.
func timeText(v any) string {
	t, ok := v.(time.Time)
	if !ok {
		return fmt.Sprint(v)
	}
	return t.Format(cmp.Or(timeLayouts[t.Location().String()], time.RFC3339Nano))
}

// locate sets where n is in the file.
func (t *tomlFile) locate(n *node, path []string) {
	if p, ok := t.places.at[pathID(path)]; ok {
		n.written = p.value
		n.pos = func() (line, column int) { return lineColumn(t.data, p.key.from) }
		n.inside = func(offset int) (line, column int) {
			return lineColumn(t.data, p.value.from+insideString(string(t.data[p.value.from:p.value.to]), offset))
		}
	}
}
