package mcptest

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	tests := []struct {
		name, want, got, diff string
	}{
		{"equal", `{"a":[1,"x",null]}`, `{"a":[1,"x",null]}`, ""},
		{"white space", `{"a":[1, 2]}`, "{ \"a\" :\n[1,2]}", ""},
		{"escapes", `{"\u0061":"\ud83d\ude00\/"}`, `{"a":"😀/"}`, ""},
		{"digits", `{"a":{"b/c":[0,1.0]}}`, `{"a":{"b/c":[0,1]}}`, "at /a/b~1c/1: want 1.0, got 1"},
		{"large", `9007199254740993`, `9007199254740992`, "at the top: want 9007199254740993, got 9007199254740992"},
		{"beyond doubles", `1e400`, `1E400`, "at the top: want 1e400, got 1E400"},
		{"negative zero", `[-0]`, `[0]`, "at /0: want -0, got 0"},
		{"order", `{"a":1,"b":2}`, `{"b":2,"a":1}`, `at /a: want "a", got "b"`},
		{"missing", `{"a":1,"b":2}`, `{"a":1}`, `at /b: want "b", got }`},
		{"more", `[1]`, `[1,2]`, `at`},
		{"number and string", `[1]`, `["1"]`, `at /0: want 1, got "1"`},
		{"duplicate names", `{"a":1,"a":2}`, `{"a":2}`, "at /a: want 1, got 2"},
		{"normal forms", `"\u00e9"`, `"e\u0301"`, "at the top"},
		{"lone surrogates", `"\ud800"`, `"\ud801"`, "at the top"},
		{"broken", `{"a":1}`, `{"a":`, "at /a: want 1, got "},
		{"trailing", `1`, `1 2`, "want the end, got 2"},
	}
	for _, tt := range tests {
		if got := Diff([]byte(tt.want), []byte(tt.got)); tt.diff == "" && got != "" || !strings.Contains(got, tt.diff) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.diff)
		}
	}
}
