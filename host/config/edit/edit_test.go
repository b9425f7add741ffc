package edit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

const tomlText = `# mine
startup_wait = "2s"

# a is good
[upstream.a]
command = "a" # as it is
args = ["x", "${HOME}"]
env = { TOKEN = "plain-secret" }

[upstream.b]
url = "https://b"
`

const jsonText = `{
  "execution": {"timeout": 1000},
  "upstreamServers": [
    {
      "name": "a",
      "command": "a",
      "args": ["x"],
      "env": {"TOKEN": "plain-secret"}
    },
    {"name": "b", "url": "https://b"}
  ]
}
`

const hostText = "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {\"command\": \"a\"}\r\n\t}\r\n}\r\n"

var added = Server{
	Command: "c", Args: []string{"--flag", "${X:-}", Literal("${Y}")}, Env: []Setting{{"B", "1"}, {"A", "2"}}, Disabled: true,
}

func TestFile(t *testing.T) {
	for _, tt := range []struct {
		what, name, text string
		edit             func(f *File) error
		old, new         string
	}{
		{"add", "c.toml", tomlText, func(f *File) error { return f.Put("c", added) }, "https://b\"\n",
			"https://b\"\n\n[upstream.c]\ncommand = \"c\"\nargs = [\"--flag\", \"${X:-}\", \"$${Y}\"]\ndisabled = true\nenv = { B = \"1\", A = \"2\" }\n"},
		{"add to none", "c.toml", "", func(f *File) error {
			return f.Put("c", Server{URL: "https://c", Transport: config.LegacySSE, OAuth: true})
		}, "",
			"[upstream.c]\nurl = \"https://c\"\ntransport = \"sse\"\noauth = {}\n"},
		{"put the same", "c.toml", tomlText, func(f *File) error {
			return f.Put("a", Server{Command: "a", Args: []string{"x", "${HOME}"}, Env: []Setting{{"TOKEN", "plain-secret"}}})
		}, "mine", "mine"},
		{"put another", "c.toml", tomlText, func(f *File) error {
			return f.Put("a", Server{Command: "a", Args: []string{"y"}})
		}, "args = [\"x\", \"${HOME}\"]\nenv = { TOKEN = \"plain-secret\" }\n", "args = [\"y\"]\n"},
		{"disable", "c.toml", tomlText, func(f *File) error { return f.Set("a", "disabled", true) }, "plain-secret\" }\n", "plain-secret\" }\ndisabled = true\n"},
		{"unset", "c.toml", tomlText, func(f *File) error { return f.Unset("a", "args") }, "args = [\"x\", \"${HOME}\"]\n", ""},
		{"remove", "c.toml", tomlText, func(f *File) error { return f.Remove("a") }, tomlText[strings.Index(tomlText, "# a is"):strings.Index(tomlText, "[upstream.b]")], ""},

		{"add", "c.json", jsonText, func(f *File) error { return f.Put("c", added) }, "https://b\"}",
			"https://b\"},\n    {\n      \"name\": \"c\",\n      \"command\": \"c\",\n      \"args\": [\n        \"--flag\",\n        \"${X:-}\",\n        \"$${Y}\"\n      ],\n      \"disabled\": true,\n      \"env\": {\n        \"B\": \"1\",\n        \"A\": \"2\"\n      }\n    }"},
		{"add to none", "c.json", "", func(f *File) error { return f.Put("c", Server{URL: "https://c"}) }, "",
			"{\n  \"upstreamServers\": [\n    {\n      \"name\": \"c\",\n      \"url\": \"https://c\"\n    }\n  ]\n}\n"},
		{"add to those of hosts", "c.json", hostText, func(f *File) error { return f.Put("c", Server{URL: "https://c"}) }, "\"a\"}\r\n",
			"\"a\"},\r\n\t\t\"c\": {\r\n\t\t\t\"url\": \"https://c\"\r\n\t\t}\r\n"},
		{"put the same", "c.json", jsonText, func(f *File) error {
			return f.Put("a", Server{Command: "a", Args: []string{"x"}, Env: []Setting{{"TOKEN", "plain-secret"}}})
		}, "timeout", "timeout"},
		{"put another", "c.json", jsonText, func(f *File) error { return f.Put("b", Server{Command: "b"}) }, `"url": "https://b"`, `"command": "b"`},
		{"disable", "c.json", jsonText, func(f *File) error { return f.Set("a", "disabled", true) }, `secret"}`, "secret\"},\n      \"disabled\": true"},
		{"disable on one line", "c.json", jsonText, func(f *File) error { return f.Set("b", "disabled", true) }, `b"}`, `b", "disabled": true}`},
		{"unset", "c.json", jsonText, func(f *File) error { return f.Unset("a", "args") }, "\"args\": [\"x\"],\n      ", ""},
		{"remove the first", "c.json", jsonText, func(f *File) error { return f.Remove("a") }, jsonText[strings.Index(jsonText, "{\n      \"name\": \"a\""):strings.Index(jsonText, `{"name": "b"`)], ""},
		{"remove the last", "c.json", jsonText, func(f *File) error { return f.Remove("b") }, ",\n    {\"name\": \"b\", \"url\": \"https://b\"}", ""},
		{"remove the only", "c.json", hostText, func(f *File) error { return f.Remove("a") }, "{\r\n\t\t\"a\": {\"command\": \"a\"}\r\n\t}", "{}"},
	} {
		t.Run(tt.name+" "+tt.what, func(t *testing.T) {
			f := New(tt.name, []byte(tt.text))
			want := tt.new
			if tt.old != "" {
				if strings.Count(tt.text, tt.old) != 1 {
					t.Fatalf("%q is not there once", tt.old)
				}
				want = strings.Replace(tt.text, tt.old, tt.new, 1)
			}
			if err := tt.edit(f); err != nil || string(f.Text()) != want {
				t.Fatalf("%v\n%s\nwant\n%s", err, f.Text(), want)
			}
			t.Setenv("X", "x")
			if _, err := f.Parse(config.LoadOptions{}); err != nil {
				t.Error(err)
			}
			if strings.Contains(tt.text, "plain") && f.Masker(config.LoadOptions{}).Mask("plain-secret") != "****" {
				t.Error("the secret is not masked")
			}
			if c := f.Change(); string(c.Before) != tt.text || string(c.After) != want {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, name := range []string{"c.toml", "c.json"} {
		f := New(name, nil)
		for _, err := range []error{f.Remove("x"), f.Set("x", "disabled", true), f.Unset("x", "y")} {
			if !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), name+`: upstream "x": `) {
				t.Error(err)
			}
		}
		if names, err := f.Names(); err != nil || len(names) != 0 {
			t.Error(names, err)
		}
		f = New(name, []byte("{\n\"a\": secret"))
		for _, err := range []error{f.Put("x", added), f.Remove("x")} {
			problem := new(config.Problem)
			if !errors.As(err, &problem) || problem.Line == 0 || strings.Contains(err.Error(), "secret") {
				t.Error(err)
			}
		}
	}
	for name, text := range map[string]string{"c.toml": "[[upstream]]\nname = 'a'\n", "c.json": `{"mcpServers": 1}`} {
		if err := New(name, []byte(text)).Put("a", added); !errors.Is(err, tomldoc.ErrForm) {
			t.Error(err)
		}
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	opts := config.LoadOptions{Getenv: func(name string) (string, bool) {
		return map[string]string{config.EnvDir: dir}[name], name == config.EnvDir
	}}
	open := func() *File {
		t.Helper()
		f, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := open(); f.Exists() || f.Path() != filepath.Join(dir, "config.toml") {
		t.Errorf("%+v", f)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(jsonText), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := open(); !f.Exists() || !f.Has("b") || f.Has("c") {
		t.Errorf("%+v", f)
	}
	opts.Flag = dir
	if _, err := Open(opts); err == nil {
		t.Error("a folder is opened")
	}
	opts.Flag = filepath.Join(dir, "x", "y.toml")
	if f := open(); f.Exists() || f.Path() != opts.Flag {
		t.Errorf("%+v", f)
	}
}

// FuzzFile changes files: a result can be parsed, has the server, and another server is as it
// was.
func FuzzFile(f *testing.F) {
	for _, text := range []string{tomlText, "[upstream]\na = {}\n", "upstream.b.command = 'x'\n"} {
		f.Add(false, text, "c", "x")
	}
	for _, text := range []string{jsonText, hostText, "{}", "\ufeff{\"upstreamServers\": {\"a\":{}, \"b\":{} }}"} {
		f.Add(true, text, "b", "x\n\"")
	}
	f.Fuzz(func(t *testing.T, json bool, text, name, arg string) {
		path := map[bool]string{true: "c.json", false: "c.toml"}[json]
		file := New(path, []byte(text))
		if len(text) > 1<<12 || strings.ToValidUTF8(text+name+arg, "") != text+name+arg {
			return
		}
		before, err := file.Names()
		if err != nil {
			return
		}
		s := Server{Command: "x", Args: []string{Literal(arg), arg}, Env: []Setting{{"K", arg}}}
		if err := file.Put(name, s); err != nil {
			return
		}
		after := string(file.Text())
		if !file.Has(name) {
			t.Fatalf("%q has become %q, without %q", text, after, name)
		}
		if names, _ := file.Names(); len(names) < len(before) {
			t.Errorf("%q has become %q, without some servers", text, after)
		}
		if err := file.Put(name, s); err != nil || string(file.Text()) != after {
			t.Errorf("%q has become %q the second time: %v", after, file.Text(), err)
		}
		if err := file.Remove(name); err != nil {
			t.Errorf("%q: %v", after, err)
		}
	})
}
