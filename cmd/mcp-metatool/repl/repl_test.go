package repl

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestComplete(t *testing.T) {
	c := completions{
		words: []string{"github", "gitlab", "print", "progress", "x", "tools"},
		members: map[string][]string{
			"github": {".search_code", ".search_issues", `["odd-name"]`}, "gitlab": {".only"}, "json": {".decode", ".encode"},
			"x": {".name"}, "é": nil,
		},
	}
	for _, tt := range []struct{ before, add, choice string }{
		{"", "", ""},
		{"nothing", "", ""},
		{"gi", "t", ""},
		{"git", "", "github gitlab"},
		{"gitl", "ab", ""},
		{"gitlab", "", ""},
		{"y = [gith", "ub", ""},
		{"github.", "search_", ""},
		{"github.search_", "", ".search_code .search_issues"},
		{"f(github.search_i", "ssues", ""},
		{"github[", `"odd-name"]`, ""},
		{`github["o`, `dd-name"]`, ""},
		{`github["x`, "", ""},
		{"-gitlab.", "only", ""},
		{"json.d", "ecode", ""},
		{"x.json.d", "", ""},  // another json
		{"f().gi", "", ""},    // a member of something
		{`"text gi`, "t", ""}, // strings are not told apart
		{"x.n", "ame", ""},    // of a value
		{"p", "r", ""},        // print, progress
		{"pr", "", "print progress"},
		{".", "", ".forget .help .quit .tools"},
		{".q", "uit", ""},
		{" .q", "", ""},
		{"None.q", "", ""},
	} {
		add, choice := c.complete(tt.before)
		if add != tt.add || strings.Join(choice, " ") != tt.choice {
			t.Errorf("%q: add %q, choice %q", tt.before, add, choice)
		}
	}
}

func TestCommonPrefix(t *testing.T) {
	for _, tt := range [][3]string{{"", "a", ""}, {"ab", "ab", "ab"}, {"ab", "a", "a"}, {"é1", "é2", "é"}, {"é", "è", ""}, {"abc", "abd", "ab"}} {
		if got := commonPrefix(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%q, %q: %q", tt[0], tt[1], got)
		}
	}
}

func TestMembersOf(t *testing.T) {
	got := membersOf(replValue{JSON: `{"b":1,"a":{"c":2},"x y":3,"":4}`})
	slices.Sort(got)
	if strings.Join(got, " ") != ".a .b" {
		t.Errorf("got %q", got)
	}
	for _, v := range []replValue{{JSON: "[1]"}, {Code: "(1,)"}, {}} {
		if got := membersOf(v); got != nil {
			t.Errorf("%+v: %q", v, got)
		}
	}
}

