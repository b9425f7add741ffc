package flow

import (
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
