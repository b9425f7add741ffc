package clientconfig

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// testSystem is a system of the given kind with fixed places.
func testSystem(os string) *System {
	return &System{OS: os, Home: "/home/me", Project: "/work/app", Getenv: func(string) string { return "" }}
}

// fileOf returns the place of a host and scope.
func fileOf(t *testing.T, s *System, host string, scope Scope) File {
	t.Helper()
	for _, f := range Lookup(host).Files(s) {
		if f.Scope == scope {
			return f
		}
	}
	t.Fatalf("%s has no scope %s", host, scope)
	return File{}
}

func TestPlaces(t *testing.T) {
	if filepath.Separator != '/' {
		t.Skip("the places are written with slashes")
	}
	tests := []struct {
		os, host string
		scope    Scope
		want     string
	}{
		{"linux", "claude-code", User, "/home/me/.claude.json"},
		{"linux", "claude-code", Project, "/work/app/.mcp.json"},
		{"linux", "claude-code", Local, "/home/me/.claude.json"},
		{"linux", "claude-desktop", User, "/home/me/.config/Claude/claude_desktop_config.json"},
		{"darwin", "claude-desktop", User, "/home/me/Library/Application Support/Claude/claude_desktop_config.json"},
		{"windows", "claude-desktop", User, "/home/me/AppData/Roaming/Claude/claude_desktop_config.json"},
		{"darwin", "cursor", User, "/home/me/.cursor/mcp.json"},
		{"linux", "cursor", Project, "/work/app/.cursor/mcp.json"},
		{"linux", "vscode", User, "/home/me/.config/Code/User/mcp.json"},
		{"darwin", "vscode", User, "/home/me/Library/Application Support/Code/User/mcp.json"},
		{"linux", "vscode", Project, "/work/app/.vscode/mcp.json"},
		{"linux", "codex", User, "/home/me/.codex/config.toml"},
		{"linux", "codex", Project, "/work/app/.codex/config.toml"},
		{"windows", "windsurf", User, "/home/me/.codeium/windsurf/mcp_config.json"},
		{"linux", "zed", User, "/home/me/.config/zed/settings.json"},
		{"darwin", "zed", User, "/home/me/.config/zed/settings.json"},
		{"windows", "zed", User, "/home/me/AppData/Roaming/Zed/settings.json"},
	}
	for _, tt := range tests {
		if got := fileOf(t, testSystem(tt.os), tt.host, tt.scope).Path; got != tt.want {
			t.Errorf("%s, %s, %s: got %s, want %s", tt.os, tt.host, tt.scope, got, tt.want)
		}
	}
	s := testSystem("linux")
	s.Getenv = func(name string) string {
		return map[string]string{"CODEX_HOME": "/data/codex", "CLAUDE_CONFIG_DIR": "relative"}[name]
	}
	if got := fileOf(t, s, "codex", User).Path; got != "/data/codex/config.toml" {
		t.Error(got)
	}
	if got := fileOf(t, s, "claude-code", User).Path; got != "/home/me/.claude.json" {
		t.Error(got)
	}
}

// describe returns what was read of a server as one line of text.
func describe(s *Server) string {
	parts := []string{s.Name}
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	add("transport", string(s.Transport))
	add("command", s.Command)
	add("args", strings.Join(s.Args, "|"))
	for _, e := range s.Env {
		add("env."+e.Name, e.Value)
	}
	add("cwd", s.Dir)
	add("url", s.URL)
	for _, h := range s.Headers {
		add("header."+h.Name, h.Value)
	}
	add("expose", strings.Join(s.Expose, "|"))
	add("hide", strings.Join(s.Hide, "|"))
	if s.Timeout != 0 {
		add("timeout", s.Timeout.String())
	}
	if s.Disabled {
		add("disabled", "true")
	}
	if s.Self {
		add("self", "true")
	}
	var refs []string
	for _, r := range s.References {
		refs = append(refs, r.Name+":"+r.Value)
	}
	add("refs", strings.Join(refs, "|"))
	add("problem", s.Problem)
	add("notes", strings.Join(s.Notes, "; "))
	return strings.Join(parts, " ")
}

