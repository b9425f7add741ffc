package supervise

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// later is the session of a client of the stateless era.
type later struct{ session }

func (*later) Revision() protocol.Revision { return protocol.Stateless.Newest() }

// automatic starts a server as a process with the era to be found out.
func automatic(sw mcptest.ServerOptions) config.Upstream {
	conf := subprocess(sw)
	conf.Protocol, conf.Timeout = config.Auto, time.Minute
	return conf
}

// eraOf calls a tool for the client of a session, and returns the era in which the server has
// answered.
func (r *rig) eraOf(t *testing.T, s route.Session, server string) protocol.Era {
	t.Helper()
	c, ok := r.For(s, server)
	if !ok {
		t.Fatal("there is no such server")
	}
	reply, err := c.Call(bounded(t), wire.Call{Method: protocol.MethodToolsCall, Params: []byte(mcptest.ToolParams("echo", `{}`, "")), Client: s.Client()})
	if err != nil || reply.Error != nil {
		t.Fatalf("%s, %v", reply.Error, err)
	}
	if reply.Stateless {
		return protocol.Stateless
	}
	return protocol.Handshake
}

// TestEraOfClient checks that a server with both eras is used in the client's era, at the first
// start and at the second, with a connection for each needed era, and that other servers are used
// in their own era. The verdict is remembered.
func TestEraOfClient(t *testing.T) {
	t.Parallel()
	const old, new = protocol.Handshake, protocol.Stateless
	exits := map[string]mcptest.Fault{"server/discover": {Kind: mcptest.CrashBefore}}
	silent := map[string]mcptest.Fault{"server/discover": {Kind: mcptest.Hang}}
	for name, test := range map[string]struct {
		server      mcptest.ServerOptions
		http        bool
		wait        time.Duration // eraWait; 0: long
		older, then protocol.Era  // in which clients of either era are served
		era         protocol.Era  // the remembered era
		only        bool
	}{
		"both":              {server: mcptest.ServerOptions{Eras: mcptest.EraBoth}, older: old, then: new, era: new},
		"older":             {older: old, then: old, era: old},
		"older, exits":      {server: mcptest.ServerOptions{Faults: exits}, older: old, then: old, era: old},
		"older, silent":     {server: mcptest.ServerOptions{Faults: silent}, older: old, then: old, era: old},
		"both, then silent": {server: mcptest.ServerOptions{Eras: mcptest.EraBoth, Faults: silent}, wait: testenv.Quiet(20 * time.Millisecond), older: old, then: old, era: new},
		"newer":             {server: mcptest.ServerOptions{Eras: mcptest.EraModern}, older: new, then: new, era: new, only: true},
		"both, over HTTP":   {server: mcptest.ServerOptions{Eras: mcptest.EraBoth}, http: true, older: old, then: new, era: new},
		"older, over HTTP":  {http: true, older: old, then: old, era: old},
		"newer, over HTTP":  {server: mcptest.ServerOptions{Eras: mcptest.EraModern}, http: true, older: new, then: new, era: new, only: true},
		"no sessions there": {server: mcptest.ServerOptions{Eras: mcptest.EraBoth, NoSessions: true}, http: true, older: new, then: new, era: new, only: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := automatic(test.server)
			if test.http {
				conf, _ = server(t, "u", test.server)
			}
			cfg := configOf(t, conf)
			for _, start := range []string{"first", "second"} {
				r := newRig(t, cfg, ManyClients)
				r.env.eraWait = time.Minute
				r.apply(t)
				if got := r.eraOf(t, &session{}, "u"); got != test.older {
					t.Errorf("%s start: era %d for the first client", start, got)
				}
				if test.wait != 0 { // after the question for the other era
					m, err := r.sharedUpstream("u")
					if err == nil {
						err = m.findEras(bounded(t), m.running(), new, protocol.MethodToolsCall)
					}
					if err != nil {
						t.Fatal(err)
					}
					r.env.eraWait = test.wait
				}
				before := &session{}
				after := &later{}
				for range 2 {
					if got := r.eraOf(t, before, "u"); got != test.older {
						t.Errorf("%s start: era %d for a client of the older one", start, got)
					}
					if got := r.eraOf(t, after, "u"); got != test.then {
						t.Errorf("%s start: era %d for a client of the newer one", start, got)
					}
				}
				m, err := r.sharedUpstream("u")
				if err != nil {
					t.Fatal(err)
				}
				m.spares.mu.Lock()
				n := len(m.spares.all) + len(m.spares.retiring)
				m.spares.mu.Unlock()
				if want := map[bool]int{true: 1}[test.older != test.then || test.wait != 0]; n != want {
					t.Errorf("%s start: %d other connections, want %d", start, n, want)
				}
				c, _ := r.For(after, "u")
				result, _ := c.Server()
				if v, _ := wire.GetString(result, "protocolVersion"); (v == "2026-07-28") != (test.then == new) {
					t.Errorf("%s start: a client of the newer era has a server of revision %s", start, v)
				}
				if err := r.Close(bounded(t)); err != nil {
					t.Error(err)
				}
				if s, _ := m.env.snapshots.load("u", m.key, ""); s.Verdict.Era != test.era || s.Verdict.Only != test.only {
					t.Errorf("%s start: remembered %+v", start, s.Verdict)
				}
			}
		})
	}
}

