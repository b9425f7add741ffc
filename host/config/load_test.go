package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestLookUp puts a file in every place where one is looked for, and removes them one by
// one.
func TestLookUp(t *testing.T) {
	home, dir, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	const text = "[store]\ndir = \"/nowhere\"\n" // must not change where to look
	flag := write(t, filepath.Join(elsewhere, "flag.toml"), text)
	named := write(t, filepath.Join(elsewhere, "named.conf"), text)
	dirTOML := write(t, filepath.Join(dir, "config.toml"), text)
	dirJSON := write(t, filepath.Join(dir, "config.json"), `{"store": {"dir": "/nowhere"}}`)
	homeTOML := write(t, filepath.Join(home, ".mcp-metatool", "config.toml"), text)
	homeJSON := write(t, filepath.Join(home, ".mcp-metatool", "config.json"), `{}`)

	steps := []struct {
		flag string
		env  map[string]string
		want string // the file that is read
	}{
		{flag, map[string]string{EnvConfig: named, EnvDir: dir}, flag},
		{"", map[string]string{EnvConfig: named, EnvDir: dir}, named},
		{"", map[string]string{EnvConfig: "", EnvDir: dir}, dirTOML},
		{"", map[string]string{EnvDir: dir}, dirJSON},
		{"", map[string]string{EnvDir: dir}, ""},
		{"", map[string]string{EnvDir: ""}, homeTOML},
		{"", nil, homeJSON},
		{"", nil, ""},
	}
	for i, step := range steps {
		c, err := Load(testOptions(step.flag, home, step.env))
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if c.Path != step.want {
			t.Errorf("step %d: read %q, want %q", i, c.Path, step.want)
		}
		if (c.Path == "") != (len(c.Searched) == 2) {
			t.Errorf("step %d: path %q, searched %q", i, c.Path, c.Searched)
		}
		if c.Path == dirTOML || c.Path == homeTOML {
			if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], "config.json is not read") {
				t.Errorf("step %d: warnings %q, want one about config.json", i, w)
			}
		}
		if step.want != "" {
			if err := os.Remove(step.want); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestEmptyConfiguration(t *testing.T) {
	home := t.TempDir()
	c, err := Load(testOptions("", home, nil))
	if err != nil {
		t.Fatal(err)
	}
	if c.StartupWait != 5*time.Second || c.MaxMessage != 64<<20 || c.Debug || len(c.Upstreams) != 0 ||
		c.Execution != (Execution{
			Timeout: 30 * time.Second, MaxMemory: 128 << 20, MaxFuel: 10_000_000_000, MaxCalls: 1000,
			MaxArguments: 16 << 20, MaxAnswer: 16 << 20, MaxResult: 16 << 20, MaxLogs: 1 << 20,
			MaxQueued: 10_000, MaxParallel: 16, UndoTimeout: 10 * time.Second, TaskAfter: 10 * time.Second, ToolCalls: ToolCallsShort,
		}) ||
		c.Store.Dir != filepath.Join(home, ".mcp-metatool") {
		t.Errorf("defaults: %+v", c)
	}
}

func TestEnvironment(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.toml"),
		"[execution]\ntimeout = \"7s\"\ndebug = true\n[store]\ndir = \"in-file\"\n")
	inFile := filepath.Join(filepath.Dir(file), "in-file")
	home := t.TempDir()
	type want struct {
		timeout time.Duration
		debug   bool
		dir     string
	}
	tests := map[string]struct {
		env  map[string]string
		want want
		err  string
	}{
		"nothing":        {nil, want{7 * time.Second, true, inFile}, ""},
		"empty is unset": {map[string]string{EnvTimeout: "", EnvDebug: "", EnvDir: ""}, want{7 * time.Second, true, inFile}, ""},
		"all": {map[string]string{EnvTimeout: "1500", EnvDebug: "false", EnvDir: "~/mine"},
			want{1500 * time.Millisecond, false, filepath.Join(home, "mine")}, ""},
		"0 and True": {map[string]string{EnvDebug: "True"}, want{7 * time.Second, true, inFile}, ""},
		"zero":       {map[string]string{EnvDebug: "0"}, want{7 * time.Second, false, inFile}, ""},
		"all bad": {map[string]string{EnvTimeout: "30s", EnvDebug: "yes", EnvDir: "~other/x"}, want{},
			`env MCP_METATOOL_TIMEOUT: "30s" is not a number of milliseconds (for thirty seconds: 30000)
env MCP_METATOOL_DEBUG: "yes" is neither true nor false
env MCP_METATOOL_DIR: the home directory of another user (~name) is not looked up: write the path out`},
		"negative": {map[string]string{EnvTimeout: "-1"}, want{},
			"env MCP_METATOOL_TIMEOUT: -1 is out of bounds: at least 1, at most 86400000 (milliseconds)"},
		"too large": {map[string]string{EnvTimeout: "99999999999999999999"}, want{},
			`env MCP_METATOOL_TIMEOUT: "99999999999999999999" is not a number of milliseconds (for thirty seconds: 30000)`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := Load(testOptions(file, home, test.env))
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Fatalf("error:\n%v\nwant:\n%s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := (want{c.Execution.Timeout, c.Debug, c.Store.Dir}); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestFileProblems(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.toml")
	large := write(t, filepath.Join(dir, "large.toml"), "#"+strings.Repeat(" ", maxFile))
	tests := map[string]struct {
		opts LoadOptions
		want string
	}{
		"missing": {testOptions(missing, dir, nil), missing + ": there is no such file (named by --config)"},
		"missing by environment": {testOptions("", dir, map[string]string{EnvConfig: missing}),
			missing + ": there is no such file (named by MCP_METATOOL_CONFIG)"},
		"directory": {testOptions(dir, dir, nil), dir + ": cannot be read: " + syscall.EISDIR.Error()},
		"large":     {testOptions(large, dir, nil), large + ": has more than the 1MiB a configuration may have"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load(test.opts)
			if err == nil || err.Error() != test.want {
				t.Errorf("error: %v\nwant:  %s", err, test.want)
			}
			var problem *Problem
			if !errors.As(err, &problem) {
				t.Errorf("%T is no Problem", err)
			}
			if strings.HasPrefix(name, "missing") != errors.Is(err, ErrNotFound) {
				t.Errorf("errors.Is(%v, ErrNotFound) is wrong", err)
			}
		})
	}
}

func TestUnsetErrorIsTyped(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "config.toml"), "[upstream.github]\ncommand = \"x\"\nargs = [\"--token\", \"${GITHUB_TOKEN}\"]\n")
	_, err := Load(testOptions(file, t.TempDir(), nil))
	var unset *UnsetError
	if !errors.As(err, &unset) || unset.Var != "GITHUB_TOKEN" {
		t.Fatalf("%v: want an UnsetError about GITHUB_TOKEN", err)
	}
	var problem *Problem
	if !errors.As(err, &problem) || problem.File != file || problem.Key != `upstream "github": args[1]` {
		t.Fatalf("%#v: file or key missing", problem)
	}
}

