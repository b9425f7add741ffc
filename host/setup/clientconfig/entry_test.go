package clientconfig

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
)

// FuzzImport checks that what is read of a host's file can be written into our
// configuration, and is read from there as the same.
func FuzzImport(f *testing.F) {
	for _, s := range []string{
		`{"mcpServers": {"a": {"command": "x", "args": ["${env:A}", "$${B}", "${C", "\u0000\n'\"\\"], "env": {"A": "1", "": "2"}}}}`,
		`{"mcpServers": {"a b": {"url": "https://x/${userHome}", "headers": {"X": "${input:y}"}, "disabledTools": ["x"], "disabled": true}}}`,
		`{"mcpServers": {"server": {"command": "./x", "cwd": "~", "enabled": false}, "params": {"command": "p"}, "é": {"command": "q"}}}`,
	} {
		f.Add([]byte(s))
	}
	s := testSystem("linux")
	place := Lookup("cursor").Files(s)[0]
	f.Fuzz(func(t *testing.T, text []byte) {
		servers, err := parse(s, place, text)
		if err != nil {
			return
		}
		for i := range servers {
			srv := &servers[i]
			if srv.Problem != "" || !allowedName.MatchString(srv.Name) {
				continue
			}
			srv.Replace(srv.Secrets(map[string]string{}), func(s Secret) string { return "${" + s.Variable + "}" })
			file := edit.New("c.toml", nil)
			if err := srv.Write(file); err != nil {
				continue // invalid UTF-8, for example
			}
			ours, err := ReadMetatool(s, "c.toml", file.Text())
			if err != nil || len(ours) != 1 {
				t.Fatalf("%v\n%s", err, file.Text())
			}
			if d := Compare(&ours[0], srv, s.Home); d != nil {
				t.Errorf("%+v\n%s", d, file.Text())
			}
		}
	})
}

func TestEntryTOML(t *testing.T) {
	s := testSystem("linux")
	f := fileOf(t, s, "codex", User)
	e := &Entry{Name: "metatool", Command: "/bin/m", Args: []string{"--config", "/c"}, Env: []Setting{{"A", "1"}}, Pass: []string{"T"}}
	const before = "# mine\nmodel = \"x\" # fast\n\n[mcp_servers.other]\ncommand = \"o\"\n"
	text, err := f.Set([]byte(before), e)
	if err != nil {
		t.Fatal(err)
	}
	servers, err := parse(s, f, text)
	if err != nil || len(servers) != 2 || describe(&servers[1]) != "metatool transport=stdio command=/bin/m args=--config|/c env.A=1 env.T=${T:-} refs=T:${T}" {
		t.Errorf("%v, %+v\n%s", err, servers, text)
	}
	again, err := f.Set(text, e)
	if err != nil || string(again) != string(text) {
		t.Errorf("not idempotent: %v\n%s", err, again)
	}
	after, removed, err := f.Remove(text, "metatool")
	if err != nil || !removed || string(after) != before {
		t.Errorf("%v, %v\n%s", removed, err, after)
	}
	if _, removed, err := f.Remove(after, "metatool"); removed || err != nil {
		t.Error(removed, err)
	}
}

