package cassette

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// golden has an interaction of each kind.
var golden = []Interaction{
	{Server: "github", Tool: "search_issues", Params: []byte(`{"query":"is:open"}`),
		Result: []byte(`{"structuredContent":{"total":3,"items":[{"n":9007199254740993,"x":null,"f":1.10}],"z":1,"a":2},"content":[]}`)},
	{Server: "github", Tool: "get.file", Params: []byte(`{"path":"a","options":{"encoding":"base64","lines":[1,2,3],"nothing":null,"text":"it's '''quoted'''"}}`),
		Match: Subset, Result: []byte(`{"content":[{"type":"text","text":"# Title\n\nSome \"text\" with \\ and é.\n"}]}`), Times: 2},
	{Server: "github", Tool: "create_issue", Result: []byte(`{"content":[{"type":"text","text":"not allowed"}],"isError":true}`)},
	{Server: "calc", Tool: "add", Returns: []byte(`123456789012345678901234567890`), Delay: 90 * time.Second},
	{Server: "calc", Tool: "div", Raises: &Raise{Message: "by \"zero\"", Details: []byte(`{"a":[1,null]}`)}},
	{Server: "calc", Tool: "mod", RPCError: []byte(`{"code":-32602,"message":"bad"}`)},
}

func TestFormat(t *testing.T) {
	got := made(t, golden...).Format()
	const name = "testdata/golden.cassette.toml"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	again, err := Parse("g", got)
	if err != nil {
		t.Fatal(err)
	}
	same(t, again.Interactions(), golden)
}

// same compares interactions, ignoring places and treating equivalent kinds as equal.
func same(t *testing.T, got, want []Interaction) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d interactions, want %d", len(got), len(want))
	}
	for n := range got {
		g, w := normalize(got[n]), normalize(want[n])
		if !reflect.DeepEqual(g, w) {
			t.Errorf("interaction %d:\n%s\nwant\n%s", n+1, wire.Marshal(g), wire.Marshal(w))
		}
	}
}

// normalize returns an interaction in the form in which it is written.
func normalize(i Interaction) Interaction {
	i.From = ""
	if i.Match == "" {
		i.Match = Exact
	}
	if i.Raises != nil && i.Raises.Details == nil { // as short as the result that it is
		i.Raises, i.Result = nil, i.Raises.result()
	}
	i.Params, i.Returns, i.Result, i.RPCError = normal(i.Params), normal(i.Returns), normal(i.Result), normal(i.RPCError)
	if i.Raises != nil {
		i.Raises = &Raise{i.Raises.Message, normal(i.Raises.Details)}
	}
	return i
}

// normal returns raw JSON with a uniform encoding of strings.
func normal(raw []byte) []byte {
	v := jsontext.Value(bytes.Clone(raw))
	if raw == nil || v.Format(jsontext.PreserveRawStrings(false), jsontext.Multiline(false), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return raw
	}
	return v
}

// TestRoundTrip checks that all strings survive Format and Parse.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"'", "''", "'''", `"`, `"""`, `\`, "\n", "\r", "\t", "\r\n", "\x00", "\x7f", "\x1f", "é", "\u2028", "\ufeff", "\U0001f600", "[[interaction]]", "#", "x", "=", "${A}", "\ufffe"}
	for range 400 {
		text := ""
		for range r.IntN(8) {
			text += pieces[r.IntN(len(pieces))]
		}
		quoted := callResult{Content: textBlocks(text)}
		all := []Interaction{
			{Server: "s", Tool: "t" + text, Params: marshal(map[string]string{"k" + text: text}), Returns: marshal(text)},
			{Server: "s", Tool: "t", Result: marshal(quoted)},
			{Server: "s", Tool: "t", Raises: &Raise{Message: text}, Times: 3},
			{Server: "s", Tool: "t", Raises: &Raise{Message: text, Details: marshal([]string{text, strings.Repeat(text, 50)})}},
			{Server: "s", Tool: "t", RPCError: marshal(map[string]string{"message": text + strings.Repeat("y", 200)})},
		}
		file := made(t, all...).Format()
		again, err := Parse("f", file)
		if err != nil {
			t.Fatalf("%q: %v\n%s", text, err, file)
		}
		same(t, again.Interactions(), all)
		if !bytes.Equal(again.Format(), file) {
			t.Errorf("%q: written again it is another\n%s", text, file)
		}
	}
}

