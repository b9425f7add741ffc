package config

import (
	"errors"
	"slices"
	"testing"
)

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "aaa", "EMPTY": "", "NESTED": "${A}", "_x1": "u"}
	getenv := func(key string) (string, bool) { v, ok := env[key]; return v, ok }
	tests := []struct {
		in, want string
		unset    string // the variable that is not set
		bad      bool
	}{
		{in: "", want: ""},
		{in: "plain $5 $A $$ $", want: "plain $5 $A $$ $"},
		{in: "${A}", want: "aaa"},
		{in: "x${A}${_x1}y", want: "xaaauy"},
		{in: "${EMPTY}", want: ""},
		{in: "${EMPTY:-d}", want: "d"},
		{in: "${NO:-d}", want: "d"},
		{in: "${NO:-}", want: ""},
		{in: "${NO:-a:-b c$}", want: "a:-b c$"},
		{in: "${A:-d}", want: "aaa"},
		{in: "${NESTED}", want: "${A}"}, // values are not expanded again
		{in: "$${A}", want: "${A}"},
		{in: "$${A} ${A}", want: "${A} aaa"},
		{in: "$$${A}", want: "$${A}"},
		{in: "${NO:-$}${A}", want: "$aaa"},
		{in: "$${", want: "${"},
		{in: "pa$$word", want: "pa$$word"},
		{in: "x${NO}y${A}", want: "xyaaa", unset: "NO"},
		{in: "${", bad: true},
		{in: "${}", bad: true},
		{in: "${1A}", bad: true},
		{in: "${A B}", bad: true},
		{in: "${A-d}", bad: true},
		{in: "${A:=d}", bad: true},
		{in: "${A:-${B}}", bad: true},
		{in: "${é}", bad: true},
	}
	for _, test := range tests {
		e, errs := expand(test.in, getenv)
		if test.bad {
			if !slices.Contains(errs, errExpression) {
				t.Errorf("expand(%q): errors %v, want errExpression", test.in, errs)
			}
			continue
		}
		if e.text != test.want {
			t.Errorf("expand(%q) = %q, want %q", test.in, e.text, test.want)
		}
		var unset *UnsetError
		if got := errors.As(errors.Join(errs...), &unset); got != (test.unset != "") || got && unset.Var != test.unset {
			t.Errorf("expand(%q): errors %v, want one about %q", test.in, errs, test.unset)
		}
	}
}

func TestLooksSecret(t *testing.T) {
	for _, name := range []string{
		"GITHUB_TOKEN", "--token", "-token", "--api-key", "API_KEY", "apiKey", "clientSecret", "DB_PASSWORD", "DB_PWD",
		"AWS_SECRET_ACCESS_KEY", "Authorization", "X-Api-Key", "githubtoken", "PASSPHRASE", "GITHUB_PAT", "TOKEN_2", "KEY",
	} {
		if !looksSecret(name) {
			t.Errorf("%s does not look secret", name)
		}
	}
	for _, name := range []string{
		"", "--", "LOG", "PORT", "MONKEY", "KEYBOARD", "--max-tokens", "TOKEN_FILE", "API_KEY_ID", "SECRET_PATH",
		"PWD", "tokenizer", "PATH", "AUTHOR", "PATTERN", "TOKEN_LIMIT",
	} {
		if looksSecret(name) {
			t.Errorf("%s looks secret", name)
		}
	}
}

func TestSecretParts(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"TOKEN", "abc", "****"},
		{"--token", "abc", "****"},
		{"TOKEN", "", ""},
		{"TOKEN", "none", "none"},
		{"AUTH", "Bearer abc", "Bearer ****"},
		{"LOG", "abc", "abc"},
		{"", "--token=abc", "--token=****"},
		{"", "--token=", "--token="},
		{"-e", "GITHUB_TOKEN=abc", "GITHUB_TOKEN=****"},
		{"-e", "LOG=abc", "LOG=abc"},
		{"--header", "Authorization: Bearer a.b=c", "Authorization: Bearer ****"},
		{"--header", "Authorization:abc", "Authorization:****"},
		{"", "--header=X-Api-Key: abc", "--header=X-Api-Key: ****"},
		{"", "--env=A=TOKEN=abc", "--env=A=TOKEN=****"},
		{"DATABASE_URL", "postgres://me:hunter2@db/x?a=b", "postgres://me:****@db/x?a=b"},
		{"", "https://h/x?a=b&api_key=abc&c=d", "https://h/x?a=b&api_key=****&c=d"},
		{"", "https://host:8080/x@y", "https://host:8080/x@y"},
		{"", "http://me@host/", "http://me@host/"},
	}
	for _, test := range tests {
		if got := maskSpans(test.value, secretParts(test.name, test.value)); got != test.want {
			t.Errorf("%s %q is shown as %q, want %q", test.name, test.value, got, test.want)
		}
	}
}

func TestNearestKey(t *testing.T) {
	known := []string{"command", "args", "env", "cwd", "timeout", "max_memory"}
	tests := map[string]string{
		"comand": "command", "Command": "command", "arg": "args", "envs": "env", "time_out": "timeout",
		"maxMemory": "max_memory", "max-memory": "max_memory", "url": "", "x": "", "": "", "dir": "cwd",
	}
	for key, want := range tests {
		if got := nearestKey(key, known, upstreamAliases); got != want {
			t.Errorf("nearestKey(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestLineColumn(t *testing.T) {
	data := []byte("ab\nçd\n")
	tests := []struct{ offset, line, column int }{
		{-1, 1, 1}, {0, 1, 1}, {2, 1, 3}, {3, 2, 1}, {5, 2, 2}, {7, 3, 1}, {99, 3, 1},
	}
	for _, test := range tests {
		if line, column := lineColumn(data, test.offset); line != test.line || column != test.column {
			t.Errorf("lineColumn(%d) = %d, %d", test.offset, line, column)
		}
	}
}
