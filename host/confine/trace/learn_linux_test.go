package trace

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// place returns where a server is started in these tests. Nothing of it needs to exist but
// the program.
func place(t *testing.T) confine.Place {
	t.Helper()
	return confine.Place{Path: os.Args[0], Env: []string{"HOME=/home/me"}, Own: []string{"/home/me/.mcp-metatool"}}
}

// TestPropose checks what is proposed after a run.
func TestPropose(t *testing.T) {
	temporary := filepath.Join(os.TempDir(), "x")
	events := []Event{
		{Kind: ReadFile, Object: "/usr/lib/libc.so.6"}, // every server has it
		{Kind: ReadFile, Object: "/srv/s/node_modules/a/index.js"},
		{Kind: ReadFile, Object: "/srv/s/node_modules/b/index.js"},
		{Kind: ReadFile, Object: "/srv/s/main.js"},
		{Kind: ReadFile, Object: "/srv/data/1"}, {Kind: ReadFile, Object: "/srv/data/2"}, {Kind: ReadFile, Object: "/srv/data/3"},
		{Kind: ReadFile, Object: "/home/me/a"}, {Kind: ReadFile, Object: "/home/me/b"}, {Kind: ReadFile, Object: "/home/me/c"},
		{Kind: ReadFile, Object: "/home/me/.ssh/id", Errno: "EACCES"}, // it did not get it without a sandbox
		{Kind: ReadFile, Object: "/home/me/.mcp-metatool/config.toml"},
		{Kind: ReadFile, Object: "/proc/1/stat"},
		{Kind: WriteFile, Object: "/home/me/notes/new"}, {Kind: ReadFile, Object: "/home/me/notes/old"},
		{Kind: WriteFile, Object: "/home/me/.history"},
		{Kind: WriteFile, Object: "/home/me/.npm/_cacache/tmp/x"},
		{Kind: WriteFile, Object: temporary},
		{Kind: ExecuteFile, Object: "/opt/x/bin/tool"},
		{Kind: Socket, Object: "inet stream"},
		{Kind: Connect, Object: "tcp 192.0.2.1:443"}, {Kind: Connect, Object: "tcp [2001:db8::1]:8443"}, {Kind: Connect, Object: "udp 192.0.2.1:53"},
		{Kind: Listen, Object: "tcp 127.0.0.1:9000"},
		{Kind: Connect, Object: "unix /run/docker.sock"},
		{Kind: Call, Object: "fchmodat"}, {Kind: Call, Object: "io_uring_setup"},
		{Kind: Omitted},
	}
	p, err := Propose(events, confine.Node, place(t))
	if err != nil {
		t.Fatal(err)
	}
	want := confine.Settings{
		Presets: []confine.Preset{confine.Node},
		Read:    []string{"/home/me/a", "/home/me/b", "/home/me/c", "/srv/data", "/srv/s/main.js", "/srv/s/node_modules"},
		Write:   []string{"/home/me/.history", "/home/me/.npm/_cacache/tmp", "/home/me/notes"},
		Exec:    []string{"/opt/x/bin/tool"},
		Network: confine.NetworkPorts, Ports: []uint16{443, 8443}, Listen: []uint16{9000}, UDP: true, Unix: true,
		AllowSyscalls: []string{"fchmodat"},
	}
	if !reflect.DeepEqual(p.Settings, want) {
		t.Errorf("got  %+v\nwant %+v", p.Settings, want)
	}
	if len(p.Notes) != 5 {
		t.Errorf("notes: %q", p.Notes)
	}
	text, err := tomldoc.Set("", []string{"sandbox"}, Table(&p.Settings))
	const toml = `[sandbox]
preset = "node"
read = [
  "/home/me/a",
  "/home/me/b",
  "/home/me/c",
  "/srv/data",
  "/srv/s/main.js",
  "/srv/s/node_modules",
]
write = ["/home/me/.history", "/home/me/.npm/_cacache/tmp", "/home/me/notes"]
exec = ["/opt/x/bin/tool"]
network = [443, 8443]
listen = [9000]
udp = true
unix = true
allow_syscalls = ["fchmodat"]
`
	if err != nil || text != toml {
		t.Errorf("%s, %v", text, err)
	}
}

