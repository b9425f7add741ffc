package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

const head = "format = \"" + Format + "\"\n"

// minimal returns a bundle of one tool with additional keys.
func minimal(more string) string {
	return head + "[tool.a]\ninputSchema = '{\"type\":\"object\"}'\ncode = 'return 1'\n" + more
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", `x.toml: is not an export of tools (it would say format = "mcp-metatool tools 1")`},
		{"other file", "[upstream.x]\ncommand = 'y'\n", `x.toml: is not an export of tools`},
		{"other format", "format = 'mcp-metatool tools 2'", `x.toml:1:11: format "mcp-metatool tools 2" is not known`},
		{"format is no text", "format = 1", `x.toml:1:10: must be a text in quotes`},
		{"not TOML", head + "[tool.a\n", `x.toml:2:8: expected '.' or ']'`},
		{"unknown key", head + "\nother = 1\n", `x.toml:3:9: unknown key "other" (there are format and tool)`},
		{"tool is no table", head + "tool = 1\n", `x.toml:2:8: must be a table`},
		{"one tool is no table", head + "[tool]\na = 1\n", `x.toml:3:5: must be a table`},
		{"tools are a list", head + "[[tool]]\nname = 'a'\n", `must be a table`},
		{"bad name", head + "\n[tool.\"../a\"]\n", `x.toml:3:1: tool name "../a": '.' is not allowed`},
		{"device name", head + "\n[tool.nul]\n", `device name on Windows`},
		{"twice", minimal("[tool.a]\n"), `x.toml:5:2: Key 'tool.a' has already been defined`},
		{"twice in other case", minimal("[tool.A]\ninputSchema = '{\"type\":\"object\"}'\ncode = '2'\n"), `x.toml: has tool "a" twice, or in another case as "A"`},
		{"unknown key of a tool", minimal("cod = ''\n"), `x.toml:5:8: tool "a": unknown key "cod" (there are description, `},
		{"no code", head + "[tool.a]\ninputSchema = '{\"type\":\"object\"}'\n", `x.toml:2:1: tool "a": code is empty`},
		{"no schema", head + "[tool.a]\ncode = '1'\n", `x.toml:2:1: tool "a": inputSchema: is missing`},
		{"bad schema", head + "[tool.a]\ncode = '1'\ninputSchema = '{\"type\":\"array\"}'\n", `x.toml:4:16: tool "a": inputSchema: root "type" is "array", must be "object"`},
		{"schema from elsewhere", head + "[tool.a]\ncode = '1'\ninputSchema = '{\"type\":\"object\",\"$ref\":\"file:///etc/passwd\"}'\n", `never loaded from network or disk`},
		{"schema is a table", head + "[tool.a]\ninputSchema = {type = 'object'}\n", `x.toml:3:16: must be a text in quotes`},
		{"bad outputSchema", minimal("outputSchema = '[]'\n"), `x.toml:5:17: tool "a": outputSchema: must be a JSON object`},
		{"bad limits", minimal("limits = '{\"fuel\":1}'\n"), `x.toml:5:11: tool "a": /limits/fuel: got 1, want at least 10000000`},
		{"extra that is not", minimal("extra = '{\"code\":\"x\"}'\n"), `x.toml:5:10: tool "a": "code" is not an unknown member of a tool`},
		{"code in a file that cannot be", minimal("code_file = 'a.star'\n"), `tool "a": has code and code_file`},
		{"code elsewhere", head + "[tool.a]\ncode_file = '/etc/passwd'\n", `x.toml:3:14: tool "a": code_file "/etc/passwd" must be "a.star"`},
		{"code above", head + "[tool.a]\ncode_file = '../a.star'\n", `must be "a.star"`},
		{"code in no file", head + "[tool.a]\ncode_file = 'a.star'\n", `only for bundles in files`},
		{"file elsewhere", minimal("[tool.a.files]\n\"../a.toml\" = ''\n"), `x.toml:6:16: tool "a": "../a.toml" is not a file beside it`},
		{"file of another tool", minimal("[tool.a.files]\n\"b.toml\" = ''\n"), `"b.toml" is not a file beside it`},
		{"file is no text", minimal("[tool.a.files]\n\"a.toml\" = 1\n"), `x.toml:6:12: must be a text in quotes`},
		{"files is no table", minimal("files = 'x'\n"), `x.toml:5:10: must be a table`},
		{"not UTF-8", head + "# \xff", `x.toml: is not valid UTF-8`},
		{"deep", head + "x = " + strings.Repeat("[", 1<<20), `x.toml:2:104: is nested deeper than 100 levels`},
		{"deep in tables", head + "x = " + strings.Repeat("{a=", 1<<20), `is nested deeper than 100 levels`},
		{"deep keys", head + strings.Repeat("a.", 1<<20) + "a = 1", `is nested deeper than 100 levels`},
		{"deep after a string", head + "x = '''[''''\ny = " + strings.Repeat("[", 1<<20), `is nested deeper than 100 levels`},
		{"large", strings.Repeat("#", MaxBytes+1), `x.toml: is 67108865 bytes long (at most 67108864)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, err := Parse([]byte(c.in), "x.toml")
			var e *Error
			if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v\nwant %s", list, err, c.want)
			}
		})
	}
}

func TestFolderRefuses(t *testing.T) {
	inFile := head + "[tool.a]\ninputSchema = '{\"type\":\"object\"}'\ncode_file = 'a.star'\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		link  [2]string // to, from
		want  string
	}{
		{"missing script", map[string]string{"a.toml": inFile}, [2]string{}, `a.toml:4:14: tool "a": a.star: cannot be used: `},
		{"script is a link", map[string]string{"a.toml": inFile}, [2]string{"/etc/passwd", "a.star"}, `symbolic link, which is not followed`},
		{"bundle is a link", map[string]string{"b": inFile}, [2]string{"b", "a.toml"}, `a.toml: cannot be used: it is a symbolic link`},
		{"cassette is a link", map[string]string{"a.toml": inFile, "a.star": "1", "smoke/x": ""}, [2]string{"x", "smoke/a.cassette.toml"}, `smoke/a.cassette.toml: cannot be used: it is a symbolic link`},
		{"folder is a link out", map[string]string{"a.toml": inFile, "a.star": "1"}, [2]string{"/etc", "smoke"}, `path escapes from parent`},
		{"script of no tool", map[string]string{"b.star": "1"}, [2]string{}, `b.star: belongs to no tool (write b.toml for it)`},
		{"two bundles, one tool", map[string]string{"a.toml": minimal(""), "b.toml": minimal("")}, [2]string{}, `has tool "a" twice`},
		{"file twice", map[string]string{"a.toml": inFile + "[tool.a.files]\n'a.toml'=''\n", "a.star": "1", "smoke/a.toml": ""}, [2]string{}, `a.toml is also in smoke`},
		{"configuration", map[string]string{"config.toml": "x = 1"}, [2]string{}, `config.toml: is not an export of tools`},
		{"script is a folder", map[string]string{"a.toml": inFile, "a.star/x": ""}, [2]string{}, `is a directory`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range c.files {
				write(t, dir, file, strings.ReplaceAll(content, "\\", "/"))
			}
			if c.link[1] != "" {
				if err := os.Symlink(c.link[0], filepath.Join(dir, c.link[1])); err != nil {
					t.Skip(err)
				}
			}
			list, err := Read(t.Context(), dir)
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v\nwant %s", list, err, c.want)
			}
		})
	}
	if _, err := Read(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
	if _, err := Read(t.Context(), os.DevNull); err == nil || !strings.Contains(err.Error(), "neither a regular file nor a folder") {
		t.Errorf("of a device: %v", err)
	}
	many := t.TempDir()
	for i := range MaxFiles + 1 {
		first := i - i%1000 // some file systems have at most 1023 links of a file
		if i == first {
			write(t, many, fmt.Sprint(i), "")
		} else if err := os.Link(filepath.Join(many, fmt.Sprint(first)), filepath.Join(many, fmt.Sprint(i))); err != nil { // takes a tenth of the time
			t.Fatal(err)
		}
	}
	if _, err := Read(t.Context(), many); err == nil || !strings.Contains(err.Error(), "more than 4096 files") {
		t.Errorf("of many: %v", err)
	}
}

// FuzzParse checks that a bundle that can be read stays the same when it is written and
// read again.
func FuzzParse(f *testing.F) {
	text, err := Text([]Tool{tool(f, "a", "return 1\n"), rich(f)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(minimal("extra = '{\"x\":1}'\nlimits='{}'\n[tool.a.files]\n'a.toml' = \"\"\"x\"\"\"\n")))
	f.Add([]byte(minimal("description = \"\"\"a\\\n  b\"\"\"")))
	f.Add([]byte(head + "tool = {a = {code = '1'}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Parse(data, "x")
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		text, err := Text(list)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text, "y")
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		expectSame(t, again, list)
		same, err := Text(again)
		if err != nil || !bytes.Equal(same, text) {
			t.Errorf("%v: got\n%s\nwant\n%s", err, same, text)
		}
	})
}

// FuzzQuote decodes quoted strings with the library.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "'", "''", `"`, `""`, `"""`, "a\n'''", "\n", "\r\n\"\"\"\"\n\"", "\\", "\\\n", "\x00\t\u2028\ufeff\U0001F468\u200d", "'''\n\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		if s == "" {
			return
		}
		list, err := Parse([]byte(head+"[tool.a]\ninputSchema = '{\"type\":\"object\"}'\ncode = "+tomldoc.Quote(s)+"\n"), "x")
		if err != nil || list[0].Code != s {
			t.Errorf("%q as %s: %v", s, tomldoc.Quote(s), err)
		}
	})
}
