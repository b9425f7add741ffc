package expect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools"
)

func pattern(t *testing.T, s string) Pattern {
	t.Helper()
	p, err := ParsePattern(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPattern(t *testing.T) {
	tests := []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"ell", "hello", true},
		{"Ell", "hello", false},
		{"a.c", "abc", false},
		{"/a.c/", "xabcx", true},
		{"/^a.c$/", "xabcx", false},
		{"/A.C/i", "abc", true},
		{"/^b$/", "a\nb", false},
		{"/^b$/m", "a\nb", true},
		{"/a.b/", "a\nb", false},
		{"/a.b/s", "a\nb", true},
		{"/^A.b|C$/is", "xc", true}, // the flags apply to all alternatives
		{"//", "anything", true},
		{"/", "a/b", true},
		{"/", "ab", false},
		{"/usr/bin", "in /usr/bin/ls", true},
		{"/usr/bin", "usr", false},
		{"/a/b/", "xa/bx", true},
	}
	for _, tt := range tests {
		p := pattern(t, tt.pattern)
		if got := p.Match(tt.text); got != tt.want {
			t.Errorf("%q on %q: %v", tt.pattern, tt.text, got)
		}
		if p.String() != tt.pattern {
			t.Errorf("%q becomes %q", tt.pattern, p)
		}
	}
	for _, bad := range []string{"/(/", "/(?<a/", "/[/i", "/a**/ms"} {
		if _, err := ParsePattern(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if !(Pattern{}).Match("x") {
		t.Error("the zero Pattern does not match")
	}
}

func TestResult(t *testing.T) {
	text := `{"content":[{"type":"text","text":"one"},{"type":"image"},{"type":"text","text":"two\nlines"}],"isError":true,"_meta":{"a":{"b":1,"c":2}}}`
	schema, err := tools.CompileSchema([]byte(`{"type":"object","required":["x"],"properties":{"a":{"items":{"type":"string"}}}}`), "expect.schema")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		got  *Mismatch
		want string // Error() | Want | Got
	}{
		{"text", Text(pattern(t, "two\n"), []byte(text)), ""},
		{"no text matches", Text(pattern(t, "/ONE/"), []byte(text)), "at $.content: no text matches what is wanted | /ONE/ | one\ntwo\nlines"},
		{"blocks are apart", Text(pattern(t, "one\ntwo"), []byte(text)), "at $.content: no text contains what is wanted | one\ntwo | one\ntwo\nlines"},
		{"no text", Text(pattern(t, "x"), []byte(`{"content":[{"type":"audio"}]}`)), "at $.content: the result has no text | x | blocks: audio"},
		{"no result", Text(pattern(t, ""), []byte(`[]`)), "at $.content: the result has no text |  | []"},
		{"message", Message("the error's message", pattern(t, "late"), "too late"), ""},
		{"other message", Message("the error's message", pattern(t, "early"), "too late"), "nothing in the error's message contains what is wanted | early | too late"},
		{"is error", IsError(true, []byte(text)), ""},
		{"is no error", IsError(false, []byte(`{"content":[]}`)), ""},
		{"should not fail", IsError(false, []byte(text)), "at $.isError: the result is an error | no error | one\ntwo\nlines"},
		{"should fail", IsError(true, []byte(`{"isError":false}`)), "at $.isError: the result is not an error | an error | "},
		{"strange flag", IsError(true, []byte(`{"isError":"true"}`)), `at $.isError: isError is neither true nor false |  | "true"`},
		{"meta", Meta([]byte(`{"a":{"b":1.0}}`), []byte(text)), ""},
		{"other meta", Meta([]byte(`{"a":{"b":2}}`), []byte(text)), "at $._meta.a.b: other value | 2 | 1"},
		{"no meta", Meta([]byte(`{"a":1}`), []byte(`{}`)), `at $._meta: there is no _meta | {"a":1} | `},
		{"schema", Schema(schema, []byte(`{"x":1,"a":["s"]}`)), ""},
		{"not the schema", Schema(schema, []byte(`{"x":1,"a":["s",2]}`)), `at $.a[1]: does not match the schema: got number 2, want string |  | {"x":1,"a":["s",2]}`},
		{"calls", Calls([]string{"a.b", "c.d"}, []string{"a.b", "c.d"}), ""},
		{"no calls", Calls(nil, nil), ""},
		{"call missing", Calls([]string{"a.b"}, nil), "at $[0]: the call is not made | a.b | "},
		{"call too many", Calls([]string{}, []string{"a.b"}), "at $[0]: the call is not expected |  | a.b"},
		{"other call", Calls([]string{"a.b", "c.d"}, []string{"a.b", "e.f"}), "at $[1]: another call | c.d | e.f"},
		{"names", Names("tool", []string{"b"}, []string{"a", "b"}), ""},
		{"names missing", Names("tool", []string{"get-sun", "x", "a"}, []string{"a", "get-sum"}), `there is no tool "get-sun", only "get-sum" (and 1 more of those wanted) | get-sun, x, a | a, get-sum`},
		{"success", ErrorType("", "", ""), ""},
		{"timeout", ErrorType("timeout", "timeout", "late"), ""},
		{"failed", ErrorType("", "timeout", "late"), "the run failed | success | timeout: late"},
		{"did not fail", ErrorType("timeout", "", ""), "the run did not fail | timeout | success"},
		{"failed otherwise", ErrorType("timeout", "tool", "no"), "the run failed in another way | timeout | tool: no"},
		{"fuel", Fuel(5, 5), ""},
		{"too much fuel", Fuel(5, 6), "more fuel than allowed | at most 5 units | 6 units"},
		{"too much memory", Memory(1<<20, 3<<20), "more memory than allowed | at most 1MiB | 3MiB"},
		{"too long", Duration(time.Second, 2*time.Second), "more duration than allowed | at most 1s | 2s"},
	}
	for _, tt := range tests {
		got := ""
		if tt.got != nil {
			got = fmt.Sprintf("%s | %s | %s", tt.got.Error(), tt.got.Want, tt.got.Got)
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if m := Calls([]string{"a.b", "c.d"}, []string{"a.b"}); m.Diff != "--- want\n+++ got\n@@ -1,2 +1,1 @@\n a.b\n-c.d\n" {
		t.Errorf("diff of calls: %q", m.Diff)
	}
	m := Schema(schema, []byte(`{"a":[1,2,3,4,5,6,7,8,9,10,11,12]}`))
	if lines := strings.Split(m.Got, "\n"); len(lines) != maxViolations+1 || lines[10] != "and 3 more" {
		t.Errorf("violations: %q", m.Got)
	}
	if m := Schema(schema, []byte(`{`)); m == nil {
		t.Error("what is not JSON is valid")
	}
}

func TestLogs(t *testing.T) {
	got := []string{"start", "page 1", "page 2", "done"}
	tests := []struct {
		want []string
		says string
	}{
		{[]string{"start", "done"}, ""},
		{[]string{"page", "page", "/^done$/"}, ""},
		{[]string{"done", "start"}, "at $[1]: no log entry after that for done contains what is wanted"},
		{[]string{"page", "page", "page"}, "at $[2]: no log entry after that for page contains what is wanted"},
		{[]string{"/DONE/"}, "at $[0]: no log entry matches what is wanted"},
		{nil, "at $[0]: want no logs, got 4"},
	}
	for _, tt := range tests {
		var want []Pattern
		for _, s := range tt.want {
			want = append(want, pattern(t, s))
		}
		if says := said(Logs(want, got)); says != tt.says {
			t.Errorf("%q: %q, want %q", tt.want, says, tt.says)
		}
	}
	if m := Logs(nil, nil); m != nil {
		t.Error(m)
	}
}

func TestProgress(t *testing.T) {
	tests := []struct {
		least  int
		params string // separated by |
		says   string
	}{
		{0, ``, ""},
		{2, `{"progressToken":1,"progress":0,"total":3}|{"progressToken":1.0,"progress":0.5,"total":3}`, ""},
		{1, `{"progress":1}|{"progress":2,"total":2}|{"progress":3,"total":5,"message":"m"}`, ""},
		{1, ``, "too few progress notifications"},
		{0, `{"progress":9007199254740993}|{"progress":9007199254740993}`, "at $[1].progress: progress does not increase"},
		{0, `{"progress":9007199254740992}|{"progress":9007199254740993}`, ""},
		{0, `{"progress":1}|{"progress":0.5}`, "at $[1].progress: progress does not increase"},
		{0, `{"progress":4,"total":3}`, "at $[0].progress: progress exceeds the total"},
		{0, `{"progress":1,"total":9}|{"progress":2,"total":8}`, "at $[1].total: the total decreases"},
		{0, `{"progressToken":1,"progress":1}|{"progressToken":"1","progress":2}`, "at $[1].progressToken: the token is a different one"},
		{0, `{"progress":"1"}`, "at $[0].progress: progress is not a number"},
		{0, `{"progress":1,"total":null}`, "at $[0].total: total is not a number"},
		{0, `[]`, "at $[0]: the params of a progress notification are not a JSON object"},
	}
	for _, tt := range tests {
		var params [][]byte
		if tt.params != "" {
			for p := range strings.SplitSeq(tt.params, "|") {
				params = append(params, []byte(p))
			}
		}
		if says := said(Progress(tt.least, params)); says != tt.says {
			t.Errorf("%s: %q, want %q", tt.params, says, tt.says)
		}
	}
}

func TestDifferencesEnd(t *testing.T) {
	all := slices.Repeat([]any{"x"}, 10*maxDifferences)
	if n := len(Differences(all, []any{}, false)); n != maxDifferences {
		t.Errorf("%d differences", n)
	}
}
