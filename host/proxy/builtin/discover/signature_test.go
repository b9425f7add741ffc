package discover

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/tools"
)

var update = flag.Bool("update", false, "update the expectations in testdata")

// TestDescribe describes the functions in testdata/signatures. The files of an archive are
//
//	call            the function as scripts write it
//	input, output   its schemas; output is optional
//	want            signature, notes, conditions and example
func TestDescribe(t *testing.T) {
	for _, file := range signatureFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(function(archive))
			last := len(archive.Files) - 1
			if *update {
				if archive.Files[last].Name == "want" {
					archive.Files = archive.Files[:last]
				}
				archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(archive.Files[last].Data); archive.Files[last].Name != "want" || got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func signatureFiles(t testing.TB) []string {
	files, err := filepath.Glob("testdata/signatures/*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d archives, %v", len(files), err)
	}
	return files
}

func function(archive *txtar.Archive) Function {
	in := map[string][]byte{}
	for _, f := range archive.Files {
		in[f.Name] = bytes.TrimSpace(f.Data)
	}
	return Function{Call: string(in["call"]), Input: in["input"], Output: in["output"]}
}

// describe formats a description, and says whether its example matches the schema.
func describe(f Function) string {
	d := Describe(f)
	var b strings.Builder
	b.WriteString(d.Signature + "\n")
	for _, line := range d.Arguments {
		b.WriteString("# " + line + "\n")
	}
	for _, line := range d.Conditions {
		b.WriteString("! " + line + "\n")
	}
	verdict := "matches"
	if schema, err := tools.CompileSchema(f.Input, "input"); err != nil {
		verdict = "cannot be checked"
	} else if err := schema.Validate(d.ExampleArguments, nil); err != nil {
		verdict = "does not match"
	}
	b.WriteString("example, " + verdict + ":\n" + d.Example + "\n" + string(d.ExampleArguments) + "\n")
	return b.String()
}

// TestDescriptionIsBounded describes schemas that become very large when expanded.
func TestDescriptionIsBounded(t *testing.T) {
	doubling := `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`
	for i := range 60 {
		n, m := string(rune('0'+i/10))+string(rune('0'+i%10)), string(rune('0'+(i+1)/10))+string(rune('0'+(i+1)%10))
		doubling += `"d` + n + `":{"anyOf":[{"$ref":"#/$defs/d` + m + `"},{"type":"array","items":{"$ref":"#/$defs/d` + m + `"}}]},`
	}
	doubling = strings.Replace(doubling, "#/$defs/d0\"", "#/$defs/d00\"", 1) + `"d60":{"type":"string"}}}`
	for name, schema := range map[string]string{
		"references that double": doubling,
		"choices that multiply":  `{"type":"object","allOf":[` + strings.Repeat(`{"oneOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"integer"}}}]},`, 40) + `{}]}`,
		"nested choices":         `{"properties":{"a":` + strings.Repeat(`{"anyOf":[{"type":"null"},{"properties":{"a":{"type":"string"}},"oneOf":[true,`, 20) + "true" + strings.Repeat("]}]}", 20) + `}}`,
		"long names":             `{"properties":{"` + strings.Repeat("x", 50000) + `":{"type":"string","description":"` + strings.Repeat("y ", 30000) + `"}}}`,
		"many names":             `{"properties":{` + strings.Repeat(`"`+strings.Repeat("z", 70)+`":{"enum":["a"]},`, 1) + manyNames(2000) + `}}`,
		"many literals":          `{"properties":{"a":{"enum":[` + strings.Repeat(`"value",`, 20000) + `1]}}}`,
		"much required":          `{"required":[` + strings.Repeat(`"b",`, 20000) + `"a"]}`,
		"nested":                 strings.Repeat(`{"properties":{"a":`, 3000) + "true" + strings.Repeat("}}", 3000),
		"long minimum":           `{"properties":{"a":{"type":"integer","minLength":499,"minimum":1e999999999}},"required":["a"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			checkBounds(t, Describe(Function{"server.tool", []byte(schema), []byte(schema)}))
		})
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"name` + strings.Repeat("abcdefghij"[i%10:i%10+1], 1+i/10%40) + string(rune('a'+i%26)) + `":{"type":"object","properties":{"k":{"type":"string"}}}`)
	}
	return b.String()
}

// checkBounds checks the limits of a description.
func checkBounds(t *testing.T, d Description) {
	t.Helper()
	if n := len(d.Signature); n > 3*(inputRoom+outputRoom) {
		t.Errorf("the signature has %d bytes", n)
	}
	if n := len(strings.Join(d.Arguments, "\n")); n > notesRoom+1000 || len(d.Arguments) > maxNotes {
		t.Errorf("the notes have %d bytes in %d lines", n, len(d.Arguments))
	}
	if n := len(strings.Join(d.Conditions, "\n")); n > maxConditions*maxForms*2*maxForm {
		t.Errorf("the conditions have %d bytes", n)
	}
	if n := len(d.Example) + len(d.ExampleArguments); n > 4*maxExample {
		t.Errorf("the example has %d bytes", n)
	}
	for _, s := range append(append([]string{d.Signature, d.Example}, d.Arguments...), d.Conditions...) {
		if !utf8.ValidString(s) {
			t.Errorf("no UTF-8: %q", s)
		}
	}
	if n, err := parse(d.ExampleArguments); err != nil || n.kind != '{' {
		t.Errorf("the example's arguments are %q", d.ExampleArguments)
	}
}

func FuzzDescribe(f *testing.F) {
	for _, file := range signatureFiles(f) {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		in := function(archive)
		f.Add([]byte(in.Input), []byte(in.Output))
	}
	f.Fuzz(func(t *testing.T, input, output []byte) {
		d := Describe(Function{"server.tool", input, output})
		checkBounds(t, d)
		if again := Describe(Function{"server.tool", input, output}); again.Signature != d.Signature || again.Example != d.Example {
			t.Error("the same schemas were described in two ways")
		}
	})
}

func BenchmarkDescribe(b *testing.B) {
	for _, name := range []string{"github_search", "recursive_pair", "wide"} {
		archive, err := txtar.ParseFile("testdata/signatures/" + name + ".txtar")
		if err != nil {
			b.Fatal(err)
		}
		f := function(archive)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Describe(f)
			}
		})
	}
}
