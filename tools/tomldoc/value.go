package tomldoc

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode"
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

// Quote returns text as a TOML string: readable, between ”' where possible. Invisible characters,
// and characters that make a terminal show a different text, are escaped. The text must be valid
// UTF-8.
func Quote(text string) string {
	if strings.ContainsFunc(text, hidden) || strings.Contains(text, "'''") || strings.HasSuffix(text, "'") {
		return basic(text, strings.Contains(text, "\n"))
	}
	if strings.Contains(text, "\n") {
		return "'''\n" + text + "'''"
	}
	return QuoteLine(text)
}

// QuoteLine is [Quote] for a string on a single line: line breaks are escaped.
func QuoteLine(text string) string {
	if strings.ContainsFunc(text, hidden) || strings.ContainsAny(text, "'\n") || !strings.ContainsAny(text, `"\`) {
		return basic(text, false)
	}
	return "'" + text + "'"
}

// QuoteKey returns a name as a key: bare where possible.
func QuoteKey(name string) string {
	bare := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !bare(r) }) < 0 {
		return name
	}
	return basic(name, false)
}

// hidden reports whether a character is invisible, a control character, or changes the direction of
// text ("Trojan Source", CVE-2021-42574).
func hidden(r rune) bool {
	if r >= ' ' && r <= '~' { // the most common case
		return false
	}
	return r != '\n' && r != '\t' && unicode.In(r, unicode.C, unicode.Zl, unicode.Zp)
}

// basic returns a TOML string with escapes, on several lines or on a single line.
func basic(text string, lines bool) string {
	var b strings.Builder
	mark := `"`
	if lines {
		mark = `"""`
		b.WriteString(mark + "\n")
	} else {
		b.WriteString(mark)
	}
	quotes := 0 // consecutive quotes written so far
	for i, r := range text {
		last := i == len(text)-1
		switch {
		case r == '"' && (!lines || quotes == 2 || last):
			b.WriteString(`\"`)
			quotes = 0
			continue
		case r == '"':
			b.WriteByte('"')
			quotes++
			continue
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\n' && !lines:
			b.WriteString(`\n`)
		case hidden(r) && r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08X`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
		quotes = 0
	}
	b.WriteString(mark)
	return b.String()
}