func TestHandWritten(t *testing.T) {
	c, err := Parse("x.cassette.toml", []byte(`times = 2
[[interaction]]
tool = "s.t"
params = { b = 1, a = [true, 1.5, "x"] }
match = "subset"
returns = "plain"

[[interaction]]
tool = "s.u"
times = 0
text = '''
{"a": 1}'''
[interaction.params]
q = "x"
[interaction.params.deep]
k = [{ m = 1 }]

[[interaction]]
tool = "s.v"
raises = { message = "no", details = { code = 1 } }
delay = "1m30s"

[[interaction]]
tool = "s.w"
error = { code = -32000, message = "down" }

[[interaction]]
tool = "s.x"
[interaction.result]
isError = true
[[interaction.result.content]]
type = "text"
text = "x"
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Interaction{
		{Server: "s", Tool: "t", Params: []byte(`{"a":[true,1.5,"x"],"b":1}`), Match: Subset, Returns: []byte(`"plain"`), Times: 2, From: "x.cassette.toml:2"},
		{Server: "s", Tool: "u", Params: []byte(`{"deep":{"k":[{"m":1}]},"q":"x"}`), Match: Exact, From: "x.cassette.toml:8",
			Result: []byte(`{"content":[{"type":"text","text":"{\"a\": 1}"}]}`)},
		{Server: "s", Tool: "v", Match: Exact, Raises: &Raise{"no", []byte(`{"code":1}`)}, Delay: 90 * time.Second, Times: 2, From: "x.cassette.toml:18"},
		{Server: "s", Tool: "w", Match: Exact, RPCError: []byte(`{"code":-32000,"message":"down"}`), Times: 2, From: "x.cassette.toml:23"},
		{Server: "s", Tool: "x", Match: Exact, Result: []byte(`{"content":[{"text":"x","type":"text"}],"isError":true}`), Times: 2, From: "x.cassette.toml:27"},
	}
	if got := c.Interactions(); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestProblems(t *testing.T) {
	const head = "# é '''\n[[interaction]]\ntool = \"s.t\"\nreturns = '''\n[[interaction]]\n'''\n[[interaction]]\n"
	for _, tt := range []struct{ text, want string }{
		{"a = ", "f:1:4: unexpected EOF; expected value"},
		{"x = 1", `f:1:1: x is an unknown key (known here: times, interaction)`},
		{"\ntimes = \"1\"", `f:2:1: times is a string, want a whole number`},
		{"interaction = 1", `f:1:1: interaction is not an array of tables ([[interaction]])`},
		{"[interaction]\ntool = 1", `f:1:1: interaction is not an array of tables ([[interaction]])`},
		{"interaction = [{ tool = \"s.t\" }]", `f:1:1: interaction 1: has no answer`},
		{head, "f:7:1: interaction 2: tool is missing (tool = \"server.tool\")"},
		{head + "tool = \"s.t\"", "f:7:1: interaction 2: has no answer (give it one of returns, text, result, raises, error and denied)"},
		{head + "tool = \"s.t\"\ntext = \"\"\nreturns = 1", "f:7:1: interaction 2: has more than one answer"},
		{head + "tool = \"st\"\ntext = \"\"", "f:8:1: interaction 2: tool is \"st\", want \"server.tool\""},
		{head + "tool = \"tools.x\"\ntext = \"\"", "f:8:1: interaction 2: tool is a saved tool"},
		{head + "tool = \"s.t\"\ntext = \"é\" # x\n  retruns = 1", "f:10:3: interaction 2: retruns is an unknown key (did you mean returns?)"},
		{head + "tool = \"s.t\"\nreturns = 1\ndelay = \"5\"", "f:10:1: interaction 2: delay \"5\" has no unit"},
		{head + "tool = \"s.t\"\nreturns = 1\nparams = 5", "f:10:1: interaction 2: params is not a JSON object"},
		{head + "tool = \"s.t\"\nreturns = nan", "f:9:1: interaction 2: returns has the number NaN, which JSON does not have"},
		{head + "tool = \"s.t\"\nreturns = 2026-01-01", "f:9:1: interaction 2: returns has a date or time, which JSON does not have (put it in quotes)"},
		{head + "tool = \"s.t\"\nreturns = 1\nmatch = \"some\"", "f:10:1: interaction 2: match is \"some\", want \"exact\" or \"subset\""},
		{head + "tool = \"s.t\"\nreturns = 1\ntimes = -1", "f:10:1: interaction 2: times is -1, want"},
		{head + "tool = \"s.t\"\nreturns_json = '''\n{\n  \"a\": x\n}\n'''", "f:11:8: interaction 2: returns_json is not JSON: invalid character 'x'"},
		{head + "tool = \"s.t\"\nresult_json = '{\"é\": ]}'", "f:9:22: interaction 2: result_json is not JSON: invalid character ']'"},
		{head + "tool = \"s.t\"\nresult_json = \"{\\\"a\\\" 1}\"", "f:9:1: interaction 2: result_json is not JSON"},
		{head + "tool = \"s.t\"\nresult_json = '1'", "f:9:1: interaction 2: result is not a JSON object"},
		{head + "tool = \"s.t\"\nreturns = 1\nreturns_json = '1'", "f:9:1: interaction 2: returns and returns_json are both set"},
		{head + "tool = \"s.t\"\nraises = { mesage = \"x\" }", "f:9:1: interaction 2: raises.mesage is an unknown key (did you mean message?)"},
		{head + "tool = \"s.t\"\nraises = { details = 1 }", "f:9:1: interaction 2: raises.message is missing"},
		{head + "tool = \"s.t\"\nraises = 1", "f:9:1: interaction 2: raises is an integer, want a string or a table"},
		{head + "tool = \"s.t\"\nreturns = 1\n[interaction.params]\n[interaction.match]\nx=1", "f:11:1: interaction 2: match is a table, want a string"},
	} {
		_, err := Parse("f", []byte(tt.text))
		var p *Problem
		if !errors.As(err, &p) || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s\ngives %v\nwant  %s", tt.text, err, tt.want)
		}
	}
	for _, deep := range []string{strings.Repeat("[", 1e6), strings.Repeat("{a=", 1e5), strings.Repeat("'x'\na", 1) + strings.Repeat(".a", 1e6) + " = 1"} {
		if _, err := Parse("f", []byte("a = "+deep)); err == nil || !strings.Contains(err.Error(), ": is nested deeper than 100 levels") {
			t.Errorf("%.20s...: %v", deep, err)
		}
	}
	_, err := Parse("f", []byte("x = 1\n[[interaction]]\n[[interaction]]\ntool = 1\n"))
	if got := strings.Count(fmt.Sprint(err), "\n"); got != 2 {
		t.Errorf("not all that is wrong is told: %v", err)
	}
	if _, err := New(Interaction{Server: "s", Tool: "t"}, golden[0], Interaction{}); err == nil || strings.Count(err.Error(), "\n") != 1 ||
		!strings.HasPrefix(err.Error(), "mock 1 (s.t): has no answer") {
		t.Errorf("New: %v", err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a"+Suffix)
	if _, err := Read(t.Context(), regular.Place{Name: path}); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), path+": cannot be read: ") {
		t.Errorf("no file: %v", err)
	}
	c := made(t, golden...)
	if err := c.Write(t.Context(), regular.Place{Name: path}); err != nil {
		t.Fatal(err)
	}
	again, err := Read(t.Context(), regular.Place{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	same(t, again.Interactions(), golden)
	if runtime.GOOS != "windows" {
		checkMode(t, path, 0o600)
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := c.Write(t.Context(), regular.Place{Name: path}); err != nil {
			t.Fatal(err)
		}
		checkMode(t, path, 0o644)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 1 {
		t.Errorf("left behind: %q", names)
	}
	if err := c.Write(t.Context(), regular.Place{Name: filepath.Join(dir, "no", "such")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if err := c.Write(t.Context(), regular.Place{Name: dir}); err == nil { // a directory is in the way
		t.Error("a directory was replaced")
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); len(names) != 0 {
		t.Errorf("left behind: %q", names)
	}
}

func checkMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != want {
		t.Errorf("mode %v, want %v", info.Mode().Perm(), want)
	}
}

// FuzzParse checks that what can be read is unchanged after it is written and read
// again.
func FuzzParse(f *testing.F) {
	c, err := New(golden...)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(c.Format()))
	for _, text := range []string{
		"times = 1\n[[interaction]]\ntool = \"s.t\"\nreturns = { a = [1, 2.5, true, \"x\"] }\n",
		"[[interaction]]\ntool = 's.t'\nparams.a.b = 1\nraises = { message = \"x\", details_json = '[null]' }\n",
		"[[interaction]]\n\"tool\" = \"\"\"s.t\"\"\" # c\ndelay=\"1s\"\ntext='''''x'''''\n",
		"interaction = [{tool='s.t', text=''}]", "[[interaction.x]]", "a=[[[[", "[[interaction]]\n[interaction.params]\nx=1\n[other]\ny=2",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			return
		}
		c, err := Parse("f", []byte(text))
		if err != nil {
			var p *Problem
			if !errors.As(err, &p) || p.Line < 0 || p.Line > strings.Count(text, "\n")+1 {
				t.Errorf("error %v, problem %+v", err, p)
			}
			return
		}
		file := c.Format()
		again, err := Parse("f", file)
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		same(t, again.Interactions(), c.Interactions())
	})
}
