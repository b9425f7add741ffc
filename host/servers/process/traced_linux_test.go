package process

import (
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/host/confine/trace"
)

// TestTraced checks the events of a traced server, confined and not.
func TestTraced(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	attempts := []string{"read what is readable", "create in the writable", "execute the allowed", "read a secret", "create outside", "move out",
		"change a mode", "unix socket", "connect TCP", "connect UDP", "io_uring"}
	tcp, udp := "tcp 127.0.0.1:"+strconv.Itoa(s.TCP), "udp 127.0.0.1:"+strconv.Itoa(s.UDP)
	program, err := filepath.EvalSymlinks(s.Program)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		sandbox *confine.Settings
		want    []trace.Event // without Call and Program
	}{
		"learn": {&confine.Settings{Learn: true}, []trace.Event{
			{Kind: trace.ReadFile, Object: s.Readable + "/r"}, {Kind: trace.WriteFile, Object: s.Writable + "/new"},
			{Kind: trace.ExecuteFile, Object: program}, {Kind: trace.ReadFile, Object: s.Secret},
			{Kind: trace.WriteFile, Object: s.Outside + "/new"}, {Kind: trace.WriteFile, Object: s.Outside + "/own"},
			{Kind: trace.Call, Object: "fchmodat"}, {Kind: trace.Connect, Object: "unix " + s.Unix},
			{Kind: trace.Connect, Object: tcp}, {Kind: trace.Connect, Object: udp},
		}},
		"try": {s.settings(), []trace.Event{
			{Kind: trace.ReadFile, Object: s.Readable + "/r"}, {Kind: trace.ExecuteFile, Object: program},
			{Kind: trace.ReadFile, Object: s.Secret, Errno: "EACCES"}, {Kind: trace.WriteFile, Object: s.Outside + "/new", Errno: "EACCES"},
			{Kind: trace.Call, Object: "fchmodat", Errno: "EPERM"}, {Kind: trace.Socket, Object: "unix stream", Errno: "EACCES"},
			{Kind: trace.Socket, Object: "inet stream", Errno: "EACCES"}, {Kind: trace.Socket, Object: "inet datagram", Errno: "EACCES"},
			{Kind: trace.Call, Object: "io_uring_setup", Errno: "EPERM"},
		}},
	} {
		if !c.sandbox.Learn {
			needs(t, c.sandbox)
		}
		c.sandbox.Trace = t.TempDir()
		s.try(c.sandbox, attempts...)
		s.restore()
		events, err := trace.Read(t.Context(), c.sandbox.Trace)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			found := slices.ContainsFunc(events, func(e trace.Event) bool {
				return e.Kind == want.Kind && e.Object == want.Object && e.Errno == want.Errno && e.Call != "" && e.Program != ""
			})
			if !found {
				t.Errorf("%s: not seen: %+v", name, want)
			}
		}
	}
}
