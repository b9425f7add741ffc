package pins

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

const sumTool = `{"name":"get-sum","description":"adds","inputSchema":{"type":"object",
	"properties":{"a":{"type":"number"},"mode":{"enum":["x","y",1,"1"]}},"required":["a"]},"annotations":{"readOnlyHint":true}}`

func locked(t *testing.T, lists Lists) *Lock {
	t.Helper()
	l := New()
	if err := l.Set("everything", lists); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCompare(t *testing.T) {
	tests := []struct {
		name     string
		was, now string
		want     []string
	}{
		{"same", sumTool, sumTool, nil},
		{"order of sets and members", sumTool,
			`{"inputSchema":{"required":["a"],"properties":{"mode":{"enum":["1",1,"y","x"]},"a":{"type":"number"}},"type":"object"},
			"annotations":{"readOnlyHint":true},"description":"adds","name":"get-sum"}`, nil},
		{"gone", sumTool, ``, []string{`tool "get-sum" is gone`}},
		{"new", ``, sumTool, []string{`tool "get-sum" is new`}},
		{"type", sumTool, strings.Replace(sumTool, `"number"`, `"string"`, 1),
			[]string{`tool "get-sum": inputSchema: property "a": type changed from "number" to "string"`}},
		{"type to several", sumTool, strings.Replace(sumTool, `"number"`, `["number","null"]`, 1),
			[]string{`tool "get-sum": inputSchema: property "a": type changed from "number" to ["number","null"]`}},
		{"property came and is required", sumTool,
			strings.NewReplacer(`"properties":{`, `"properties":{"b: c":{"type":"null"},`, `["a"]`, `["b: c","a"]`).Replace(sumTool),
			[]string{
				`tool "get-sum": inputSchema: property "b: c" was added: {"type":"null"}`,
				`tool "get-sum": inputSchema: property "b: c" is now required`,
			}},
		{"property went", sumTool, strings.NewReplacer(`"a":{"type":"number"},`, ``, `["a"]`, `[]`).Replace(sumTool),
			[]string{
				`tool "get-sum": inputSchema: property "a" was removed (it was {"type":"number"})`,
				`tool "get-sum": inputSchema: property "a" is no longer required`,
			}},
		{"enum", sumTool, strings.Replace(sumTool, `["x","y",1,"1"]`, `["y","z","1"]`, 1),
			[]string{
				`tool "get-sum": inputSchema: property "mode": value 1 is no longer allowed`,
				`tool "get-sum": inputSchema: property "mode": value "x" is no longer allowed`,
				`tool "get-sum": inputSchema: property "mode": value "z" is now allowed`,
			}},
		{"description and annotation", sumTool, strings.NewReplacer(`"adds"`, `"sums"`, `"readOnlyHint":true`, ``).Replace(sumTool),
			[]string{
				`tool "get-sum": annotations.readOnlyHint was removed (it was true)`,
				`tool "get-sum": description changed from "adds" to "sums"`,
			}},
		{"nested", `{"name":"t","inputSchema":{"properties":{"l":{"items":{"properties":{"p":{"type":"string"}}}}}}}`,
			`{"name":"t","inputSchema":{"properties":{"l":{"items":{"properties":{"p":{"type":"null"}}}}}}}`,
			[]string{`tool "t": inputSchema: property "l": items: property "p": type changed from "string" to "null"`}},
		{"schema came", `{"name":"t"}`, `{"name":"t","outputSchema":{}}`, []string{`tool "t": outputSchema was added: {}`}},
		{"number written otherwise", `{"name":"t","x":1}`, `{"name":"t","x":1.0}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := locked(t, Lists{wire.Tools: []byte("[" + tt.was + "]")})
			changes, err := l.Compare("everything", Lists{wire.Tools: []byte("[" + tt.now + "]")})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range changes {
				got = append(got, c.String())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestCompareSurfaces(t *testing.T) {
	l := locked(t, Lists{
		wire.Prompts:   []byte(`[{"name":"p","arguments":[{"name":"a"},{"name":"b","required":true}]}]`),
		wire.Resources: []byte(`[{"uri":"x://1","name":"one"}]`),
		wire.Templates: []byte(`[{"uriTemplate":"x://{id}","name":"t"}]`),
	})
	changes, err := l.Compare("everything", Lists{
		wire.Prompts:   []byte(`[{"name":"p","arguments":[{"name":"b","required":false},{"name":"c"}]}]`),
		wire.Templates: []byte(`[]`),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`resource template "x://{id}" is gone $`,
		`prompt "p": argument "a" was removed (it was {"name":"a"}) $.arguments.a`,
		`prompt "p": argument "b": required changed from true to false $.arguments.b.required`,
		`prompt "p": argument "c" was added: {"name":"c"} $.arguments.c`,
	}
	var got []string
	for _, c := range changes {
		got = append(got, c.String()+" "+c.Path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	changes, err = l.Compare("unknown", Lists{wire.Tools: []byte("[" + sumTool + "]")})
	if err != nil || len(changes) != 1 || changes[0].Kind != Added || changes[0].Server != "unknown" {
		t.Errorf("server not locked: %v, %v", changes, err)
	}
}

func TestListErrors(t *testing.T) {
	for _, raw := range []string{``, `{}`, `[1]`, `[{"title":"x"}]`, `[{"name":1}]`, `[{"name":"a"},{"name":"a"}]`, `[}`} {
		l := locked(t, Lists{wire.Tools: []byte("[" + sumTool + "]")})
		var listErr *ListError
		if err := l.Set("everything", Lists{wire.Tools: []byte(raw)}); !errors.As(err, &listErr) {
			t.Errorf("Set(%s) = %v", raw, err)
		}
		if _, err := l.Compare("everything", Lists{wire.Tools: []byte(raw)}); !errors.As(err, &listErr) {
			t.Errorf("Compare(%s) = %v", raw, err)
		}
		if changes, err := l.Compare("everything", Lists{wire.Tools: []byte("[" + sumTool + "]")}); err != nil || changes != nil {
			t.Errorf("after a failed Set(%s): %v, %v", raw, changes, err)
		}
	}
	if err := New().Set("s", Lists{"toys": []byte(`[]`)}); err == nil {
		t.Error("an unknown surface was taken")
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "smoke.lock.json")
	l := locked(t, Lists{
		wire.Tools:   []byte("[" + sumTool + `,{"name":"<b>","n":12345678901234567890123,"e":1e999}]`),
		wire.Prompts: []byte(`[]`),
	})
	if err := l.Set("other", Lists{wire.Resources: []byte(`[{"uri":"x://1"}]`)}); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(regular.Place{Name: path}); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(t.Context(), regular.Place{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	if !read.Has("everything") || !read.Has("other") || read.Has("third") {
		t.Error("servers got lost or came")
	}
	changes, err := read.Compare("everything", Lists{wire.Tools: []byte(`[{"e":1e999,"name":"<b>","n":12345678901234567890123},` + sumTool + "]"), wire.Prompts: []byte(`[]`)})
	if err != nil || changes != nil {
		t.Errorf("what was written differs from what is read: %v, %v", changes, err)
	}
	// Replacing the file gives the same bytes, and leaves no other file.
	if err := read.Write(regular.Place{Name: path}); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("%v: another file:\n%s\n%s", err, first, second)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v in the directory (%v)", entries, err)
	}
	want := `"<b>": {
          "sha256": "` // no \u003c, indented
	if !strings.Contains(string(first), want) {
		t.Errorf("the file is\n%s", first)
	}
	// Set replaces only the surfaces that it is given.
	if err := read.Set("everything", Lists{wire.Prompts: []byte(`[{"name":"p"}]`)}); err != nil {
		t.Fatal(err)
	}
	changes, err = read.Compare("everything", Lists{wire.Tools: []byte("[" + sumTool + "]")})
	if err != nil || fmt.Sprint(changes) != `[tool "<b>" is gone]` {
		t.Errorf("after Set of prompts: %v, %v", changes, err)
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock.json")
	if _, err := Read(t.Context(), regular.Place{Name: path}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := New().Write(regular.Place{Name: filepath.Join(dir, "none", "lock.json")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if err := locked(t, Lists{wire.Tools: []byte("[" + sumTool + "]")}).Write(regular.Place{Name: path}); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(was, is string) string { return strings.Replace(string(good), was, is, 1) }
	for name, text := range map[string]string{
		"empty": "", "no JSON": "<<<<<<< HEAD", "version": edit(`"version": 2`, `"version": 3`),
		"edited": edit(`"number"`, `"string"`), "surface": edit(`"tools"`, `"toys"`), "no definition": edit(`"definition"`, `"x"`),
	} {
		if text == string(good) {
			t.Fatalf("%s: nothing edited", name)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var fileErr *FileError
		if _, err := Read(t.Context(), regular.Place{Name: path}); !errors.As(err, &fileErr) || fileErr.Path != path {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzCompare checks that comparing never panics, that a list equals itself, also after it
// was written and read, and that every change has a description.
func FuzzCompare(f *testing.F) {
	f.Add([]byte(`[`+sumTool+`]`), []byte(`[{"name":"get-sum","inputSchema":{"required":[1,"1",null],"enum":[[]]}}]`))
	f.Add([]byte(`[{"name":"p","arguments":[{"name":"a"},{"name":"a"}]}]`), []byte(`[{"name":"p","arguments":{"name":1}}]`))
	f.Add([]byte(`[{"name":"","properties":{"":{"items":{"":[]}}}}]`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, was, now []byte) {
		l := New()
		if l.Set("s", Lists{wire.Tools: was}) != nil {
			return
		}
		changes, _ := l.Compare("s", Lists{wire.Tools: now})
		for _, c := range changes {
			if c.Kind == "" || len(c.String()) < len(c.Name) {
				t.Errorf("%+v: %s", c, c)
			}
		}
		raw, err := l.Encode()
		if err != nil {
			return // nested too deep to be written
		}
		again, err := decode(raw)
		if err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		if changes, err := again.Compare("s", Lists{wire.Tools: was}); err != nil || changes != nil {
			t.Errorf("%q differs from itself: %v, %v", was, changes, err)
		}
	})
}

// FuzzDecode checks that what is read of a file is written so that it reads the same, and
// that comparing it with anything does not panic.
func FuzzDecode(f *testing.F) {
	l := New()
	if err := l.Set("a", Lists{wire.Tools: []byte("[" + sumTool + "]"), wire.Prompts: []byte(`[]`)}); err != nil {
		f.Fatal(err)
	}
	l.SetAbout("a", []byte(`{"serverInfo":{"name":"n"},"instructions":"do"}`))
	raw, err := l.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, []byte(`{"name":"get-sum"}`))
	f.Add([]byte(`{"version":1,"servers":{"a":{"tools":{"x":{"sha256":"0","definition":{}}}}}}`), []byte(`{"name":"x"}`))
	f.Add([]byte(`{"version":2,"servers":{"a":{"resourceTemplates":{},"server":{"sha256":"","definition":1}}}}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, raw, item []byte) {
		l, err := decode(raw)
		if err != nil {
			return
		}
		first, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(first)
		if err != nil {
			t.Fatalf("%v in %s", err, first)
		}
		if second, err := again.Encode(); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%v\n%s\n%s", err, first, second)
		}
		for _, server := range append(l.Servers(), "other") {
			offer := Offer{Handshake: item, Lists: map[wire.Surface][][]byte{wire.Tools: {item}, wire.Prompts: nil}}
			status := Inspect(l, Settings{}, server, offer)
			for _, f := range status.Findings {
				if f.Text() == "" || f.Error() == "" || f.Remedy() == "" || f.Reason != Unpinnable && f.Diff() == "" {
					t.Errorf("%+v has no text", f)
				}
			}
			Record(l, server, offer)
			Accept(l, Settings{}, status.Findings)
			for _, f := range Inspect(l, Settings{}, server, offer).Findings {
				if f.Reason != Unpinnable {
					t.Errorf("not accepted: %s", f.Text())
				}
			}
		}
	})
}

// TestDiffShowsEveryChange checks that people see what has changed, whatever a server puts
// into a definition: the lines before and after differ in characters that they can see.
func TestDiffShowsEveryChange(t *testing.T) {
	for _, c := range []struct{ was, is, want string }{
		{`1.0`, `1`, "-x: 1.0\n+x: 1\n"},
		{`"a b"`, `"a\u00a0b"`, "-x: \"a b\"\n+x: \"a\\u00a0b\"\n"},
		{`"\u00e9"`, `"e\u0301"`, "-x: \"é\"\n+x: \"e\\u0301\"\n"},
		{`"a"`, `"a\u200b"`, "-x: \"a\"\n+x: \"a\\u200b\"\n"},
		{`"a\nb"`, `"a\r\nb"`, "-  | a\n+  \"a\\r\"\n"},
		{`"a\nb"`, `"a \n\tb"`, "-  | a\n-  | b\n+  \"a \"\n+  \"\\tb\"\n"},
		{`"a\nb"`, `"a\n\u001b[2Jb\u202e"`, "-  | b\n+  \"\\x1b[2Jb\\u202e\"\n"},
		{`"a\n\"b\\r\""`, `"a\nb\r"`, "-  | \"b\\r\"\n+  \"b\\r\"\n"},
		{`["a"]`, `["a\u00a0"]`, "-x: [\"a\"]\n+x:\n+  - \"a\\u00a0\"\n"},
		{`{"a":1}`, `{"a\u200b":1}`, "-  a: 1\n+  \"a\\u200b\": 1\n"},
		{`null`, `"null"`, "-x: null\n+x: \"null\"\n"},
	} {
		l := locked(t, Lists{wire.Tools: []byte(`[{"name":"a","x":` + c.was + `}]`)})
		raw := []byte(`{"name":"a","x":` + c.is + `}`)
		offer := Offer{Lists: map[wire.Surface][][]byte{wire.Tools: {raw}}}
		found := Inspect(l, Settings{}, "everything", offer).Findings
		if len(found) != 1 {
			t.Fatalf("%s and %s: %d findings", c.was, c.is, len(found))
		}
		var changed strings.Builder
		for line := range strings.Lines(found[0].Diff()) {
			if strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "---") || strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "+++") {
				changed.WriteString(line)
			}
		}
		if changed.String() != c.want {
			t.Errorf("%s and %s:\n got %q\nwant %q", c.was, c.is, changed.String(), c.want)
		}
	}
}

// TestTextsOfFindings checks texts in which names that servers have chosen stand.
func TestTextsOfFindings(t *testing.T) {
	for name, want := range map[string]string{
		"plain.x":        "mcp-metatool pins accept s.plain.x",
		"x; curl a | sh": "mcp-metatool pins accept 's.x; curl a | sh'",
		"x\n$(y)":        "look at it with mcp-metatool pins diff s",
		"x\u202ey":       "look at it with mcp-metatool pins diff s",
	} {
		f := &Finding{Item: Item{"s", wire.Tools, name}, Reason: Unknown}
		if f.Remedy() != want || strings.Contains(f.Error(), "s.x;") && !strings.Contains(f.Error(), "'s.x;") || strings.Contains(f.Error(), "\n") {
			t.Errorf("%q: %s; %s", name, f.Remedy(), f.Error())
		}
	}
	f := &Finding{Item: Item{"s", wire.Tools, "x"}, Reason: Differs, was: []byte(`{"inputSchema":{"required":["x","y"]}}`)}
	f.is = []byte(`{"inputSchema":{"required":["x","y","y"]}}`)
	if text := f.Text(); !strings.Contains(text, `required.2 was added: "y"`) {
		t.Error(text)
	}
	f.is = []byte(`{"inputSchema":{"required":["x","y"]},"a\nserver b: fine":1}`)
	if text := f.Text(); strings.Contains(text, "\n") {
		t.Error(text)
	}
}