// TestEraOfTheOnlyClient checks that a server has a single process for a single client: at the
// first start a process of the older era until the other era is known, then a process of the
// client's era.
func TestEraOfTheOnlyClient(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]route.Session{"older": &session{}, "newer": &later{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := mcptest.NewObserver()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(o.Close)
			cfg := configOf(t, automatic(mcptest.ServerOptions{Eras: mcptest.EraBoth, Observer: o.Addr()}))
			for start := range 2 {
				r := newRig(t, cfg, OneClient)
				r.env.eraWait = time.Minute
				r.apply(t)
				r.BeginSession(s)
				from := o.Log.Len()
				for range 2 {
					if got := r.eraOf(t, s, "u"); got != s.Revision().Era() {
						t.Errorf("start %d: era %d", start, got)
					}
				}
				m, _ := r.sharedUpstream("u")
				if n := len(m.spares.all); n != map[bool]int{true: 1}[start == 0 && name == "newer"] {
					t.Errorf("start %d: %d other processes", start, n)
				}
				if err := r.Close(bounded(t)); err != nil {
					t.Error(err)
				}
				asked := 0
				for _, e := range o.Log.All()[from:] {
					if e.Msg.Method == protocol.MethodInitialize {
						asked++
					}
				}
				if want := map[bool]int{true: 0, false: 1}[start == 1 && name == "newer"]; asked != want {
					t.Errorf("start %d: initialize came %d times", start, asked)
				}
			}
		})
	}
}

// TestEraEndsAndBeginsAgain checks that the process of another era is started again after the end,
// like the own process.
func TestEraEndsAndBeginsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, configOf(t, automatic(mcptest.ServerOptions{Eras: mcptest.EraBoth})), ManyClients)
	r.env.eraWait = time.Minute
	r.apply(t)
	m, err := r.sharedUpstream("u")
	if err != nil {
		t.Fatal(err)
	}
	after := &later{}
	if got := r.eraOf(t, after, "u"); got != protocol.Stateless {
		t.Fatalf("era %d", got)
	}
	one := m.spares.inEra(protocol.Stateless)
	pid := one.up.Status().Pid
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	for now := pid; now == pid || now == 0; now = one.up.Status().Pid {
		_, _ = one.up.Call(bounded(t), wire.Call{Method: protocol.MethodPing}) // waits for the restart
	}
	if got := r.eraOf(t, after, "u"); got != protocol.Stateless {
		t.Errorf("era %d after the end of its process", got)
	}
	if got := r.eraOf(t, &session{}, "u"); got != protocol.Handshake {
		t.Errorf("era %d for a client of the older one", got)
	}
	if log := r.log.String(); strings.Count(log, "a connection of another era is begun") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

// choosy are Pins that accept no other process with any of these lists.
type choosy struct {
	Pins
	refused wire.Surface
}

func (p choosy) Offer(string, wire.Surface, [][]byte)              {}
func (p choosy) OfferHandshake(string, []byte)                     {}
func (p choosy) Mode(string) pins.Mode                             { return pins.Enforce }
func (p choosy) Accepts(_ string, s wire.Surface, _ [][]byte) bool { return s != p.refused }

// TestPinsInAnotherEra checks that a connection of another era with definitions that differ from
// the pins is not used, and changes no list.
func TestPinsInAnotherEra(t *testing.T) {
	t.Parallel()
	for _, refused := range []wire.Surface{wire.Tools, wire.Templates, pins.About} {
		t.Run(string(refused), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, configOf(t, automatic(mcptest.ServerOptions{Eras: mcptest.EraBoth})), ManyClients)
			r.env.eraWait, r.env.Pins = time.Minute, choosy{refused: refused}
			r.apply(t)
			m, err := r.sharedUpstream("u")
			if err == nil {
				err = m.Ready(bounded(t))
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if got := r.eraOf(t, &later{}, "u"); got != protocol.Handshake {
					t.Errorf("call %d: era %d", i, got)
				}
			}
			if n := strings.Count(r.log.String(), "a connection of another era is begun"); n != 1 {
				t.Errorf("%d other connections were begun", n)
			}
		})
	}
}
