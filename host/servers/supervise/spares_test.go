package supervise

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// strangers are the session of clients without a token, or with a token.
type strangers struct {
	session
	token string
	calm  bool // none of their requests is parked
}

func (s *strangers) Session() route.Session { return s }
func (s *strangers) Principal() string      { return s.token }
func (s *strangers) ManyClients() bool      { return true }
func (s *strangers) Busy() bool             { return !s.calm }

// strangerRequest is a request of a stranger.
type strangerRequest struct {
	*strangers
	parked bool
}

func (r *strangerRequest) Standing() route.Standing {
	if r.parked {
		return route.Parked
	}
	return route.Open
}

// ofScript is a call of a script for a request.
type ofScript struct{ route.Origin }

func (c ofScript) Unwrap() route.Origin { return c.Origin }

// subprocess is how to start a server as a process.
func subprocess(sw mcptest.ServerOptions) config.Upstream {
	return config.Upstream{
		Name: "u", Transport: config.Stdio, Command: os.Args[0], Env: sw.Environ(),
		Restart: config.RestartAlways, Isolation: config.Shared, Start: config.Eager, Protocol: config.Legacy,
	}
}

// placing makes calls of a started upstream, without sending them.
func placing(t *testing.T, conf config.Upstream) (m *managedUpstream, at func(owner route.Origin) (process int, leave func())) {
	r := start(t, configOf(t, conf), ManyClients)
	m, err := r.sharedUpstream("u")
	if err == nil {
		err = m.Ready(bounded(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m, func(owner route.Origin) (int, func()) {
		t.Helper()
		one, leave := m.place(0, wire.Call{Method: protocol.MethodToolsCall, Params: []byte(`{"name":"echo"}`), Owner: owner}, true)
		if one == nil {
			return 0, leave
		}
		for i, other := range m.spares.all {
			if other == one {
				return i + 1, leave
			}
		}
		return -1, leave
	}
}

// TestSpares checks which calls go to further processes of a server: the calls of clients without a
// token, where another client without a token has parked a call. The processes are used again, and
// end when they are idle, or with the upstream.
func TestSpares(t *testing.T) {
	t.Parallel()
	m, at := placing(t, subprocess(mcptest.ServerOptions{}))
	anonymous := &strangers{}
	var parked []*strangerRequest
	var leaves []func()
	expect := func(name string, owner route.Origin, want int) (leave func()) {
		t.Helper()
		got, leave := at(owner)
		if got != want {
			t.Errorf("%s: goes to process %d, want %d", name, got, want)
		}
		return leave
	}
	park := func(want int) {
		t.Helper()
		r := &strangerRequest{strangers: anonymous}
		leaves = append(leaves, expect(fmt.Sprintf("call %d", len(parked)), r, want))
		r.parked = true
		parked = append(parked, r)
	}
	park(0)
	expect("while one is parked", &strangerRequest{strangers: anonymous}, 1)()
	expect("the same again", &strangerRequest{strangers: anonymous}, 1)()
	expect("of a script", ofScript{&strangerRequest{strangers: anonymous}}, 0)()
	expect("with a token", &strangerRequest{strangers: &strangers{token: "token"}}, 0)()
	expect("of the parked request", parked[0], 0)()
	expect("where nothing can be parked", &strangerRequest{strangers: &strangers{calm: true}}, 0)()
	for _, call := range []wire.Call{
		{Method: protocol.MethodToolsCall, Params: []byte(`{"name":"echo","task":{}}`)}, {Method: protocol.MethodToolsList}, {Method: protocol.MethodComplete},
	} {
		call.Owner = &strangerRequest{strangers: anonymous}
		one, leave := m.place(0, call, true)
		if one != nil {
			t.Errorf("%s %s goes to a spare", call.Method, call.Params)
		}
		leave()
	}
	park(1)
	park(2)
	leaves[1]()
	expect("when the first spare is free", &strangerRequest{strangers: anonymous}, 1)()

	first := m.spares.all[0]
	m.spares.expire(first)
	m.spares.expire(m.spares.all[0]) // which has a call
	if err := first.up.Ready(bounded(t)); first.up.Status().State != servers.Closed || err == nil || len(m.spares.all) != 1 {
		t.Errorf("the idle one is %s (%v), and there are %d spares", first.up.Status().State, err, len(m.spares.all))
	}
	leaves[0]()
	expect("when nothing is parked there", &strangerRequest{strangers: anonymous}, 0)()
	parked = parked[:0]
	park(0)
	for n := range maxSpares - 1 {
		park(n + 2)
	}
	park(0)
	if n := len(m.spares.all); n != maxSpares {
		t.Errorf("%d spares", n)
	}
}

// TestSpareFails checks that a call goes to the upstream's own process if no other process can be
// started, and that the start is not tried all the time.
func TestSpareFails(t *testing.T) {
	t.Parallel()
	m, at := placing(t, subprocess(mcptest.ServerOptions{}))
	anonymous := &strangers{}
	parked := &strangerRequest{strangers: anonymous}
	_, leave := at(parked)
	defer leave()
	parked.parked = true
	m.spec.Command = "mcp-metatool-no-such-command"
	call := wire.Call{Method: protocol.MethodToolsCall, Params: []byte(`{"name":"echo","arguments":{}}`), Owner: &strangerRequest{strangers: anonymous}}
	for range 2 {
		if reply, err := m.Call(bounded(t), call); err != nil || reply.Result == nil {
			t.Errorf("%s %v", reply.Error, err)
		}
	}
	m.spares.mu.Lock()
	defer m.spares.mu.Unlock()
	if n := len(m.spares.all); n != 0 || m.spares.failed.IsZero() {
		t.Errorf("%d spares are left", n)
	}
}

// TestServersWithoutSpares checks that a server has no spares if a question comes on the stream of
// the call, or is the result of the call.
func TestServersWithoutSpares(t *testing.T) {
	t.Parallel()
	web, _ := server(t, "u", mcptest.ServerOptions{})
	modern := subprocess(mcptest.ServerOptions{Eras: mcptest.EraModern})
	modern.Protocol = config.Auto
	for name, conf := range map[string]config.Upstream{"HTTP": web, "stateless": modern} {
		_, at := placing(t, conf)
		parked := &strangerRequest{strangers: &strangers{}, parked: true}
		_, leave := at(parked)
		defer leave()
		other, leave := at(&strangerRequest{strangers: parked.strangers})
		leave()
		if other != 0 {
			t.Errorf("%s: goes to process %d", name, other)
		}
	}
}

// TestSpareSecrets checks that a spare gets the secrets of the server, and stays a spare.
func TestSpareSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	for name, text := range map[string]string{
		filepath.Join(dir, "token"): "hunter2-hunter2\n",
		file:                        "[upstream.u]\ncommand = \"server\"\nenv = { TOKEN = \"${file:token}\" }\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(config.LoadOptions{Flag: file})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Upstreams[0].Start = config.Lazy
	m, err := start(t, cfg, ManyClients).sharedUpstream("u")
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.resolve(t.Context(), spareSpec(m.spec, 0))
	if err != nil || got.Restart != servers.RestartNever || got.Protocol != servers.ProtocolLegacy || !slices.Contains(got.Env, "TOKEN=hunter2-hunter2") {
		t.Errorf("%v, %v, %v, %v", got.Env, got.Restart, got.Protocol, err)
	}
}

// watched is an servers.Observer that counts the calls of tools on each connection.
type watched struct {
	mu    sync.Mutex
	calls []int
}

func (w *watched) Connect(servers.Spec, bool) servers.Connection {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, 0)
	return &watchedConnection{w, len(w.calls) - 1}
}

type watchedConnection struct {
	*watched
	n int
}

func (c *watchedConnection) BeginCall(_ context.Context, _ int64, call wire.Call) ([]byte, rpc.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.Method == protocol.MethodToolsCall {
		c.calls[c.n]++
	}
	return call.Params, nil
}

func (*watchedConnection) Agreed(string) {}
func (*watchedConnection) Ended()        {}

// TestSpareIsTraced checks that telemetry sees the calls of further processes, too.
func TestSpareIsTraced(t *testing.T) {
	t.Parallel()
	m, at := placing(t, subprocess(mcptest.ServerOptions{}))
	seen := &watched{}
	m.env.Observer = seen // before the first spare
	anonymous := &strangers{}
	parked := &strangerRequest{strangers: anonymous}
	_, leave := at(parked)
	defer leave()
	parked.parked = true
	reply, err := m.Call(bounded(t), wire.Call{
		Method: protocol.MethodToolsCall, Params: []byte(`{"name":"echo","arguments":{}}`), Owner: &strangerRequest{strangers: anonymous},
	})
	if err != nil || reply.Result == nil || len(m.spares.all) != 1 {
		t.Fatalf("%s %v, %d spares", reply.Error, err, len(m.spares.all))
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if !slices.Equal(seen.calls, []int{1}) {
		t.Errorf("calls seen on the connections: %v", seen.calls)
	}
}

// TestSpareIsReplaced checks that an ended spare is replaced unnoticed by the call, that calls wait
// for the log level, and that a spare that does not answer gets no more calls, and is closed after
// the last call.
func TestSpareIsReplaced(t *testing.T) {
	t.Parallel()
	conf := subprocess(mcptest.ServerOptions{})
	m, at := placing(t, conf)
	anonymous := &strangers{}
	parked := &strangerRequest{strangers: anonymous}
	_, leave := at(parked)
	defer leave()
	parked.parked = true
	level := []byte(`{"level":"debug"}`)
	m.spares.note(wire.Call{Method: protocol.MethodSetLevel, Params: level}, true)
	call := func() *spare {
		t.Helper()
		reply, err := m.Call(bounded(t), wire.Call{
			Method: protocol.MethodToolsCall, Params: []byte(`{"name":"echo","arguments":{}}`), Owner: &strangerRequest{strangers: anonymous},
		})
		if err != nil || reply.Result == nil || len(m.spares.all) != 1 {
			t.Fatalf("%s %v, %d spares", reply.Error, err, len(m.spares.all))
		}
		return m.spares.all[0]
	}
	first := call()
	if !bytes.Equal(first.told.level, level) {
		t.Errorf("the spare has the level %s", first.told.level)
	}
	if err := first.up.Close(bounded(t)); err != nil {
		t.Fatal(err)
	}
	second := call()
	if second == first || !bytes.Equal(second.told.level, level) {
		t.Errorf("the spare is not replaced, or has the level %s", second.told.level)
	}

	at1, leaveSecond := at(&strangerRequest{strangers: anonymous})
	m.spares.retire(second)
	if third := call(); at1 != 1 || third == second || second.up.Status().State == servers.Closed {
		t.Errorf("the retired one gets calls, or is closed (%s)", second.up.Status().State)
	}
	leaveSecond()
	m.spares.background.Wait()
	if st := second.up.Status().State; st != servers.Closed || len(m.spares.retiring) != 0 {
		t.Errorf("the retired one is %s", st)
	}
}
