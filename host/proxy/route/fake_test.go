package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeUpstream records each received message and returns the message as the answer, unless the
// field answer has another answer.
type fakeUpstream struct {
	name   string
	err    error                                                           // the reason why the upstream is down
	answer map[string]func(context.Context, wire.Call) (wire.Reply, error) // by method
	shake  chan struct{}                                                   // closed when the handshake is over
	notice chan string                                                     // gets notifications

	mu     sync.Mutex
	server string // result of the handshake; "" before
	calls  []wire.Call
}

func (u *fakeUpstream) Ready(context.Context) error { return u.err }

func (u *fakeUpstream) Handshake(ctx context.Context) ([]byte, error) {
	select {
	case <-u.shake:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	result, _ := u.Server()
	return result, nil
}

func (u *fakeUpstream) Server() ([]byte, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return []byte(u.server), u.server != ""
}

func (u *fakeUpstream) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	if err := wire.CheckPermit(call.Permit); err != nil {
		return wire.Reply{}, err
	}
	u.mu.Lock()
	u.calls = append(u.calls, call)
	u.mu.Unlock()
	if call.Sent != nil {
		call.Sent(call.Params)
	}
	if u.err != nil {
		return wire.Reply{}, u.err
	}
	if answer, ok := u.answer[call.Method]; ok {
		return answer(ctx, call)
	}
	return wire.Reply{Result: fmt.Appendf(nil, `{"server":%q,"method":%q,"params":%s}`, u.name, call.Method, call.Params)}, nil
}

func (u *fakeUpstream) Notify(ctx context.Context, method string, params []byte) error {
	select {
	case u.notice <- method + " " + string(params):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sent returns the requests since the last call of sent, as "method params".
func (u *fakeUpstream) sent() (all []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.calls {
		all = append(all, c.Method+" "+string(c.Params))
	}
	u.calls = nil
	return all
}

// on sets the answer to a method: the raw JSON of a result, or of an error with a code.
func (u *fakeUpstream) on(method, raw string) {
	u.answer[method] = func(context.Context, wire.Call) (wire.Reply, error) { return reply(raw), nil }
}

func reply(raw string) wire.Reply {
	if _, bad := wire.Get([]byte(raw), "code"); bad {
		return wire.Reply{Error: []byte(raw)}
	}
	return wire.Reply{Result: []byte(raw)}
}

// fakeSession records each message to the session.
type fakeSession struct {
	name   string
	params string
	old    string // revision; "": the newest
	rights *bearer.Rights
	asked  func(ctx context.Context, call wire.Call) (wire.Reply, error)

	mu      sync.Mutex
	told    []string
	changes []wire.Surface
}

func (s *fakeSession) Session() Session  { return s }
func (s *fakeSession) Client() []byte    { return []byte(s.params) }
func (s *fakeSession) ID() string        { return "fake" }
func (s *fakeSession) LogLevel() string  { return "" }
func (s *fakeSession) Principal() string { return s.name }
func (s *fakeSession) Revision() protocol.Revision {
	if r, ok := protocol.Lookup(s.old); ok {
		return r
	}
	return protocol.Handshake.Newest()
}
func (s *fakeSession) TokenName() string { return "" }

func (s *fakeSession) Rights() *bearer.Rights {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rights
}

// expire ends the validity of the token.
func (s *fakeSession) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rights = bearer.Nothing
}

func (s *fakeSession) Changed(surface wire.Surface, _ []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, surface)
}

func (s *fakeSession) Notify(method string, params []byte) { s.tell(method + " " + string(params)) }

func (s *fakeSession) tell(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, what)
}

func (s *fakeSession) Ask(ctx context.Context, call wire.Call) (wire.Reply, error) {
	if s.asked != nil {
		return s.asked(ctx, call)
	}
	return wire.Reply{Result: fmt.Appendf(nil, `{"client":%q,"method":%q}`, s.name, call.Method)}, nil
}

// heard returns the messages to the session since the last call of heard.
func (s *fakeSession) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.told
	s.told = nil
	return told
}

// fakeRequest is a request of a session. Messages on the request are recorded with the id of the
// request in front.
type fakeRequest struct {
	*fakeSession
	id string
}

func (r *fakeRequest) Notify(method string, params []byte) {
	r.tell(r.id + ": " + method + " " + string(params))
}

func (s *fakeSession) request(id string) *fakeRequest { return &fakeRequest{s, id} }

// owners returns a value for Inbound.Owners.
func owners(all ...any) func() []any { return func() []any { return all } }

// rig is a router with fake upstreams and sessions.
type rig struct {
	t        testing.TB
	router   *Router
	shared   *Shared
	ups      map[string]*fakeUpstream
	sessions map[string]*fakeSession
}

const everything = `{"capabilities":{"tools":{},"resources":{"subscribe":true},"prompts":{},"logging":{},"completions":{},"tasks":{"list":{}}}}`

// newRig makes a router with upstreams that have every capability.
func newRig(t testing.TB, servers ...string) *rig {
	g := &rig{t: t, shared: &Shared{}, ups: map[string]*fakeUpstream{}, sessions: map[string]*fakeSession{}}
	var sources []catalog.Source
	for _, name := range servers {
		up := &fakeUpstream{
			name: name, server: everything, shake: make(chan struct{}), notice: make(chan string, 100),
			answer: map[string]func(context.Context, wire.Call) (wire.Reply, error){},
		}
		close(up.shake)
		g.ups[name] = up
		g.shared.Set(name, up)
		sources = append(sources, catalog.Source{Server: name, Prefix: name + "__",
			Exposes: func(string) bool { return true }, Hides: func(string) bool { return false }})
	}
	c := catalog.New(sources, slog.New(slog.DiscardHandler), func(of *catalog.Scope, s wire.Surface, notice []byte) { g.router.Changed(of, s, notice) })
	g.router = New(Options{
		Catalog: c, Upstreams: g.shared, Instructions: func(Session) string { return "ours" }, Settled: func(context.Context) {}, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(g.router.Close)
	return g
}

// item returns an item with a key, valid for all clients.
func item(surface wire.Surface, key string) []byte {
	switch surface {
	case wire.Tools:
		return fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}}`, key)
	case wire.Prompts:
		return fmt.Appendf(nil, `{"name":%q}`, key)
	}
	return fmt.Appendf(nil, `{%q:%q,"name":"n"}`, surface.Key(), key)
}

// lists sets a list of an upstream, given the keys of the items.
func (g *rig) lists(server string, surface wire.Surface, keys ...string) {
	var items [][]byte
	for _, k := range keys {
		items = append(items, item(surface, k))
	}
	g.router.Catalog.SetUpstream(server, surface, items, nil)
}

// session begins a session for a client with capabilities, a raw object.
func (g *rig) session(name, capabilities string) *fakeSession {
	g.t.Helper()
	s := &fakeSession{name: name, params: `{"capabilities":` + capabilities + `}`}
	if _, err := g.router.BeginSession(g.t.Context(), s); err != nil {
		g.t.Fatal(err)
	}
	g.sessions[name] = s
	return s
}

// ask sends a request of a client and returns the raw result or error.
func (g *rig) ask(s *fakeSession, method, params string) string {
	g.t.Helper()
	r := g.router.Handle(g.t.Context(), Call{Method: method, Origin: s.request("r"), Params: []byte(params)})
	if (r.Result == nil) == (r.Error == nil) {
		g.t.Fatalf("%s %s: result %s and error %s", method, params, r.Result, r.Error)
	}
	return string(r.Result) + string(r.Error)
}

// want compares lists of messages.
func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s\ngot  %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

var errDown = errors.New(`upstream "down" exited`)
