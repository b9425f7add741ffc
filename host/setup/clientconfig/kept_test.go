package clientconfig

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestKept checks that an entry keeps the arguments, variables and keys that a person has
// added, and that doing it again changes nothing.
func TestKept(t *testing.T) {
	t.Parallel()
	s := testSystem("linux")
	e := &Entry{Name: "m", Command: "/bin/mcp-metatool", Args: []string{"--config", "/new"}, Pass: []string{"A", "B"}}
	for host, tt := range map[string]struct {
		text string
		want []string
	}{
		"codex": {"[mcp_servers.m] # mine\ncommand = \"/old/mcp-metatool\"\nargs = [\"serve\", \"-c\", \"/old\", \"--log-level\", \"debug\"]\nenv_vars = [\"MINE\", \"A\"]\nstartup_timeout_sec = 60\nwhatever = true\n",
			[]string{`args = ["serve", "--config", "/new", "--log-level", "debug"]`, `env_vars = ["MINE", "A", "B"]`, "startup_timeout_sec = 60", "whatever = true", "# mine", `command = "/bin/mcp-metatool"`}},
		"cursor": {`{"mcpServers": {"m": {"command": "npx", "args": ["-y", "mcp-metatool@1", "--config=/old", "--debug"], "cwd": "/x", "envFile": "/y"}}}`,
			[]string{`"--config",`, `"/new"`, `"--debug"`, `"cwd": "/x"`, `"envFile": "/y"`, `"/bin/mcp-metatool"`}},
	} {
		f, entry := fileOf(t, s, host, User), *e
		if host != "codex" {
			entry.Pass = nil
		}
		after, err := f.Set([]byte(tt.text), &entry)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if !strings.Contains(string(after), want) {
				t.Errorf("%s: no %s in\n%s", host, want, after)
			}
		}
		if strings.Contains(string(after), "old") || strings.Contains(string(after), "@1") {
			t.Errorf("%s: the old place is still there\n%s", host, after)
		}
		again, err := f.Set(after, &entry)
		if err != nil || string(again) != string(after) {
			t.Errorf("%s: not idempotent: %v\n%s", host, err, again)
		}
	}
	_, err := (&File{Host: Lookup("codex"), Under: []string{"mcp_servers"}}).Set([]byte("[mcp_servers.m]\ncommand = \"mcp-metatool\"\nenv_vars = [{ name = \"X\" }]\n"), e)
	if !errors.Is(err, ErrShape) {
		t.Errorf("variables that are tables: %v", err)
	}
}

// TestSecretsStayOut checks that links and commands of hosts have no values of variables in
// them, and no name that is an option.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	e := &Entry{Name: "m", Command: "/bin/m", Env: []Setting{{"KEY", "hunter2"}}}
	for _, host := range []string{"cursor", "vscode"} {
		for _, l := range e.Links(Lookup(host), []string{"KEY"}) {
			if strings.Contains(l.URL, "hunter2") || strings.Contains(l.URL, "aHVudGVyMg") || strings.Contains(l.URL, "h1bnRlcj") {
				t.Error(l.URL)
			}
		}
	}
	e.Name = "--eval=x"
	for _, host := range []string{"claude-code", "codex", "vscode"} {
		if add, remove := e.AddCommand(Lookup(host), User), RemoveCommand(Lookup(host), User, e.Name); add != nil || remove != nil {
			t.Errorf("%q, %q", add, remove)
		}
	}
}

// TestSecretTexts checks that secrets anywhere in a file are found, and those in its comments.
func TestSecretTexts(t *testing.T) {
	t.Parallel()
	const text = `{
  // "OLD_TOKEN": "hunter0",
  "apiKey": "hunter1",
  "mcpServers": {"a": {"command": "a", "args": ["--password", "hunter2", "--token=hunter3", "plain"], "env": {"MY_SECRET": "hunter4", "LEVEL": "debug"}}},
  "other": [{"headers": {"Authorization": "Bearer hunter5"}}, "https://me:hunter6@host/?key=hunter7", "${API_KEY}"],
}
`
	s := testSystem("linux")
	l := &Listing{File: fileOf(t, s, "cursor", User), Data: []byte(text)}
	found := l.SecretTexts()
	slices.Sort(found)
	if want := []string{"hunter1", "hunter2", "hunter3", "hunter4", "hunter5", "hunter6", "hunter7"}; !slices.Equal(found, want) {
		t.Errorf("%q", found)
	}
	masked := MaskLines(text)
	for _, shown := range []string{`"LEVEL": "debug"`, `"plain"`, `"${API_KEY}"`, `// "OLD_TOKEN": "****"`} {
		if !strings.Contains(masked, shown) {
			t.Errorf("no %s in\n%s", shown, masked)
		}
	}
	if strings.Contains(masked, "hunter") {
		t.Error(masked)
	}
	if got := MaskLines("+A_TOKEN = \"${keyring:A_TOKEN}\"\n+env = { KEY = 'it' } # token = \"\\\"x\\\"\"\n+args = [\"--api-key\", \"abc\"]\n"); got != "+A_TOKEN = \"${keyring:A_TOKEN}\"\n+env = { KEY = '****' } # token = \"****\"\n+args = [\"--api-key\", \"****\"]\n" {
		t.Errorf("%q", got)
	}
}

func TestTransient(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/opt/homebrew/Cellar/mcp-metatool/1.2.3/bin/mcp-metatool": true, "/home/me/.npm/_npx/0a/node_modules/.bin/mcp-metatool": true,
		"/home/me/.cache/go-build/00/mcp-metatool": true, "/nix/store/abc-mcp-metatool/bin/mcp-metatool": true,
		"/opt/homebrew/bin/mcp-metatool": false, "/usr/local/bin/mcp-metatool": false, "/home/me/store/x": false,
	} {
		if got := Transient(path); (got != "") != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// TestNoTools checks that an empty list of tools means none.
func TestNoTools(t *testing.T) {
	t.Parallel()
	s := testSystem("linux")
	servers, err := parse(s, fileOf(t, s, "codex", User), []byte("[mcp_servers.a]\ncommand = \"a\"\nenabled_tools = []\n[mcp_servers.b]\ncommand = \"b\"\n"))
	if err != nil || servers[0].Expose == nil || len(servers[0].Expose) > 0 || servers[1].Expose != nil {
		t.Errorf("%v, %+v", err, servers)
	}
}

func TestFetches(t *testing.T) {
	t.Parallel()
	s := &Server{Command: "x", Args: []string{"${cmd:pass show a}", "$${cmd:no}", "${A}${B:-x}"}, Env: []Setting{{"A", "${keyring:K} ${file:~/f}"}}}
	var got []string
	for _, r := range s.Fetches() {
		got = append(got, r.String())
	}
	if !slices.Equal(got, []string{"${cmd:pass show a}", "${keyring:K}", "${file:~/f}"}) || !slices.Equal(s.Needs(), []string{"A"}) {
		t.Errorf("%q, %q", got, s.Needs())
	}
}
