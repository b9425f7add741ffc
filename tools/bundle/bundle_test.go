package bundle

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools"
)

func tool(t testing.TB, name, code string) Tool {
	t.Helper()
	d := tools.Definition{Name: name, Description: "does " + name, InputSchema: []byte(`{"type":"object"}`), Code: code}
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	return Tool{Definition: d}
}

func rich(t testing.TB) Tool {
	t.Helper()
	d := tools.Definition{
		Name:         "rich-1_A",
		Description:  "two\nlines with 'quotes', \"quotes\" and \\",
		InputSchema:  []byte(`{"type":"object","z":1.0,"a":12345678901234567890,"e":1E+2,"text":"é\u00e9\/` + "\u202e" + `","properties":{"b":{},"a":{"minimum":-0.0}}}`),
		OutputSchema: []byte(`{}`),
		Extra:        []tools.Member{{Name: "later", Value: []byte(`[1.50,{"b":1,"a":2}]`)}, {Name: "x\"y", Value: []byte(`null`)}},
		Code:         "x = '''a'''\r\n\ty = \"\"\"b\"\"\"\n# \u202e trojan \\\n\nreturn x",
	}
	var err error
	if d.Limits, err = tools.ParseLimits([]byte(`{"memory":"64MB","later":1.0,"calls":3}`)); err != nil {
		t.Fatal(err)
	}
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	return Tool{d, []File{
		{"rich-1_A.cassette.toml", "a = 1"}, {"rich-1_A.second.cassette.toml", "'''"}, {"rich-1_A.toml", "[[check]]\nname = \"x\"\n"},
	}}
}

// plain returns a tool without its cached compiled schemas.
func plain(t Tool) Tool {
	d := t.Definition
	t.Definition = tools.Definition{
		Name: d.Name, Description: d.Description, InputSchema: d.InputSchema, OutputSchema: d.OutputSchema,
		Limits: d.Limits, Code: d.Code, Extra: d.Extra,
	}
	if len(t.Files) == 0 {
		t.Files = nil
	}
	return t
}