func TestEndsBlock(t *testing.T) {
	for line, want := range map[string]bool{
		"": false, "  x": false, "\tx": false, "# a": false, "x = 1": true, "else:": false, "elif x:": false,
		"except Error as e:": false, "finally:": false, "elsewhere()": true, "else_x": true, "f()": true, "Else": true,
	} {
		if got := endsBlock(line); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

func TestLocate(t *testing.T) {
	s := replState{
		names: []string{"f", "x", "t", "gone"}, inputs: 4,
		values:    map[string]replValue{"x": {JSON: "1"}, "t": {Code: "(1,)"}},
		functions: []replFunction{{"f", []string{"def f():", "    return x"}, 1, 3}},
	}
	l := abi.Lint{Parses: true, Value: &abi.Position{Line: 2, Column: 8}, Bound: []abi.Binding{{Name: "y"}}}
	p := s.program("y = 1\na = 1; f(y)\n", l)
	want := "if False: gone = None\nt = (1,)\nx = _repl.decode(_repl.given[\"x\"])\ndef f():\n    return x\ny = 1\na = 1; _ = \\\n       f(y)\n"
	_, rest, _ := strings.Cut(p.code, "\n")
	if !strings.HasPrefix(rest, want) || string(p.params) != `{"x":"1"}` {
		t.Fatalf("params %s\n%s", p.params, p.code)
	}
	if names := strings.Join(p.names, " "); names != "f x t gone y _" {
		t.Errorf("names %s", names)
	}
	got := p.locate("runtime error: no\n  at eval_starlark:6:12\n        return x\nline 7: undefined\n" +
		"  eval_starlark:9:9: in <toplevel>\n    f(y)\nwhile handling: what (eval_starlark:7:1)\n  eval_starlark:1:1: in ours\n  at eval_starlark:99999999999999999999:1")
	if want := "runtime error: no\n  at <input 2>:4:12\n        return x\nline 1: undefined\n" +
		"  <input>:2:9: in <toplevel>\n    a = 1; f(y)\nwhile handling: what (<input>:1:1)\n  eval_starlark:1:1: in ours\n  at eval_starlark:99999999999999999999:1"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestTake checks results that none of our scripts makes.
func TestTake(t *testing.T) {
	s := replState{names: []string{"x"}, values: map[string]replValue{"x": {JSON: "1"}}}
	p := s.program("x = 2\n", abi.Lint{Parses: true, Bound: []abi.Binding{{Name: "x"}}})
	for result, want := range map[string]string{`5`: "5", `{"_repl":7}`: "{\n  \"_repl\": 7\n}", `"a"`: `"a"`} {
		if out := s.update(p, []byte(result)); out.text != want || s.values["x"].JSON != "1" {
			t.Errorf("%s: %+v, %+v", result, out, s.values)
		}
	}
	out := s.update(p, []byte(`{"_repl":{"x":{"lost":"it is too large"}}}`))
	if len(out.notes) != 1 || out.notes[0] != "x is not there for further inputs: it is too large" {
		t.Errorf("%+v", out)
	}
	if out = s.update(p, []byte(`{"_repl":{"x":{"unbound":true}}}`)); out.notes != nil || len(s.values) > 0 {
		t.Errorf("%+v, %+v", out, s.values)
	}
	s.forget()
	if len(s.names) > 0 {
		t.Error("names are left")
	}
}

func TestHistory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	h, err := openHistory(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"a", "", "b", "b", "  ", "c"} {
		h.Add(line)
	}
	if h.Len() != 3 || h.At(0) != "c" || h.At(2) != "a" || h.err != nil {
		t.Errorf("%q, %v", h.lines, h.err)
	}
	file := filepath.Join(dir, historyName)
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(file, []byte(strings.Repeat("x\ny\n", 3*historyLines)+"last\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err = openHistory(dir); err != nil || h.Len() != historyLines || h.At(0) != "last" || h.err != nil {
		t.Fatalf("%v, %v", err, h)
	}
	if raw, err := os.ReadFile(file); err != nil || bytes.Count(raw, []byte("\n")) != historyLines {
		t.Errorf("%d lines, %v", bytes.Count(raw, []byte("\n")), err)
	}
	h.Add("more")
	if h.Len() != historyLines || h.At(1) != "last" {
		t.Errorf("%d, %q", h.Len(), h.At(1))
	}
}

func TestKeys(t *testing.T) {
	k := newKeys()
	read := func() string {
		buf := make([]byte, 100)
		n, err := k.Read(buf)
		if err != nil {
			return err.Error()
		}
		return string(buf[:n])
	}
	k.add([]byte("abc"))
	if got := read(); got != "abc" || k.wasInterrupted() {
		t.Errorf("%q", got)
	}
	k.add([]byte("abc\x03d"))
	if got := read() + "|" + read(); got != dropLine+"|d" || // line by line
		!k.wasInterrupted() || k.wasInterrupted() {
		t.Errorf("%q", got)
	}
	term := &terminal{keys: k}
	ctx, done := term.running(t.Context())
	k.add([]byte("typed ahead\x03x"))
	if !errors.Is(context.Cause(ctx), errInterrupted) || k.wasInterrupted() {
		t.Errorf("%v", context.Cause(ctx))
	}
	if got := read(); got != "x" {
		t.Errorf("%q", got)
	}
	done()
	k.add([]byte("next\rpar"))
	k.setAside()
	k.add([]byte("answer\rtial"))
	if got := read(); got != "answer\r" {
		t.Errorf("%q", got)
	}
	k.takeBack(true)
	if got := read() + "|" + read(); got != "next\r|partial" {
		t.Errorf("%q", got)
	}
	pumped := make(chan struct{})
	go func() {
		k.pump(strings.NewReader(strings.Repeat("y", maxTyped+10)))
		close(pumped)
	}()
	all, err := io.ReadAll(k)
	if err != nil || len(all) != maxTyped+10 {
		t.Errorf("%d bytes, %v", len(all), err)
	}
	<-pumped
	if k.add([]byte("z")) || read() != io.EOF.Error() {
		t.Error("it goes on after the end")
	}
}