func TestNoHome(t *testing.T) {
	opts := testOptions("", "", nil)
	opts.Home = func() (string, error) { return "", errors.New("$HOME is not defined") }
	_, err := Load(opts)
	const want = "env MCP_METATOOL_DIR: is not set, nor is dir of [store], and the home directory is not known: $HOME is not defined (set one of them)"
	if err == nil || err.Error() != want {
		t.Fatalf("error: %v\nwant:  %s", err, want)
	}
	// If the store is set, no home directory is needed.
	dir := t.TempDir()
	opts.Flag = write(t, filepath.Join(dir, "c.toml"), "[store]\ndir = \"s\"\n")
	c, err := Load(opts)
	if err != nil || c.Store.Dir != filepath.Join(dir, "s") {
		t.Fatalf("%+v, %v", c, err)
	}
}

// TestSecretsAndProcess checks how a process is started, and which parts of that are
// secret.
func TestSecretsAndProcess(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "config.toml"), `
[upstream.a]
command = "x"
args = ["${TOKEN_A}", "--password", "literal-pass", "-c", "${HOME}", "${FLAG}", "${EMPTY:-plain}"]
env = { KEY = "${PEM}", OTHER = "x${TOKEN_A}y", PORT = "8080", PIN = "12" }
`)
	pem := "-----BEGIN-----\nbase64base64\n-----END-----\n"
	c, err := Load(testOptions(file, t.TempDir(), map[string]string{
		"TOKEN_A": "tok-0123456789", "HOME": "/home/me", "PEM": pem, "FLAG": "true", "EMPTY": "",
	}))
	if err != nil {
		t.Fatal(err)
	}
	u := c.Upstreams[0]
	wantArgs := []string{"tok-0123456789", "--password", "literal-pass", "-c", "/home/me", "true", "plain"}
	if !slices.Equal(u.Args, wantArgs) {
		t.Errorf("args %q, want %q", u.Args, wantArgs)
	}
	if u.Env["KEY"] != pem || u.Env["OTHER"] != "xtok-0123456789y" || u.Env["PORT"] != "8080" || len(u.Env) != 4 {
		t.Errorf("env %q", u.Env)
	}
	want := []string{pem, strings.TrimSpace(pem), "-----BEGIN-----", "tok-0123456789", "-----END-----", "base64base64", "literal-pass"}
	if !slices.Equal(c.Secrets, want) {
		t.Errorf("secrets %q\nwant    %q", c.Secrets, want)
	}
}

func TestExposesAndHides(t *testing.T) {
	tests := []struct {
		patterns []string
		tool     string
		exposes  bool
		hides    bool
	}{
		{nil, "get_x", true, false},
		{[]string{}, "get_x", false, false},
		{[]string{"get_*"}, "get_x", true, true},
		{[]string{"get_*"}, "list_x", false, false},
		{[]string{"list_?", "get_*"}, "get_x", true, true},
		{[]string{"fs*"}, "fs/read/all", true, true},
		{[]string{"fs/?ead"}, "fs/read", true, true},
		{[]string{"[a-c]*"}, "d", false, false},
		{[]string{"*"}, "", true, true},
		{[]string{"get"}, "get_x", false, false},
	}
	for _, test := range tests {
		u := Upstream{Expose: test.patterns, Hide: test.patterns}
		if u.Exposes(test.tool) != test.exposes || u.Hides(test.tool) != test.hides {
			t.Errorf("%q, %q: exposes %t, hides %t", test.patterns, test.tool, u.Exposes(test.tool), u.Hides(test.tool))
		}
	}
}