func expectSame(t testing.TB, got, want []Tool) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d tools, want %d", len(got), len(want))
	}
	for i := range want {
		if g, w := plain(got[i]), plain(want[i]); !reflect.DeepEqual(g, w) {
			t.Errorf("got  %+v\nwant %+v", g, w)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	list := []Tool{tool(t, "a", "return 1\n"), tool(t, "b", "'"), rich(t), tool(t, "z", "\n\n'''\x00\x7f\U000E0001\"\"\"\"")}
	text, err := Text(list)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(text, "x.toml")
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	expectSame(t, got, list)

	dir := filepath.Join(t.TempDir(), "new", "export")
	for range 2 { // the second time the files exist already
		if err := WriteFolder(dir, list); err != nil {
			t.Fatal(err)
		}
	}
	if got, err = Read(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	expectSame(t, got, list)
	if got, err = Read(t.Context(), filepath.Join(dir, "rich-1_A.toml")); err != nil {
		t.Fatal(err)
	}
	expectSame(t, got, list[2:3])
	if script, err := os.ReadFile(filepath.Join(dir, "rich-1_A.star")); err != nil || string(script) != list[2].Code {
		t.Errorf("script %q, %v", script, err)
	}

	file := filepath.Join(dir, "all.txt")
	if err := WriteText(file, text); err != nil {
		t.Fatal(err)
	}
	if got, err = Read(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	expectSame(t, got, list)
}

func TestText(t *testing.T) {
	greet := tool(t, "greet", "who = params.get(\"name\")\nreturn \"hello \" + who\n")
	greet.Files = []File{{"greet.toml", "[[check]]\n"}}
	text, err := Text([]Tool{greet})
	const want = heading + `format = "mcp-metatool tools 1"

[tool.greet]
description = "does greet"
inputSchema = '''
{
  "type": "object"
}
'''
code = '''
who = params.get("name")
return "hello " + who
'''

[tool.greet.files]
"greet.toml" = '''
[[check]]
'''
`
	if string(text) != want || err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	trojan := rich(t)
	seen, err := Review(&trojan.Definition)
	if err != nil || strings.ContainsRune(string(seen), '\u202e') || !strings.Contains(string(seen), `\u202E trojan \\`) {
		t.Errorf("%v\n%s", err, seen)
	}
}

func TestTextIsBounded(t *testing.T) {
	large := tool(t, "a", "1")
	large.Files = []File{{"a.cassette.toml", strings.Repeat("x", MaxBytes)}}
	if _, err := Text([]Tool{large}); err == nil || !strings.Contains(err.Error(), "export to a directory") {
		t.Errorf("%v", err)
	}
	large.Files[0].Content = "\xff"
	if _, err := Text([]Tool{large}); err == nil || !strings.Contains(err.Error(), "not valid UTF-8") {
		t.Errorf("%v", err)
	}
}

func TestReadStoredFile(t *testing.T) {
	want := rich(t)
	want.Files = nil
	data, err := want.File()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "other name.json", string(data))
	got, err := Read(t.Context(), filepath.Join(dir, "other name.json"))
	if err != nil {
		t.Fatal(err)
	}
	expectSame(t, got, []Tool{want})
	write(t, dir, "bad.json", `{"version":"1.0","name":"../x","code":"1"}`)
	var bad *Error
	if _, err := Read(t.Context(), filepath.Join(dir, "bad.json")); !errors.As(err, &bad) || !strings.Contains(err.Error(), `bad.json: tool name "../x"`) {
		t.Errorf("%v", err)
	}
}

// TestReadScript checks that the error for an imported script names the missing part.
func TestReadScript(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.star", "return 1\n")
	var bad *Error
	if _, err := Read(t.Context(), filepath.Join(dir, "a.star")); !errors.As(err, &bad) || !strings.Contains(err.Error(), "code_file") {
		t.Errorf("%v", err)
	}
}

func TestOwns(t *testing.T) {
	for file, want := range map[string]bool{
		"a.toml": true, "a.cassette.toml": true, "a.x.cassette.toml": true, "a.x.y-2.cassette.toml": true,
		"a.lock.toml": true, "a.x.lock.toml": true, "a-.cassette.toml": false, "a..lock.toml": false,
		"ab.toml": false, "ab.cassette.toml": false, "a.x.toml": false, "a": false, "a.": false, "a..cassette.toml": false,
		"a.x/../../y.cassette.toml": false, `a.x\y.cassette.toml`: false, "../a.toml": false, "a.\x00.cassette.toml": false,
		"a." + strings.Repeat("x", 300) + ".cassette.toml": false, ".toml": false, "A.toml": false,
	} {
		if Owns("a", file) != want {
			t.Errorf("%q: %v", file, !want)
		}
	}
}

func write(t testing.TB, dir, file, content string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFileStore(t *testing.T) {
	dir := t.TempDir()
	s := NewFileStore(dir)
	if files, err := s.Files("a"); files != nil || err != nil {
		t.Errorf("nothing there: %v, %v", files, err)
	}
	if files, err := NewFileStore(filepath.Join(dir, "none")).Files("a"); files != nil || err != nil {
		t.Errorf("not even the folder: %v, %v", files, err)
	}
	want := []File{{"a.cassette.toml", "2"}, {"a.toml", "1"}}
	if err := s.Put(want); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "smoke/ab.toml", "x")
	write(t, dir, "smoke/README.md", "x")
	if files, err := s.Files("a"); err != nil || !reflect.DeepEqual(files, want) {
		t.Errorf("%v, %v", files, err)
	}
	if err := s.Put([]File{{"../x", "y"}}); err == nil {
		t.Error("wrote outside")
	}
	outside, linked := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(linked, FilesDir)); err == nil {
		if err := NewFileStore(linked).Put(want); err == nil {
			t.Error("followed a link out")
		}
	}
	write(t, dir, "smoke/a.b.cassette.toml", "\xff")
	if _, err := s.Files("a"); err == nil || !strings.Contains(err.Error(), "smoke/a.b.cassette.toml: cannot be used: it is not valid UTF-8") {
		t.Errorf("%v", err)
	}
}
