package linear

import (
	"bytes"
	"fmt"
	"strings"
)

// Shape is a kind of hostile JSON. Make returns a value of about size bytes. The name is looked for
// by the function under test.
type Shape struct {
	Name string
	Make func(size int, name string) []byte
}

// Shapes are the kinds: repeated or nested members, members similar to the wanted member, long
// values, and truncated text.
var Shapes = []Shape{
	{"repeated", members(func(name string, _ int) string { return quote(name) + `:1` })},
	{"repeated objects", members(func(name string, _ int) string { return quote(name) + `:{}` })},
	{"repeated null", members(func(name string, _ int) string { return quote(name) + `:null` })},
	{"repeated texts", members(func(name string, i int) string { return quote(name) + fmt.Sprintf(`:"%x"`, i) })},
	{"repeated in turns", members(func(name string, i int) string {
		return [...]string{quote(name), `"x"`}[i%2] + `:{"` + name + `":1}`
	})},
	{"repeated, escaped", members(func(name string, _ int) string { return `"` + escape(name) + `":1` })},
	{"repeated, with spaces", members(func(name string, _ int) string { return "\n  " + quote(name) + " : 1 " })},
	{"different", members(func(_ string, i int) string { return fmt.Sprintf(`"%x":1`, i) })},
	{"different objects", members(func(name string, i int) string { return fmt.Sprintf(`"%x":{"%s":1}`, i, name) })},
	{"longer and longer", members(func(name string, i int) string { return quote(name+strings.Repeat("_", i%512)) + `:1` })},
	{"alike", members(func(name string, i int) string { return quote(name+fmt.Sprintf(`\u0000%d`, i)) + `:1` })},
	{"alike in case", members(func(name string, i int) string { return quote(cased(name, i)) + `:1` })},
	{"nested", nested(`{%q:`, `}`)},
	{"nested after others", nested(`{"x":1,%q:`, `}`)},
	{"nested arrays", nested(`[`, `]`)},
	{"nested arrays of objects", nested(`[{%q:1},`, `]`)},
	{"not closed", func(size int, name string) []byte {
		return bytes.Repeat([]byte(`{`+quote(name)+`:[`), 1+size/(len(name)+5))
	}},
	{"elements", func(size int, name string) []byte { return list(size, `{`+quote(name)+`:1}`) }},
	{"empty elements", func(size int, _ string) []byte { return list(size, `{}`) }},
	{"numbers", func(size int, _ string) []byte { return list(size, `1e9`) }},
	{"long text", one(`"`, `x`, `"`)},
	{"long text of escapes", one(`"`, `\u00e9\n`, `"`)},
	{"long text of halves", one(`"`, `\ud800`, `"`)},
	{"long text of pairs", one(`"`, `\ud83d\ude00`, `"`)},
	{"long text of backslashes", one(`"`, `\\`, `"`)},
	{"long text of bytes that are not UTF-8", one(`"`, "\xff", `"`)},
	{"long number", one(`1`, `0`, ``)},
	{"long fraction", one(`0.`, `3`, ``)},
	{"long exponent", one(`1e`, `9`, ``)},
	{"spaces", one(``, " \n", `null`)},
	{"a long name", func(size int, name string) []byte {
		return []byte(`{"` + name + strings.Repeat("x", size) + `":1,"` + name + `":1}`)
	}},
	{"a long name of escapes", func(size int, name string) []byte {
		return []byte(`{"` + name + strings.Repeat(`\u0061`, size/6) + `":1,"` + name + `":1}`)
	}},
	{"lines", one(``, "\n", ``)},
}

func quote(name string) string { return `"` + name + `"` }

// escape writes the letters of a name as escapes.
func escape(name string) string {
	var b strings.Builder
	for _, c := range name {
		fmt.Fprintf(&b, `\u%04x`, c)
	}
	return b.String()
}

// cased returns a name with letters in upper case, as the bits of i say.
func cased(name string, i int) string {
	b := []byte(name)
	for at := range b {
		if i>>(at%16)&1 == 1 {
			b[at] = bytes.ToUpper(b[at : at+1])[0]
		}
	}
	return string(b)
}

// members makes an object.
func members(member func(name string, i int) string) func(size int, name string) []byte {
	return func(size int, name string) []byte {
		b := []byte{'{'}
		for i := 0; len(b) < size; i++ {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, member(name, i)...)
		}
		return append(b, '}')
	}
}

// nested makes a value inside other values.
func nested(open, end string) func(size int, name string) []byte {
	return func(size int, name string) []byte {
		before := strings.ReplaceAll(open, "%q", quote(name))
		depth := 1 + size/(len(before)+len(end))
		return []byte(strings.Repeat(before, depth) + "1" + strings.Repeat(end, depth))
	}
}

func list(size int, element string) []byte {
	return []byte("[" + strings.Repeat(element+",", size/(len(element)+1)) + element + "]")
}

func one(before, part, after string) func(size int, name string) []byte {
	return func(size int, _ string) []byte {
		return []byte(before + strings.Repeat(part, 1+size/len(part)) + after)
	}
}
