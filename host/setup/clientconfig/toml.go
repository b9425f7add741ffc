package clientconfig

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/BurntSushi/toml"

	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// readTOML converts a text to a tree.
func readTOML(data []byte) (*object, error) {
	var root map[string]any
	md, err := tomldoc.Decode(string(bytes.TrimPrefix(data, utf8BOM)), &root)
	if guarded := new(tomldoc.Error); errors.As(err, &guarded) {
		return nil, &SyntaxError{Line: guarded.Line, Column: guarded.Column, Text: guarded.Message()}
	}
	if err != nil {
		e := &SyntaxError{Text: "is not valid TOML"}
		if parse := (toml.ParseError{}); errors.As(err, &parse) {
			e.Line, e.Column = parse.Position.Line, parse.Position.Col
		}
		return nil, e
	}
	order := map[string]int{} // the library decodes to maps; this is where each key came
	for i, key := range md.Keys() {
		if _, known := order[pathID(key)]; !known {
			order[pathID(key)] = i
		}
	}
	return fromTable(nil, root, order), nil
}

// pathID encodes a path of keys as a string.
func pathID(path []string) string { return fmt.Sprintf("%q", path) }

// fromTable converts the table at path.
func fromTable(path []string, m map[string]any, order map[string]int) *object {
	o := newObject()
	at := func(key string) int { return order[pathID(append(path[:len(path):len(path)], key))] }
	for _, key := range slices.SortedStableFunc(maps.Keys(m), func(a, b string) int { return at(a) - at(b) }) {
		o.set(key, fromTOML(append(path[:len(path):len(path)], key), m[key], order))
	}
	return o
}

func fromTOML(path []string, v any, order map[string]int) any {
	switch v := v.(type) {
	case map[string]any:
		return fromTable(path, v, order)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = fromTOML(path, item, order)
		}
		return list
	case []map[string]any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = fromTable(path, item, order)
		}
		return list
	case int64, float64:
		return number(fmt.Sprint(v))
	case string, bool:
		return v
	}
	return nil // dates and times
}