// TestEntryKeeps checks that an entry that is brought up to date keeps what users have
// added to it.
func TestEntryKeeps(t *testing.T) {
	s := testSystem("linux")
	f := fileOf(t, s, "cursor", User)
	text := `{"mcpServers": {"m": {"command": "/old/mcp-metatool", "args": [], "env": {"MINE": "1"}, "autoApprove": ["x"]}}}`
	got, err := f.Set([]byte(text), &Entry{Name: "m", Command: "/bin/m", Env: []Setting{{"A", "2"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"/bin/m"`, `"MINE": "1"`, `"A": "2"`, `"autoApprove": ["x"]`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// TestEntryEnables checks that an entry that is disabled is enabled.
func TestEntryEnables(t *testing.T) {
	t.Parallel()
	s := testSystem("linux")
	for host, text := range map[string]string{
		"cursor": `{"mcpServers": {"m": {"command": "/bin/mcp-metatool", "disabled": true}}}`,
		"zed":    `{"context_servers": {"m": {"command": "/bin/mcp-metatool", "enabled": false}}}`,
		"codex":  "[mcp_servers.m]\ncommand = \"/bin/mcp-metatool\"\nenabled = false\n",
	} {
		f := fileOf(t, s, host, User)
		after, err := f.Set([]byte(text), &Entry{Name: "m", Command: "/bin/mcp-metatool"})
		if err != nil {
			t.Fatal(err)
		}
		servers, err := parse(s, f, after)
		if err != nil || len(servers) != 1 || servers[0].Disabled {
			t.Errorf("%s: %v\n%s", host, err, after)
		}
	}
}

func TestLinksAndCommands(t *testing.T) {
	e := &Entry{Name: "my tool", Command: "/bin/a b", Args: []string{"--config", "/c?&+"}, Env: []Setting{{"A", "1"}}}
	type form struct {
		Name, Command string
		Args          []string
		Env           map[string]string
	}
	check := func(raw string, named bool) {
		t.Helper()
		var got form
		if err := json.Unmarshal([]byte(raw), &got); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		if (got.Name == e.Name) != named || got.Command != e.Command || !slices.Equal(got.Args, e.Args) || got.Env["A"] != "1" {
			t.Errorf("%+v", got)
		}
	}
	link, err := url.Parse(e.Links(Lookup("cursor"), nil)[0].URL)
	if err != nil || link.Query().Get("name") != e.Name {
		t.Fatal(err, link)
	}
	raw, err := base64.StdEncoding.DecodeString(link.Query().Get("config"))
	if err != nil {
		t.Fatal(err)
	}
	check(string(raw), false)
	links := e.Links(Lookup("vscode"), nil)
	direct, err := url.PathUnescape(strings.TrimPrefix(links[0].URL, "vscode:mcp/install?"))
	if err != nil {
		t.Fatal(err)
	}
	check(direct, true)
	if link, err = url.Parse(links[1].URL); err != nil || link.Query().Get("name") != e.Name {
		t.Fatal(err, link)
	}
	check(link.Query().Get("config"), false)
	if e.Links(Lookup("zed"), nil) != nil {
		t.Error("Zed has no links")
	}
	check(e.AddCommand(Lookup("vscode"), User)[2], true)
	want := []string{"codex", "mcp", "add", "--env", "A=1", "my tool", "--", "/bin/a b", "--config", "/c?&+"}
	if got := e.AddCommand(Lookup("codex"), User); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if e.CommandLine() != "'/bin/a b' --config '/c?&+'" {
		t.Error(e.CommandLine())
	}
}

func TestLaunch(t *testing.T) {
	environ := []string{"PATH=/home/me/bin:/usr/bin", "HOME=/home/me", "TOKEN=t", "LANG=C"}
	e := &Entry{Env: []Setting{{"B", "${env:TOKEN}"}, {"C", "${input:x}"}, {"D", "d"}}, Pass: []string{"TOKEN"}}
	for _, tt := range []struct {
		host  string
		scope Scope
		dir   string
		want  []string
	}{
		{"claude-code", User, "/work/app", []string{"PATH=/home/me/bin:/usr/bin", "HOME=/home/me", "TOKEN=t", "LANG=C"}},
		{"codex", User, "/work/app", []string{"PATH=/home/me/bin:/usr/bin", "HOME=/home/me", "LANG=C"}},
		{"cursor", User, "/home/me", []string{"HOME=/home/me", "LANG=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
		{"vscode", Project, "/work/app", []string{"HOME=/home/me", "LANG=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
	} {
		l := Lookup(tt.host).Launch(testSystem("linux"), tt.scope, environ)
		if !slices.Equal(l.Env, tt.want) || l.Dir != tt.dir {
			t.Errorf("%s: %+v", tt.host, l)
		}
		l = l.With(e, environ)
		for name, want := range map[string]string{"B": "t", "C": "", "D": "d", "TOKEN": "t"} {
			if got, ok := l.Getenv(name); !ok || got != want {
				t.Errorf("%s: %s is %q", tt.host, name, got)
			}
		}
	}
}