// TestRefusals checks which setting is named for what was refused.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		event           Event
		setting, reason string
	}{
		{Event{Kind: ReadFile, Object: "/home/me/x", Errno: "EACCES", Call: "openat"}, `read = ["/home/me/x"]`, ""},
		{Event{Kind: WriteFile, Object: "/home/me/d/x", Errno: "EACCES", Call: "openat"}, `write = ["/home/me/d"]`, ""},
		{Event{Kind: WriteFile, Object: "/home/me/x", Errno: "EACCES", Call: "openat"}, `write = ["/home/me/x"]`, ""},
		{Event{Kind: ExecuteFile, Object: "/opt/x", Errno: "EACCES", Call: "execve"}, `exec = ["/opt/x"]`, ""},
		{Event{Kind: ReadFile, Object: "/home/me/.mcp-metatool/x", Errno: "EACCES", Call: "openat"}, "", "belongs to mcp-metatool"},
		{Event{Kind: ReadFile, Object: "/usr/lib/x", Errno: "EACCES", Call: "openat"}, "", "permissions of the file"},
		{Event{Kind: ReadFile, Object: "/proc/1/stat", Errno: "EACCES", Call: "openat"}, "", "tells about other processes"},
		{Event{Kind: Connect, Object: "tcp 192.0.2.1:80", Errno: "EACCES", Call: "connect"}, "network = [80]", ""},
		{Event{Kind: Listen, Object: "tcp 0.0.0.0:80", Errno: "EACCES", Call: "bind"}, "listen = [80]", ""},
		{Event{Kind: Listen, Object: "tcp 0.0.0.0:0", Errno: "EACCES", Call: "bind"}, `network = "all"`, ""},
		{Event{Kind: Socket, Object: "unix stream", Errno: "EACCES", Call: "socket"}, "unix = true", ""},
		{Event{Kind: Socket, Object: "packet raw", Errno: "EACCES", Call: "socket"}, "", ""},
		{Event{Kind: Call, Object: "fchmodat", Errno: "EPERM", Call: "fchmodat"}, `allow_syscalls = ["fchmodat"]`, ""},
		{Event{Kind: Call, Object: "utimensat", Errno: "EPERM", Call: "utimensat"}, `allow_syscalls = ["utimensat"]`, ""},
		{Event{Kind: Call, Object: "fchmod", Errno: "EPERM", Call: "fchmod"}, "", "with these arguments it would defeat the sandbox"},
		{Event{Kind: Call, Object: "listen", Errno: "EACCES", Call: "listen"}, `network = "all"`, ""},
		{Event{Kind: WriteFile, Object: "/dev/null", Errno: "EPERM", Call: "openat"}, "", "a set-user-ID bit would defeat the sandbox"},
		{Event{Kind: Call, Object: "bpf", Errno: "EPERM", Call: "bpf"}, "", "would defeat the sandbox"},
		{Event{Kind: Call, Object: "kill", Errno: "EPERM", Call: "kill"}, "", "signals go to its own processes only"},
		{Event{Kind: Call, Object: "mmap", Errno: "ENOMEM", Call: "mmap"}, "memory", ""},
	} {
		got, err := Refusals([]Event{c.event, {Kind: ReadFile, Object: "/etc/hosts"}}, &confine.Settings{}, place(t))
		if err != nil || len(got) != 1 || got[0].Setting != c.setting || got[0].Reason != c.reason {
			t.Errorf("%+v: %+v, %v", c.event, got, err)
		}
	}
	if got, err := Refusals([]Event{{Kind: Omitted}}, &confine.Settings{}, place(t)); err != nil || len(got) != 1 || got[0].Kind != Omitted {
		t.Errorf("too many events: %+v, %v", got, err)
	}
	if got, err := Refusals([]Event{{Kind: Call, Object: "epoll_ctl", Errno: "EPERM", Call: "epoll_ctl"}}, &confine.Settings{}, place(t)); err != nil || len(got) != 0 {
		t.Errorf("an ordinary error: %+v, %v", got, err)
	}
}

// TestPresetOf checks the guess for a command.
func TestPresetOf(t *testing.T) {
	for command, want := range map[string]confine.Preset{
		"npx": confine.Node, "/usr/bin/node": confine.Node, "python3.12": confine.Python, "uvx": confine.Python, "/opt/bin/server": confine.Go,
	} {
		if got := PresetOf(command); got != want {
			t.Errorf("%s: %s", command, got)
		}
	}
}