func TestParse(t *testing.T) {
	if filepath.Separator != '/' {
		t.Skip("the paths are written with slashes")
	}
	tests := []struct {
		name, host string
		scope      Scope
		text       string
		want       []string
	}{
		{
			"claude-code", "claude-code", User,
			`{"other": 1, "mcpServers": {
				"a b!": {"type": "stdio", "command": "npx", "args": ["-y", "${PKG:-x}", "$HOME", "${env:X}"], "env": {"TOKEN": "${TOKEN}", "N": 5}},
				"r": {"type": "http", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${T}"}, "oauth": {}, "new": 1},
				"s": {"type": "sse", "url": "https://x.example/sse"}, "w": {"type": "ws", "url": "wss://x"}, "n": {}, "z": 5,
				"m": {"command": "/opt/mcp-metatool", "args": ["--config", "/c.toml"]}, "d": {"command": "mcp-metatool", "args": ["demo-upstream", "harbour"]}}}`,
			[]string{
				"a-b transport=stdio command=npx args=-y|${PKG:-x}|$HOME|$${env:X} env.TOKEN=${TOKEN} env.N=5 notes=it is called a-b here: names are 1 to 32 letters, digits, _ and -; ${env:X} is not a variable that can be taken over, and stays as text",
				`r transport=http url=https://x.example/mcp header.Authorization=Bearer ${T} notes=oauth is left out (log in with: mcp-metatool auth r); unknown key "new" is left out`,
				"s transport=sse url=https://x.example/sse",
				`w problem=has the transport "ws", which is not supported (there are stdio, http and sse)`,
				"n problem=has neither a command nor an address",
				"z problem=is not an object",
				"m transport=stdio command=/opt/mcp-metatool args=--config|/c.toml self=true",
				"d transport=stdio command=mcp-metatool args=demo-upstream|harbour",
			},
		},
		{
			"claude-code, local", "claude-code", Local,
			`{"mcpServers": {"u": {"command": "u"}}, "projects": {"/work/app": {"mcpServers": {"l": {"command": "./bin/l"}}}, "/else": {"mcpServers": {"e": {"command": "e"}}}}}`,
			[]string{"l transport=stdio command=/work/app/bin/l cwd=/work/app"},
		},
		{
			"vscode", "vscode", Project,
			`{ // servers of this folder
				"inputs": [{"type": "promptString", "id": "api-key", "password": true}],
				"servers": {"a": {"type": "stdio", "command": "${workspaceFolder}/run", "args": ["${env:HOME}", "${input:api-key}"], "envFile": ".env",},},
			}`,
			[]string{"a transport=stdio command=/work/app/run args=${HOME}|${API_KEY} cwd=/work/app refs=HOME:${env:HOME}|API_KEY:${input:api-key} notes=${input:api-key}, which the host asks for, becomes the environment variable API_KEY; envFile is left out (set its variables in env, or in the environment of the host)"},
		},
		{
			"cursor", "cursor", User, `{"mcpServers": {"a": {"command": "bin/a", "args": ["${userHome}/x", "${workspaceFolder}"], "disabled": true}}}`,
			[]string{"a transport=stdio command=/home/me/.cursor/bin/a args=/home/me/x|/work/app disabled=true notes=${workspaceFolder} becomes /work/app: mcp-metatool does not know which folder the host has open"},
		},
		{
			"codex", "codex", User,
			"model = \"x\"\n[mcp_servers.b]\ncommand = \"b\"\nargs = [\"${X}\"]\nenv_vars = [\"TOKEN\"]\nenabled_tools = [\"x\"]\ntool_timeout_sec = 2.5\n[mcp_servers.b.env]\nA = \"1\"\n[mcp_servers.a]\nurl = \"https://a.example/mcp\"\nbearer_token_env_var = \"T\"\nenabled = false\nenv_http_headers = { X = \"Y\" }\n",
			[]string{
				"b transport=stdio command=b args=$${X} env.A=1 env.TOKEN=${TOKEN:-} expose=x timeout=2.5s refs=TOKEN:${TOKEN}",
				"a transport=http url=https://a.example/mcp header.X=${Y} header.Authorization=Bearer ${T} disabled=true refs=Y:${Y}|T:${T}",
			},
		},
		{
			"windsurf", "windsurf", User, `{"mcpServers": {"a": {"serverUrl": "https://a.example/mcp", "headers": {"X-Key": "${env:KEY}"}, "disabledTools": ["rm"]}}}`,
			[]string{"a transport=http url=https://a.example/mcp header.X-Key=${KEY} hide=rm refs=KEY:${env:KEY}"},
		},
		{
			"zed", "zed", User,
			`{"theme": "x", "context_servers": {"a": {"source": "custom", "command": "a", "args": []}, "b": {"source": "extension", "settings": {}}, "c": {"command": {"path": "c", "args": ["1"], "env": {"A": "${B}"}}}}}`,
			[]string{
				"a transport=stdio command=a", "b problem=belongs to an extension of the host, which knows how to start it (give its command to: mcp-metatool add)",
				"c transport=stdio command=c args=1 env.A=$${B}",
			},
		},
		{"empty", "cursor", User, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := testSystem("linux")
			servers, err := parse(s, fileOf(t, s, tt.host, tt.scope), []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range servers {
				got = append(got, describe(&servers[i]))
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestHostileFiles checks that files that cannot be understood are refused, and that errors
// do not quote them.
func TestHostileFiles(t *testing.T) {
	s := testSystem("linux")
	for _, tt := range []struct {
		host, text string
		want       error
	}{
		{"cursor", `{"mcpServers": {"a": {"env": {"TOKEN": hunter2}}}}`, ErrSyntax},
		{"cursor", `{"mcpServers": "hunter2"}`, ErrShape},
		{"cursor", `["hunter2"]`, ErrShape},
		{"cursor", strings.Repeat("[", 100_000), ErrSyntax},
		{"cursor", "{\"a\": \"hunter2", ErrSyntax},
		{"codex", "[mcp_servers.a]\ncommand = hunter2\n", ErrSyntax},
		{"codex", "mcp_servers = \"hunter2\"\n", ErrShape},
		{"codex", "a = " + strings.Repeat("[", 100_000), ErrSyntax},
	} {
		_, err := parse(s, fileOf(t, s, tt.host, User), []byte(tt.text))
		if !errors.Is(err, tt.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.40s: %v", tt.text, err)
		}
	}
}

// TestReadRefuses checks that files are not read that have no end or are too large.
func TestReadRefuses(t *testing.T) {
	f := File{Host: Lookup("cursor"), Path: filepath.Join(t.TempDir(), "mcp.json"), Scope: User, Under: []string{"mcpServers"}}
	if l, err := Read(t.Context(), testSystem("linux"), f); err != nil || l.Exists {
		t.Error(l, err)
	}
	if err := os.WriteFile(f.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(f.Path, MaxFile+1); err != nil {
		t.Fatal(err)
	}
	size := new(regular.SizeError)
	if _, err := Read(t.Context(), testSystem("linux"), f); !errors.As(err, &size) || !strings.HasPrefix(err.Error(), f.Path+": ") {
		t.Error(err)
	}
	f.Path = filepath.Dir(f.Path)
	if _, err := Read(t.Context(), testSystem("linux"), f); !errors.Is(err, regular.ErrNotRegular) {
		t.Error(err)
	}
}

func TestCheckWrite(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := func(parts ...string) string {
		d := filepath.Join(append([]string{root}, parts...)...)
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		return d
	}
	s := &System{OS: "linux", Home: dir("home"), Project: dir("home", "app"), Getenv: func(string) string { return "" }}
	link := func(to, at string) {
		if err := os.Symlink(to, at); err != nil {
			t.Skip(err)
		}
	}
	user, project := fileOf(t, s, "cursor", User), fileOf(t, s, "cursor", Project)
	for _, f := range []File{user, project} { // nothing exists yet
		if err := f.CheckWrite(s); err != nil {
			t.Error(err)
		}
	}
	link(dir("home", "dotfiles"), filepath.Join(s.Home, ".cursor")) // dotfiles in the home directory are fine
	if err := user.CheckWrite(s); err != nil {
		t.Error(err)
	}
	link(dir("home", "dotfiles"), filepath.Join(s.Project, ".cursor")) // but a repository must not lead there
	if err := project.CheckWrite(s); !errors.Is(err, ErrElsewhere) {
		t.Error(err)
	}
	link(filepath.Join(dir("etc"), "x"), filepath.Join(dir("home", "dotfiles"), "mcp.json"))
	if err := user.CheckWrite(s); err == nil {
		t.Error("a link to nothing outside of the home directory was accepted")
	}
}

func TestSecrets(t *testing.T) {
	const random = "q7Vx2Lm9Kp4Rt8Zw1Nc6"
	taken := map[string]string{"GITHUB_TOKEN": "another"}
	s := Server{
		Name: "gh", Env: []Setting{{"GITHUB_TOKEN", "hunter2-hunter2"}, {"LEVEL", "debug"}, {"API_KEY", "${KEY}"}, {"X", random}},
		Args: []string{
			"-y", "@modelcontextprotocol/server-github", "--api-key", "abcd1234", "--token=zzzz9999", "/home/me/project-2024/data",
			"ghp_abcdefghijklmnopqrstuvwxyz0123456789", "image@sha256:0123456789abcdef0123456789abcdef", "d5e0c7b0-8c1f-4e0e-9a57-2b8b5b0d8a11",
		},
		URL:     "https://me:hunter3@x.example/mcp?api_key=hunter4&x=1",
		Headers: []Setting{{"Authorization", "Bearer hunter5"}, {"X-Api-Key", "hunter6"}},
	}
	secrets := s.Secrets(taken)
	s.Replace(secrets, func(secret Secret) string { return "${" + secret.Variable + "}" })
	want := "gh args=-y|@modelcontextprotocol/server-github|--api-key|${GH_API_KEY}|--token=${GH_TOKEN}|/home/me/project-2024/data|${GH_SECRET}|image@sha256:0123456789abcdef0123456789abcdef|d5e0c7b0-8c1f-4e0e-9a57-2b8b5b0d8a11" +
		" env.GITHUB_TOKEN=${GH_GITHUB_TOKEN} env.LEVEL=debug env.API_KEY=${KEY} env.X=${X}" +
		" url=https://me:${GH_SECRET_2}@x.example/mcp?api_key=${GH_SECRET_3}&x=1" +
		" header.Authorization=Bearer ${GH_TOKEN_2} header.X-Api-Key=${GH_API_KEY_2}"
	if got := describe(&s); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestSecretForms checks which parts of a text look random. Those of a path do not, whatever
// the names in it are.
func TestSecretForms(t *testing.T) {
	const random = "q7Vx2Lm9Kp4Rt8Zw1Nc6"
	for text, secret := range map[string]bool{
		random: true, "a/b." + random: true, "https://x.example/v1." + random: true, "/x?k.a=" + random: true,
		"/home/first.last/" + random: false, "~/a.b" + random + "/c": false, "../a." + random: false, "--root=/a.b/" + random: false,
		`C:\Users\` + random: false, "cat /a.b/" + random: false, "/tmp/x.Yz3Kq9Lm2P/test-2345388741": false,
	} {
		if got := len(secretForms(text)) > 0; got != secret {
			t.Errorf("%s has a secret: %v", text, got)
		}
	}
}

// TestHomeIsProject checks that a file counts once if the project is the home folder.
func TestHomeIsProject(t *testing.T) {
	for _, h := range hosts {
		s := testSystem("linux")
		s.Project = s.Home
		seen := map[string]bool{}
		for _, f := range h.Files(s) {
			at := f.Path + "#" + strings.Join(f.Under, "/")
			if seen[at] {
				t.Errorf("%s: %s twice", h.Name, at)
			}
			seen[at] = true
		}
		if len(seen) == 0 || h.Files(s)[0].Scope != User {
			t.Errorf("%s: %v", h.Name, h.Files(s))
		}
	}
}
