package flow

import (
	"maps"
	"slices"
	"strings"
)

// Bounds of a value made from a schema, since a server may have written a large schema.
const (
	maxNodes        = 10_000
	maxSchemaValues = 20_000 // of the schema itself
	maxBytes        = 256 << 10
	maxDepth        = 32
)

// maker makes a value from a schema.
type maker struct {
	blanks       Blanks
	root         any
	nodes, bytes int // the remaining budget
}

// value returns the value of a schema. The value need not be valid: a script only has to find
// members and types.
func (m *maker) value(schema any, depth int) any {
	if m.nodes--; m.nodes < 0 || depth > maxDepth {
		return nil
	}
	s, ok := schema.(map[string]any)
	if !ok { // true, or an unknown form
		return m.text("")
	}
	if ref, ok := s["$ref"].(string); ok {
		if to := m.resolve(ref); to != nil {
			return m.value(to, depth+1)
		}
	}
	if fixed, ok := s["const"]; ok {
		return fixed
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		return list[0]
	}
	if choice := firstChoice(s); choice != nil {
		return m.value(choice, depth+1)
	}
	switch kind := typeOf(s); kind {
	case "object":
		return m.object(s, depth)
	case "array":
		return m.array(s, depth)
	case "integer", "number":
		return m.blanks.number()
	case "boolean":
		return m.blanks.Blank == One
	case "null":
		return nil
	}
	format, _ := s["format"].(string)
	return m.text(format)
}

func (m *maker) text(format string) any {
	switch format {
	case "date":
		return "1970-01-01"
	case "date-time":
		return "1970-01-01T00:00:00Z"
	case "time":
		return "00:00:00Z"
	}
	text := m.blanks.text()
	if m.bytes -= len(text); m.bytes < 0 {
		return ""
	}
	return text
}

// object returns an object with all properties, including properties in allOf.
func (m *maker) object(s map[string]any, depth int) any {
	o := map[string]any{}
	parts, _ := s["allOf"].([]any)
	for _, part := range parts {
		if of, ok := m.value(part, depth+1).(map[string]any); ok {
			maps.Copy(o, of)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) { // the same order each time, for the bounds
		o[name] = m.value(properties[name], depth+1)
	}
	if more, ok := s["additionalProperties"].(map[string]any); ok && len(o) == 0 && m.blanks.elements() > 0 {
		o["0"] = m.value(more, depth+1)
	}
	return o
}

func (m *maker) array(s map[string]any, depth int) any {
	list := []any{}
	if fixed, ok := s["prefixItems"].([]any); ok {
		for _, item := range fixed {
			list = append(list, m.value(item, depth+1))
		}
		return list
	}
	for range m.blanks.elements() {
		list = append(list, m.value(s["items"], depth+1))
	}
	return list
}

// typeOf returns the type of a schema, "" without a type.
func typeOf(s map[string]any) string {
	kind, _ := s["type"].(string)
	list, _ := s["type"].([]any)
	for _, one := range list {
		if name, _ := one.(string); kind == "" || kind == "null" {
			kind = name
		}
	}
	switch {
	case kind != "":
		return kind
	case s["properties"] != nil, s["additionalProperties"] != nil, s["allOf"] != nil:
		return "object"
	case s["items"] != nil, s["prefixItems"] != nil:
		return "array"
	}
	return ""
}

// firstChoice returns the first alternative other than null; nil if none exists.
func firstChoice(s map[string]any) any {
	for _, key := range []string{"anyOf", "oneOf"} {
		list, _ := s[key].([]any)
		for _, one := range list {
			if of, ok := one.(map[string]any); !ok || of["type"] != "null" {
				return one
			}
		}
	}
	return nil
}

// resolve returns the target of a reference within the schema, nil for another reference.
func (m *maker) resolve(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := m.root
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if step == "" {
			continue
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		of, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = of[step]
	}
	return at
}
