package tomldoc

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// InlineTable is a table with keys in written order.
type InlineTable []Entry

// Entry is a key of an InlineTable. Value has a type allowed by [Set].
type Entry struct {
	Key   string
	Value any
}

// inline returns a value as TOML on a single line.
func inline(value any) string {
	switch v := value.(type) {
	case string:
		return QuoteLine(v)
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return float(v)
	case []string:
		return inline(anySlice(v))
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = inline(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case InlineTable:
		if len(v) == 0 {
			return "{}"
		}
		members := make([]string, len(v))
		for i, e := range v {
			members[i] = assignment(e.Key, e.Value)
		}
		return "{ " + strings.Join(members, ", ") + " }"
	}
	panic(fmt.Sprintf("tomldoc: a %T is no value", value)) // a mistake of the caller
}

func float(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(v, 'g', -1, 64)), "+")
	}
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

func assignment(key string, value any) string {
	return QuoteKey(key) + " = " + inline(value)
}

func anySlice(list []string) []any {
	items := make([]any, len(list))
	for i, s := range list {
		items[i] = s
	}
	return items
}

// plainValue returns a value as decoded by the TOML library.
func plainValue(value any) any {
	switch v := value.(type) {
	case InlineTable:
		m := make(map[string]any, len(v))
		for _, e := range v {
			m[e.Key] = plainValue(e.Value)
		}
		return m
	case []string:
		return anySlice(v)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = plainValue(item)
		}
		return list
	}
	return value
}

// setValue sets the value at a path in decoded values. It returns false if the path leads through a
// value other than a table.
func setValue(root map[string]any, path []string, value any) bool {
	for _, key := range path[:len(path)-1] {
		next, ok := root[key]
		if !ok {
			next = map[string]any{}
			root[key] = next
		}
		if root, ok = next.(map[string]any); !ok {
			return false
		}
	}
	root[path[len(path)-1]] = value
	return true
}

// removeValue removes the value at a path in decoded values.
func removeValue(root map[string]any, path []string) {
	if parent, ok := lookup(root, path[:len(path)-1]); ok {
		if m, ok := parent.(map[string]any); ok {
			delete(m, path[len(path)-1])
		}
	}
}

// dropEmptied removes the tables on the path from want if they are empty in want and missing in
// got: removing the last key of a table without a header removes the table too.
func dropEmptied(want, got map[string]any, path []string) {
	for n := len(path) - 1; n > 0; n-- {
		v, ok := lookup(want, path[:n])
		if table, isTable := v.(map[string]any); !ok || !isTable || len(table) > 0 {
			return
		}
		if _, ok := lookup(got, path[:n]); ok {
			return
		}
		removeValue(want, path[:n])
	}
}

// same compares decoded values.
func same(a, b any) bool { return reflect.DeepEqual(comparable(a), comparable(b)) }

// comparable returns a decoded value in a form in which equal values are deeply equal.
func comparable(value any) any {
	switch v := value.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, item := range v {
			m[key] = comparable(item)
		}
		return m
	case []map[string]any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = comparable(item)
		}
		return list
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = comparable(item)
		}
		return list
	case bool, string, int64:
		return v
	}
	return fmt.Sprintf("%T %v", value, value) // NaN, times
}
