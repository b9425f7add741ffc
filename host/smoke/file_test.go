package smoke

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
)

// fuzzSecret is the value of variables whose names look secret.
const fuzzSecret = "S3CRET~VALUE~0123456789"

// isolated returns options that find no configuration outside of dir.
func isolated(dir string) LoadOptions {
	return LoadOptions{Load: config.LoadOptions{
		Getenv: func(name string) (string, bool) {
			if strings.Contains(name, "TOKEN") {
				return fuzzSecret, true
			}
			return "", false
		},
		Home: func() (string, error) { return dir, nil },
	}}
}

// FuzzParse parses hostile files. It checks that the result is consistent, and that errors
// reveal no secret.
func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			if strings.HasSuffix(file.Name, ".toml") {
				f.Add(file.Data)
			}
		}
	}
	f.Add([]byte("[[check]]\ncall = \"${TOKEN}\"\nparams = { a = \"${TOKEN}\" }\nexpect.text = \"/${TOKEN}(/\"\nexpect.result = \"${TOKEN}\"\n"))
	f.Add([]byte("check = [{ code = \"\"\"\n\"\"\", mock = [{ tool = \"a.b\", returns_json = \"[\" }], expect = { image = { mime = 1 } } }]\n"))
	f.Add([]byte("[[check]]\nserver = \"a\"\nexpect.schema_lock = \"${TOKEN}\"\n[upstream.a]\nurl = \"${UNSET}\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), fuzzSecret) || strings.Contains(string(data), "schema =") {
			t.Skip() // the secret is in the file itself; schemas may name any file
		}
		file, err := Parse("checks.toml", data, isolated(t.TempDir()))
		if err != nil {
			var problem *config.Problem
			if !errors.As(err, &problem) {
				t.Errorf("the error is no problem: %v", err)
			}
			if strings.Contains(err.Error(), fuzzSecret) {
				t.Errorf("the secret is shown: %v", err)
			}
			return
		}
		for _, c := range file.Checks {
			checkCheck(t, data, c)
		}
	})
}

// checkCheck checks that a Check is as its type says.
func checkCheck(t *testing.T, data []byte, c *Check) {
	if c.Name == "" || c.Server == "" && c.Call == "" && c.Code.none() || c.Server != "" && (c.Call != "" || !c.Code.none()) {
		t.Errorf("no check: %+v", c)
	}
	if !json.Valid(c.Params) || c.Meta != nil && !json.Valid(c.Meta) {
		t.Errorf("check %q: params %s, meta %s", c.Name, c.Params, c.Meta)
	}
	for _, w := range c.wants {
		w.match(&answer{result: []byte(`{}`), handshake: []byte(`{}`)}) // must not panic
		if w.written.From < 0 || w.written.To < w.written.From || w.written.To > len(data) {
			t.Errorf("check %q: %s is at %+v of %d bytes", c.Name, w.key, w.written, len(data))
		}
	}
}

