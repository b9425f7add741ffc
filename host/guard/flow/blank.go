package flow

import (
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Blank is a way of blanking labelled answers. A shadow has the same Blank for its whole run.
type Blank int

// The blanks. Four shadows with different blanks are better than four equal shadows: where a shadow
// fails, for example at the first element of an empty list, another shadow can go on.
const (
	Empty    Blank = iota // empty lists and texts, 0, false
	One                   // an element, "0", 1, true
	Literal               // three elements, texts with all literals of the script, 10^6, false
	Fail                  // every labelled answer is an error
	NumBlank = 4
)

// String returns the name of the blank.
func (b Blank) String() string {
	return [NumBlank]string{"empty", "one", "literals", "fail"}[b]
}

// Blanks makes values in place of answers.
type Blanks struct {
	Blank
	Literals string // see the function Literals
}

// Value returns the raw value of a shape, a raw JSON Schema. A missing, unreadable or very large
// shape gives a text, like the answers of most tools without a schema. The value has no part of any
// answer.
func (b Blanks) Value(shape []byte) []byte {
	schema, err := jsonvalue.Options{Values: maxSchemaValues}.Decode(shape)
	if err != nil {
		return wire.Quote(b.text())
	}
	m := maker{blanks: b, root: schema.Value, nodes: maxNodes, bytes: maxBytes}
	return wire.Marshal(m.value(schema.Value, 0))
}

// Result returns a raw CallToolResult with a value, for a script that asks for the whole result.
func (b Blanks) Result(value []byte, structured, failed bool) []byte {
	text := value
	if value[0] != '"' {
		text = wire.Quote(string(value))
	}
	var block wire.Object
	block.Text("type", "text")
	block.Raw("text", text)
	var o wire.Object
	o.Raw("content", wire.Array([][]byte{block.Bytes()}))
	if structured {
		o.Raw("structuredContent", value)
	}
	o.Bool("isError", failed)
	return o.Bytes()
}

func (b Blanks) text() string {
	switch b.Blank {
	case One:
		return "0"
	case Literal:
		return b.Literals
	}
	return ""
}

func (b Blanks) number() int {
	switch b.Blank {
	case One:
		return 1
	case Literal:
		return 1_000_000
	}
	return 0
}

// elements returns how many elements lists have.
func (b Blanks) elements() int {
	switch b.Blank {
	case One:
		return 1
	case Literal:
		return 3
	}
	return 0
}

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

// Bounds of the literals of a script.
const (
	maxLiteral  = 40 // bytes of a literal; longer literals are left out
	maxLiterals = 40
	maxSource   = 1 << 20 // bytes of the source that are scanned
	maxObject   = 8 << 10 // bytes of all values of an object
)

// Literals returns a text that has everything that a script may search in a text: the script's own
// literals. If the script reads JSON, the text is an object with these keys. code is the source of
// the script, and of saved tools within reach of the script. The code is not parsed, only scanned
// for quotes: the result depends on the code alone, and a missed literal only makes a shadow less
// useful.
func Literals(code ...string) string {
	seen := map[string]bool{}
	for _, source := range code {
		scan(source[:min(len(source), maxSource)], func(text string) bool {
			if text != "" && len(text) <= maxLiteral {
				seen[text] = true
			}
			return len(seen) < maxLiterals
		})
	}
	all := slices.Sorted(maps.Keys(seen))
	var b strings.Builder
	b.WriteString("0")
	for range 2 { // so split() gives three parts
		for _, text := range all {
			b.WriteString(text + "0")
		}
	}
	if slices.ContainsFunc(code, readsJSON) {
		return object(b.String(), all)
	}
	return b.String()
}

// readsJSON reports whether a script may read texts as JSON, because the script names a function
// for JSON.
func readsJSON(code string) bool {
	return strings.Contains(code, "loads") || strings.Contains(code, "json.decode")
}

// object returns a JSON object in which each literal is a key, with the text as its value, within a
// size bound. The text is also the first value, so text behind the first use of a literal is the
// same as in the text alone.
func object(text string, literals []string) string {
	first := wire.Quote(text)
	long := len(first)*len(literals) > maxObject
	var b strings.Builder
	b.WriteString("{\n\"0\": ")
	b.Write(first)
	for _, key := range literals {
		if key == "0" {
			continue
		}
		value := first
		if long {
			value = wire.Quote("0" + key + "0")
		}
		b.WriteString(",\n")
		b.Write(wire.Quote(key))
		b.WriteString(": ")
		b.Write(value)
	}
	b.WriteString("\n}")
	return b.String()
}

// scan calls found with each literal, until found returns false.
func scan(code string, found func(text string) bool) {
	for i := 0; i < len(code); i++ {
		switch c := code[i]; c {
		case '#':
			for i < len(code) && code[i] != '\n' {
				i++
			}
		case '\'', '"':
			quote := string(c)
			if strings.HasPrefix(code[i:], strings.Repeat(quote, 3)) {
				quote = strings.Repeat(quote, 3)
			}
			text, next := literal(code, i+len(quote), quote)
			if !found(text) {
				return
			}
			i = next - 1
		}
	}
}

var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\""}

// literal returns the literal at an offset, and the offset after its end.
func literal(code string, at int, quote string) (text string, next int) {
	var b strings.Builder
	for i := at; i < len(code); i++ {
		switch {
		case strings.HasPrefix(code[i:], quote):
			return b.String(), i + len(quote)
		case code[i] == '\n' && len(quote) == 1: // a literal without an end
			return "", i + 1
		case code[i] == '\\' && i+1 < len(code):
			i++
			if plain, ok := escapes[code[i]]; ok {
				b.WriteString(plain)
				continue
			}
			b.WriteByte('\\')
			b.WriteByte(code[i])
		default:
			b.WriteByte(code[i])
		}
	}
	return "", len(code)
}
