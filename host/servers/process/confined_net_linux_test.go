package process

import (
	"cmp"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestConfinedNetwork checks the effect of each kind of network access.
func TestConfinedNetwork(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	port := uint16(s.TCP)
	attempts := []string{
		"connect TCP", "connect TCP 6", "connect UDP", "connect MPTCP", "TCP Fast Open", "ULP", "listen", "listen without bind", "raw socket", "packet socket",
		"netlink", "netlink audit", "vsock", "kernel crypto", "unix socket", "abstract socket", "socket pair", "datagram by a socket pair",
	}
	const ok, refused, any = "ok", "EACCES", "depends on the kernel"
	cases := map[string]struct {
		change func(*confine.Settings)
		want   map[string]string // outcomes other than EACCES
	}{
		"none": {func(*confine.Settings) {}, map[string]string{"socket pair": ok}},
		"the port": {func(s *confine.Settings) { s.Network, s.Ports = confine.NetworkPorts, []uint16{port} }, map[string]string{
			"socket pair": ok, "connect TCP": ok, "connect TCP 6": ok, "netlink": ok, "TCP Fast Open": "EPERM", "ULP": "EPERM",
		}},
		"another port": {func(s *confine.Settings) { s.Network, s.Ports = confine.NetworkPorts, []uint16{port ^ 1} }, map[string]string{
			"socket pair": ok, "connect TCP 6": ok, "netlink": ok, "TCP Fast Open": "EPERM", "ULP": "EPERM",
		}},
		"no port but UDP": {func(s *confine.Settings) { s.Network, s.UDP = confine.NetworkPorts, true }, map[string]string{
			"socket pair": ok, "connect TCP 6": ok, "connect UDP": ok, "netlink": ok, "TCP Fast Open": "EPERM", "ULP": "EPERM",
		}},
		"sockets in the file system": {func(s *confine.Settings) { s.Unix = true }, map[string]string{
			"socket pair": ok, "unix socket": ok, "datagram by a socket pair": ok, "abstract socket": "EPERM",
		}},
		"all": {func(s *confine.Settings) { s.Network = confine.NetworkAll }, map[string]string{
			"socket pair": ok, "connect TCP": ok, "connect TCP 6": any, "connect UDP": ok, "connect MPTCP": any, "TCP Fast Open": any,
			"ULP": any, "listen": ok, "listen without bind": ok, "netlink": ok, "raw socket": "EPERM",
		}},
	}
	for name, c := range cases {
		sandbox := s.settings()
		c.change(sandbox)
		needs(t, sandbox)
		outcome := s.try(sandbox, attempts...)
		for _, attempt := range attempts {
			want := cmp.Or(c.want[attempt], refused)
			if got := outcome[attempt]; got != want && want != any {
				t.Errorf("%s: %s: %s, want %s", name, attempt, got, want)
			}
		}
	}
}

// TestConfinedListen checks that a server may listen on the named ports.
func TestConfinedListen(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	sandbox := s.settings()
	s.TCP = testenv.Port(t)
	sandbox.Network, sandbox.Listen = confine.NetworkPorts, []uint16{uint16(s.TCP)}
	needs(t, sandbox)
	if got := s.try(sandbox, "listen on the port", "listen"); got["listen on the port"] != "ok" || got["listen"] != "EACCES" {
		t.Errorf("%v", got)
	}
}
