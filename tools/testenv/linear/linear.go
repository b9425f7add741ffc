// Package linear checks, in tests, that work grows no faster than the input: not with the square of
// the size, which lets a message of a megabyte cost minutes.
//
// No time is measured. Repeated work allocates repeatedly in nearly all code that reads foreign
// bytes, so the allocations of a function show the work.
package linear

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Size is the size in bytes of the smallest compared input, large enough for the square of a number
// of members to exceed the rest.
const Size = 4 << 10

// work is the work of a function.
type work struct{ bytes, objects uint64 }

// slack is how much work may be done once, whatever the size of the input.
var slack = work{bytes: 1 << 20, objects: 400}

// most is how much more work an input four times as large may need. A doubling buffer may have
// doubled just before the end of the larger input, and sorting takes a little more.
const most = 8

// attempts is how often excessive work is measured again before the test fails: other goroutines of
// the process allocate too, and a pool may lose buffers at any time. Really disproportionate work
// is disproportionate each time.
const attempts = 5

// Check fails the test if do needs disproportionate work for larger inputs. input returns an input
// of about size bytes. The work of do must not depend on earlier calls.
func Check(t testing.TB, input func(size int) []byte, do func(input []byte)) {
	t.Helper()
	inputs := [3][]byte{input(Size), input(2 * Size), input(4 * Size)}
	do(inputs[0]) // work done once
	var problems []string
	for range attempts {
		if problems = disproportions(inputs, do); len(problems) == 0 {
			return
		}
	}
	for _, p := range problems {
		t.Errorf("%s", p)
	}
}

// disproportions measures the work for each input once.
func disproportions(inputs [3][]byte, do func(input []byte)) (problems []string) {
	var done [3]work
	before := now()
	for i, data := range inputs {
		do(data)
		after := now()
		done[i] = work{after.bytes - before.bytes, after.objects - before.objects}
		before = after
	}
	for _, larger := range []int{1, 2} {
		times := uint64(most >> (2 - larger))
		for _, c := range []struct {
			what                string
			small, large, slack uint64
		}{
			{"bytes allocated", done[0].bytes, done[larger].bytes, slack.bytes},
			{"objects allocated", done[0].objects, done[larger].objects, slack.objects},
		} {
			if c.large > times*c.small+c.slack {
				problems = append(problems, fmt.Sprintf("%s: %d for %d bytes of input, %d for %d", c.what, c.small, Size, c.large, Size<<larger))
			}
		}
	}
	return problems
}

// now returns the work of the process so far.
func now() work {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return work{m.TotalAlloc, m.Mallocs}
}

// CheckTable fails the test if an exported function of the package in the folder takes bytes, or a
// reader of bytes, and is neither in the table of functions given to Check nor among the
// exceptions, which say why; or if a listed function is gone. Methods are written Type.Method.
func CheckTable(t testing.TB, folder string, table []string, exceptions map[string]string) {
	t.Helper()
	known := slices.Concat(table, slices.Collect(maps.Keys(exceptions)))
	found := exported(t, folder)
	for _, name := range found {
		if !slices.Contains(known, name) {
			t.Errorf("%s takes bytes, and no test says that it takes linear time", name)
		}
	}
	for _, name := range known {
		if !slices.Contains(found, name) {
			t.Errorf("%s is in the table, but no exported function that takes bytes", name)
		}
	}
}

// exported returns the names of the functions.
func exported(t testing.TB, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || !takesBytes(f.Type) {
				continue
			}
			if name := nameOf(f); ast.IsExported(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if ident, ok := of.(*ast.Ident); ok {
		return ident.Name + "." + f.Name.Name
	}
	return ""
}

func takesBytes(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		of := p.Type
		for {
			list, ok := of.(*ast.ArrayType)
			if !ok {
				break
			}
			of = list.Elt
			if ident, ok := of.(*ast.Ident); ok && ident.Name == "byte" {
				return true
			}
		}
		at, ok := of.(*ast.SelectorExpr)
		return ok && at.Sel.Name == "Reader"
	})
}

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
