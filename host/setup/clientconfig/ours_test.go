package clientconfig

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestNamesDiffer checks that servers of one file get different names, and that those that
// are allowed stay.
func TestNamesDiffer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 32)
	got := validNames([]string{"my server", "天気", "my-server", "地図", long + "1", long + "2", "my.server"})
	want := []string{"my-server-2", "server", "my-server", "server-2", long, long[:30] + "-2", "my-server-3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	s := testSystem("linux")
	servers, err := parse(s, fileOf(t, s, "cursor", User), []byte(`{"mcpServers": {"my server": {"command": "a"}, "my-server": {"command": "b"}}}`))
	if err != nil || len(servers) != 2 || servers[0].Name != "my-server-2" || servers[1].Name != "my-server" {
		t.Fatal(servers, err)
	}
	if len(servers[0].Notes) != 1 || !strings.HasPrefix(servers[0].Notes[0], "it is called my-server-2 here") || servers[1].Notes != nil {
		t.Error(servers[0].Notes, servers[1].Notes)
	}
}

// TestReadMetatoolList checks that the servers of the specification's form are read, which is
// a list, and that a list which is not one of servers is refused.
func TestReadMetatoolList(t *testing.T) {
	t.Parallel()
	s := testSystem("linux")
	file := edit.New("c.json", nil)
	if err := file.Put("a", edit.Server{Command: "x", Timeout: "30s"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(file.Text()), `"upstreamServers": [`) {
		t.Fatalf("not the form of the specification:\n%s", file.Text())
	}
	ours, err := ReadMetatool(s, "c.json", file.Text())
	if err != nil || len(ours) != 1 || describe(&ours[0]) != "a transport=stdio command=x timeout=30s" {
		t.Errorf("%+v, %v", ours, err)
	}
	for _, text := range []string{`{"upstreamServers": [5]}`, `{"upstreamServers": [{"command": "x"}]}`, `{"upstreamServers": [{"name": "a"}, {"name": "a"}]}`, `{"upstreamServers": 5}`} {
		if _, err := ReadMetatool(s, "c.json", []byte(text)); !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v", text, err)
		}
	}
	host := fileOf(t, s, "cursor", User)
	if _, err := parse(s, host, []byte(`{"mcpServers": [{"name": "a", "command": "x"}]}`)); !errors.Is(err, ErrShape) {
		t.Error("a host's list was read:", err)
	}
}

// TestWriteTools checks that what a host says about tools and time is written over what
// the configuration has, and that the configuration's own is kept otherwise.
func TestWriteTools(t *testing.T) {
	t.Parallel()
	s := testSystem("linux")
	const before = "[upstream.a]\ncommand = \"a\"\nhide = [\"x\"]\nprefix = \"p\"\n"
	theirs := Server{Name: "a", Transport: "stdio", Command: "a", Hide: []string{"rm", "x"}, Expose: []string{"ls"}, Timeout: 90e9}
	for _, tt := range []struct {
		server Server
		want   string
	}{
		{theirs, "hide = [\"rm\", \"x\"]"},
		{theirs, "expose = [\"ls\"]"},
		{theirs, "timeout = \"1m30s\""},
		{theirs, "prefix = \"p\""},
		{Server{Name: "a", Transport: "stdio", Command: "b"}, "hide = [\"x\"]"},
	} {
		file := edit.New("c.toml", []byte(before))
		ours, err := ReadMetatool(s, "c.toml", file.Text())
		if err != nil || Compare(&ours[0], &tt.server, s.Home) == nil {
			t.Fatal("no difference", err)
		}
		if err := tt.server.Write(file); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(file.Text()), tt.want+"\n") {
			t.Errorf("no %s in\n%s", tt.want, file.Text())
		}
		ours, err = ReadMetatool(s, "c.toml", file.Text())
		if err != nil || Compare(&ours[0], &tt.server, s.Home) != nil {
			t.Errorf("still different: %v, %v", Compare(&ours[0], &tt.server, s.Home), err)
		}
	}
}

// TestFileVariable checks that ${file:...} makes us read a file only where the host does.
func TestFileVariable(t *testing.T) {
	t.Parallel()
	s := testSystem("linux")
	const text = `{"mcpServers": {"a": {"command": "x", "env": {"KEY": "${file:/home/me/.ssh/id}"}}}}`
	windsurf := fileOf(t, s, "windsurf", User)
	servers, err := parse(s, windsurf, []byte(text))
	if err != nil || servers[0].Env[0].Value != "${file:/home/me/.ssh/id}" {
		t.Error(servers, err)
	}
	elsewhere := windsurf
	elsewhere.Path = "/work/app/mcp_config.json"
	unknown := File{Host: anyFile, Path: "/work/app/x.json", Scope: User, Under: []string{"mcpServers"}}
	for _, f := range []File{fileOf(t, s, "cursor", Project), fileOf(t, s, "cursor", User), elsewhere, unknown} {
		servers, err := parse(s, f, []byte(text))
		if err != nil || servers[0].Env[0].Value != "$${file:/home/me/.ssh/id}" || len(servers[0].Notes) != 1 {
			t.Errorf("%s: %+v, %v", f.Path, servers, err)
		}
	}
}
