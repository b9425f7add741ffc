package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

var utf8BOM = []byte("\ufeff")

// parseTOML reads a file's text into a tree.
func parseTOML(data []byte) (*node, *Problem) {
	data = bytes.TrimPrefix(data, utf8BOM)
	var root map[string]toml.Primitive
	md, err := toml.Decode(string(data), &root)
	if err != nil {
		var pe toml.ParseError
		if !errors.As(err, &pe) {
			return nil, &Problem{Text: withoutQuotes(err.Error())}
		}
		line, column := lineColumn(data, pe.Position.Start)
		return nil, &Problem{Line: line, Column: column, Text: withoutQuotes(pe.Message)}
	}
	t := &tomlFile{data: data, md: &md, root: root, order: keyOrder(md.Keys())}
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

// quoted is text in quotes in a parser's message.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'`)

// withoutQuotes makes a parser's message fit to be shown: it begins in lower
// case, and what it quotes from the file is cut out, because that can be a
// secret which somebody forgot to put in quotes. Names of keys stay.
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

// tomlFile turns what the TOML library decodes into nodes. The library gives
// tables as maps; the order of their keys and where they stand is in its
// MetaData.
type tomlFile struct {
	data  []byte
	md    *toml.MetaData
	root  map[string]toml.Primitive
	order map[string][]string
}

// keyOrder lists, for each table (by its key as text), its keys in the order
// in which the file first mentions them.
func keyOrder(keys []toml.Key) map[string][]string {
	order := map[string][]string{}
	seen := map[string]bool{}
	for _, key := range keys {
		for i := range key {
			id := key[:i+1].String()
			if !seen[id] {
				seen[id] = true
				parent := key[:i].String()
				order[parent] = append(order[parent], key[i])
			}
		}
	}
	return order
}

// table makes the node of the table at path.
func (t *tomlFile) table(path toml.Key, m map[string]any) *node {
	n := &node{kind: kindTable, fields: make(map[string]*node, len(m)), pos: t.position(path)}
	for _, key := range t.order[path.String()] {
		if v, ok := m[key]; ok {
			n.keys = append(n.keys, key)
			n.fields[key] = t.value(append(path[:len(path):len(path)], key), v)
		}
	}
	return n
}

// value makes the node of any value at path; items of an array have the path
// of the array.
func (t *tomlFile) value(path toml.Key, v any) *node {
	n := &node{pos: t.position(path)}
	switch v := v.(type) {
	case map[string]any:
		return t.table(path, v)
	case []map[string]any:
		n.kind = kindArray
		for _, item := range v {
			n.items = append(n.items, t.table(path, item))
		}
	case []any:
		n.kind = kindArray
		for _, item := range v {
			n.items = append(n.items, t.value(path, item))
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
		n.kind, n.text = kindTime, fmt.Sprint(v)
	}
	return n
}

// position finds the key at path in the text. The library tells where a value
// is only in the error of an Unmarshaler, so one that always fails is sent
// there.
func (t *tomlFile) position(path toml.Key) func() (line, column int) {
	return func() (int, int) {
		if len(path) == 0 {
			return 0, 0
		}
		level := t.root
		for _, key := range path[:len(path)-1] {
			table := level[key]
			level = nil
			if err := t.md.PrimitiveDecode(table, &level); err != nil {
				return 0, 0
			}
		}
		var pe toml.ParseError
		err := t.md.PrimitiveDecode(level[path[len(path)-1]], &whereabouts{})
		if !errors.As(err, &pe) || pe.Position.Line < 1 {
			return 0, 0
		}
		return t.keyOnLine(pe.Position, path[len(path)-1])
	}
}

// keyOnLine is where key begins on the line of its value; the line alone when
// the key is not written there as it is.
func (t *tomlFile) keyOnLine(p toml.Position, key string) (line, column int) {
	start := min(max(p.Start, 0), len(t.data))
	begin := bytes.LastIndexByte(t.data[:start], '\n') + 1
	text, _, _ := bytes.Cut(t.data[begin:], []byte("\n"))
	line, _ = lineColumn(t.data, begin)
	before := min(len(text), start-begin+len(key)+1)
	at := bytes.LastIndex(text[:before], []byte(key))
	if at < 0 {
		return line, 0
	}
	return line, utf8.RuneCount(text[:at]) + 1
}

// whereabouts refuses every value, which makes the TOML library say where it
// is.
type whereabouts struct{}

func (*whereabouts) UnmarshalTOML(any) error { return errors.New("here") }