// FuzzTOMLValue writes JSON as TOML and reads it again.
func FuzzTOMLValue(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,-0,"x\n\u0007${y}\"\\"],"":{"b c":true},"é":{}}`, `[[]]`, `"a\nb\nc"`, `1e5`, `-1E-7`, `9007199254740993`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			t.Skip()
		}
		text, err := tomlValue(raw)
		var cannot *updateError
		if errors.As(err, &cannot) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		file := "[[check]]\ncall = \"x\"\nexpect.result = " + text + "\n"
		read, err := Parse("checks.toml", []byte(file), isolated(t.TempDir()))
		if err != nil {
			var v any
			if _, wrong := toml.Decode(file, &v); wrong == nil && json.Unmarshal(raw, &v) == nil && hasNumberOutOfRange(raw) {
				return
			}
			t.Fatalf("%s became %s, which cannot be read: %v", raw, text, err)
		}
		value := []byte(`{"structuredContent":` + string(raw) + `}`)
		if string(raw) == "null" || raw[0] == '"' {
			return
		}
		if m := read.Checks[0].wants[0].match(&answer{result: value}); m != nil {
			t.Errorf("%s became %s, which is something else: %v", raw, text, m)
		}
	})
}

// hasNumberOutOfRange reports whether there may be a number that TOML's floats cannot
// represent.
func hasNumberOutOfRange(raw []byte) bool { return strings.ContainsAny(string(raw), "eE") }

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.toml", "a.toml", "a.cassette.toml", "a.lock.toml", "a.rows.toml", "config.toml", ".c.toml", "d.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Files([]string{dir, filepath.Join(dir, "d.json")})
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if want := []string{"a.toml", "b.toml", "d.json"}; !slices.Equal(files, want) {
		t.Errorf("files are %q, want %q", files, want)
	}
	if _, err := Files([]string{filepath.Join(dir, "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := Files([]string{t.TempDir()}); err == nil {
		t.Error("an empty directory is no error")
	}
}

func TestParseFilter(t *testing.T) {
	for _, tt := range []struct {
		filter, name string
		want         bool
	}{
		{"sum", "a summary", true}, {"sum", "a Sum", false}, {"a b", "xa by", true},
		{"sum*", "summary", true}, {"sum*", "a summary", false}, {"?/*", "a/b/c", true}, {"[ab]*", "bx", true},
		{"/^s.m$/", "sum", true}, {"/^s.m$/", "summary", false}, {"/", "a/b", true},
	} {
		match, err := ParseFilter(tt.filter)
		if err != nil {
			t.Errorf("%q: %v", tt.filter, err)
		} else if match(tt.name) != tt.want {
			t.Errorf("%q matches %q: %v", tt.filter, tt.name, !tt.want)
		}
	}
	for _, wrong := range []string{"/(/", "a[*"} {
		if _, err := ParseFilter(wrong); err == nil {
			t.Errorf("%q is no error", wrong)
		}
	}
}

func TestProject(t *testing.T) {
	for _, tt := range []struct{ want, got, projected string }{
		{`{"a":{"b":1},"c":1}`, `{"x":1,"a":{"b":2,"d":3}}`, `{"a":{"b":2}}`},
		{`{"a":1}`, `[1]`, `[1]`}, {`1`, `{"a":1}`, `{"a":1}`}, {`{"a":[1]}`, `{"a":[{"b":2}]}`, `{"a":[{"b":2}]}`},
	} {
		if got := project([]byte(tt.want), []byte(tt.got)); expect.Equal([]byte(tt.projected), got) != nil {
			t.Errorf("%s of %s is %s, want %s", tt.want, tt.got, got, tt.projected)
		}
	}
}

// TestCeilings checks that an updated limit is a fifth above the actual figure.
func TestCeilings(t *testing.T) {
	text := "[[check]]\ncall = \"x\"\nexpect.max_fuel = 1\nexpect.max_memory = \"1KB\"\n"
	file, err := Parse("checks.toml", []byte(text), isolated(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	a := &answer{result: []byte(`{"_meta":{"io.github.mcp-metatool/receipt":{"fuel":12345678,"memory":6291456}}}`)}
	for i, want := range []string{"14_900_000", `"8MiB"`} {
		w := file.Checks[0].wants[i]
		if w.match(a) == nil {
			t.Errorf("%s is met", w.key)
		}
		if got, err := w.update(a); err != nil || got != want {
			t.Errorf("%s becomes %s (%v), want %s", w.key, got, err, want)
		}
		if _, err := w.update(&answer{result: []byte(`{}`)}); err == nil {
			t.Errorf("%s becomes something without a run", w.key)
		}
	}
}

func TestApply(t *testing.T) {
	edits := []edit{{config.Span{From: 6, To: 7}, "xyz"}, {config.Span{From: 0, To: 1}, ""}}
	if got := string(apply([]byte("012345678"), edits)); got != "12345xyz78" {
		t.Errorf("got %q", got)
	}
}
