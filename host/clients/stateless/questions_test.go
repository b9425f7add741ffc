package stateless

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestQuestionsOfServer plays random clients with a token and random clients without a token
// against a random server of the handshake era, which all of them share, through a router. The
// server asks in the server's calls, also several questions at once, and withdraws some questions.
// The clients answer all, some or none of them, go away at any time, or do not come back. The test
// checks that each call of the server is answered by the server or cancelled, that no question
// reaches clients with other credentials, that of clients without a token only the calling client
// gets the call's questions (unless the call asks after the cancellation), that each answer reaches
// the asking call, and that nothing is left.
func TestQuestionsOfServer(t *testing.T) {
	playRounds(t, 150, 50, func(t *testing.T, seed uint64) { newWorld(t, seed).run() })
}

// world is a round. Calls have numbers, which are their arguments: the number of a principal is the
// principal's index modulo the number of principals.
type world struct {
	t      *testing.T
	router *route.Router
	server *askingServer
	crowds []*crowd

	mu     sync.Mutex // guards the fields below
	random *rand.Rand
	number int
	faults []string

	// leaving is held while a client leaves, and while the server asks something.
	leaving sync.Mutex
	left    map[int]bool // calls that a client has cancelled
	late    map[int]bool // cancelled calls that have asked a question since
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 2)), left: map[int]bool{}, late: map[int]bool{}}
	var shared route.Shared
	expose := func(string) bool { return true }
	c := catalog.New([]catalog.Source{{Server: "a", Exposes: expose, Hides: func(string) bool { return false }}}, slog.New(slog.DiscardHandler), func(*catalog.Scope, wire.Surface, []byte) {})
	c.SetUpstream("a", wire.Tools, [][]byte{[]byte(`{"name":"t"}`)}, nil)
	w.router = route.New(route.Options{
		Catalog: c, Upstreams: &shared, Settled: func(context.Context) {}, Log: slog.New(slog.DiscardHandler),
		Instructions: func(route.Session) string { return "" },
	})
	w.server = &askingServer{w: w, calls: map[string]context.CancelFunc{}, questions: map[string]chan []byte{}}
	w.server.conn = rpc.New(t.Context(), rpc.Options{
		Peer: rpc.Server, Main: w.server, Handler: link.Callbacks{OnRequest: w.router.Peer("a", nil).OnRequest},
	})
	shared.Set("a", w.server)
	for i, token := range []string{"token", ""} {
		w.crowds = append(w.crowds, newCrowd(w, i, token))
	}
	return w
}

func (w *world) intn(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *world) run() {
	for range 20 + w.intn(60) {
		c := w.crowds[w.intn(len(w.crowds))]
		switch w.intn(8) {
		case 0, 1:
			w.mu.Lock()
			w.number++
			n := w.number*len(w.crowds) + c.index
			w.mu.Unlock()
			c.send(n, "")
		case 2, 3, 4:
			c.repeat()
		case 5:
			c.disconnect()
		default:
			time.Sleep(time.Duration(w.intn(30)) * time.Millisecond)
			if w.intn(8) == 0 {
				time.Sleep(time.Duration(w.intn(70)) * time.Second)
			}
		}
		if w.intn(2) == 0 {
			synctest.Wait()
		}
	}
	w.finish()
}

// finish ends everything, in one of two orders, and checks that nothing is left.
func (w *world) finish() {
	serverFirst := w.intn(2) == 0
	if serverFirst {
		w.server.conn.End(wire.ErrClosed)
		w.server.stop()
	}
	for _, c := range w.crowds {
		c.conn.End(wire.ErrClosed)
		c.principal.End(wire.ErrClosed)
	}
	synctest.Wait()
	w.server.mu.Lock()
	if n := len(w.server.calls); n != 0 {
		w.fault("%d calls go on at the server", n)
	}
	w.server.mu.Unlock()
	for _, c := range w.crowds {
		c.conn.Close(wire.ErrClosed)
		if !c.principal.Close(time.Hour) {
			w.fault("a principal has not ended")
		}
		if c.parking.n != 0 || len(c.principal.parked) != 0 {
			w.fault("%d and %d calls are parked", c.parking.n, len(c.principal.parked))
		}
	}
	w.server.conn.End(wire.ErrClosed)
	w.server.stop()
	w.server.conn.Close(wire.ErrClosed)
	w.server.running.Wait()
	w.router.Close()
	for _, f := range w.faults {
		w.t.Error(f)
	}
}

// askingServer is the server, and the connection with the server: it is a route.Upstream and the
// rpc.Stream of the connection.
type askingServer struct {
	w       *world
	conn    *rpc.Conn
	running sync.WaitGroup

	receiving sync.Mutex // messages of the server are received one after another
	mu        sync.Mutex // guards the fields below
	calls     map[string]context.CancelFunc
	questions map[string]chan []byte
	asked     int
	stopped   bool
}

// Ready, Handshake, Server, Call and Notify implement route.Upstream.
func (s *askingServer) Ready(context.Context) error { return nil }
func (s *askingServer) Handshake(context.Context) ([]byte, error) {
	raw, _ := s.Server()
	return raw, nil
}
func (s *askingServer) Server() ([]byte, bool) { return []byte(`{"capabilities":{"tools":{}}}`), true }
func (s *askingServer) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return s.conn.Call(ctx, rpc.Call{Call: call})
}
func (s *askingServer) Notify(ctx context.Context, method string, params []byte) error {
	return s.conn.Notify(ctx, nil, method, params)
}

// TrySend, Send, Push, Withdraw and Finish implement rpc.Stream.
func (s *askingServer) TrySend(f rpc.Frame) bool { return s.Push(f) == nil }
func (s *askingServer) Send(_ context.Context, f rpc.Frame) error {
	return s.Push(f)
}
func (s *askingServer) Push(f rpc.Frame) error {
	s.got(f.Data)
	f.Done(rpc.Written, nil)
	return nil
}
func (s *askingServer) Withdraw(int64) bool { return false }
func (s *askingServer) Finish(f rpc.Frame)  { _ = s.Push(f) }

// got handles a message to the server.
func (s *askingServer) got(raw []byte) {
	if raw == nil {
		return
	}
	id, _ := wire.Get(raw, "id")
	method, _ := wire.GetString(raw, "method")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch method {
	case protocol.MethodToolsCall:
		ctx, cancel := context.WithCancel(context.Background())
		s.calls[string(id)] = cancel
		number, _ := wire.Get(raw, "params", "arguments", "call")
		s.running.Go(func() { s.serve(ctx, string(id), string(number)) })
	case protocol.NotificationCancelled:
		of, _ := wire.Get(raw, "params", "requestId")
		if cancel := s.calls[string(of)]; cancel != nil {
			cancel()
		}
	case "":
		if answer := s.questions[string(id)]; answer != nil {
			delete(s.questions, string(id))
			answer <- raw
		}
	}
}

// stop ends the server's calls.
func (s *askingServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, cancel := range s.calls {
		cancel()
	}
}

func (s *askingServer) send(format string, args ...any) {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	s.conn.Receive(fmt.Appendf(nil, format, args...), s)
}

// serve answers a call.
func (s *askingServer) serve(ctx context.Context, id, number string) {
	for range s.w.intn(4) {
		s.pause(ctx)
		var asking sync.WaitGroup
		for range 1 + s.w.intn(2) {
			asking.Go(func() { s.ask(ctx, number) })
		}
		asking.Wait()
	}
	s.pause(ctx)
	answers := ctx.Err() == nil || s.w.intn(4) == 0 // perhaps late
	s.mu.Lock()
	s.calls[id]()
	delete(s.calls, id)
	s.mu.Unlock()
	if answers {
		s.send(`{"jsonrpc":"2.0","id":%s,"result":{"call":%s}}`, id, number)
	}
}

func (s *askingServer) pause(ctx context.Context) {
	d := time.Duration(s.w.intn(40)) * time.Millisecond
	if s.w.intn(6) == 0 {
		d = time.Duration(s.w.intn(20)) * time.Second
	}
	select {
	case <-time.After(testenv.Quiet(d)):
	case <-ctx.Done():
	}
}

// ask asks for the roots of a call; the answer must have the call's number.
func (s *askingServer) ask(ctx context.Context, number string) {
	if ctx.Err() != nil {
		return
	}
	answer := make(chan []byte, 1)
	s.mu.Lock()
	s.asked++
	id := strconv.Itoa(s.asked)
	s.questions[id] = answer
	s.mu.Unlock()
	s.w.leaving.Lock()
	if n, _ := strconv.Atoi(number); s.w.left[n] {
		s.w.late[n] = true
	}
	s.send(`{"jsonrpc":"2.0","id":%s,"method":"roots/list","params":{"call":%s}}`, id, number)
	s.w.leaving.Unlock()
	patience := 10 * time.Minute
	if s.w.intn(6) == 0 {
		patience = time.Duration(s.w.intn(500)) * time.Millisecond
	}
	select {
	case raw := <-answer:
		if roots, _ := wire.Get(raw, "result", "roots"); roots != nil && string(roots) != "["+number+"]" {
			s.w.fault("call %s got %s", number, raw)
		}
	case <-time.After(patience):
		if patience == 10*time.Minute {
			s.w.fault("call %s got no answer", number)
		}
		s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
	case <-ctx.Done(): // as servers do after the cancellation of a call
	}
}

// crowd are the clients with the same credentials.
type crowd struct {
	w         *world
	index     int
	token     string
	parking   Parking
	principal *Principal
	conn      *rpc.Conn

	mu       sync.Mutex // guards the fields below
	requests []*crowdRequest
	states   []crowdState
}

// crowdRequest is a request of a client, and the rpc.Stream of the answer.
type crowdRequest struct {
	simulatedRequest
	crowd *crowd
}

// crowdState is a state with the questions: the numbers of their calls by keys.
type crowdState struct {
	call    int
	state   string
	answers map[string]string
}

func newCrowd(w *world, index int, token string) *crowd {
	c := &crowd{w: w, index: index, token: token}
	c.principal = New(w.t.Context(), Options{
		Backend: w.router, Name: "n", Version: "v", Parking: &c.parking, Principal: token, ManyClients: true,
		InputTimeout: func() time.Duration { return simulatedTimeout }, Log: slog.New(slog.DiscardHandler),
	})
	c.conn = rpc.New(w.t.Context(), rpc.Options{Peer: rpc.Client, Main: &crowdRequest{crowd: c}, Handler: c, SharedIDs: true, MaxRequests: 1000})
	return c
}

// Request implements rpc.Handler.
func (c *crowd) Request(r *rpc.Request) {
	c.principal.Serve(r, envelope.Envelope{Revision: protocol.Stateless.Newest(), Capabilities: []byte(`{"roots":{}}`)})
}

// Notification implements rpc.Handler.
func (c *crowd) Notification(wire.Inbound) {}

func (c *crowd) send(call int, members string) {
	r := &crowdRequest{simulatedRequest{call: call}, c}
	c.mu.Lock()
	c.requests = append(c.requests, r)
	c.mu.Unlock()
	c.conn.Receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"call":%d}%s}}`, call, members), r)
}

// repeat repeats a request with some of the answers.
func (c *crowd) repeat() {
	c.mu.Lock()
	if len(c.states) == 0 {
		c.mu.Unlock()
		return
	}
	s := c.states[len(c.states)-1-c.w.intn(min(3, len(c.states)))]
	c.mu.Unlock()
	var answers []string
	for key, number := range s.answers {
		if c.w.intn(5) > 0 {
			answers = append(answers, fmt.Sprintf(`%q:{"roots":[%s]}`, key, number))
		}
	}
	c.send(s.call, fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}`, s.state, strings.Join(answers, ",")))
}

// disconnect ends the connection of some request.
func (c *crowd) disconnect() {
	c.mu.Lock()
	var r *crowdRequest
	if len(c.requests) > 0 {
		r = c.requests[c.w.intn(len(c.requests))]
	}
	c.mu.Unlock()
	if r != nil {
		c.w.leaving.Lock()
		c.w.left[r.call] = true
		c.w.leaving.Unlock()
		c.conn.Abandon(r, errGone)
	}
}

// Finish implements rpc.Stream.
func (r *crowdRequest) Finish(f rpc.Frame) {
	defer f.Done(rpc.Written, nil)
	c := r.crowd
	if number, ok := wire.Get(f.Data, "result", "call"); ok && string(number) != strconv.Itoa(r.call) {
		c.w.fault("call %d is answered with %s", r.call, f.Data)
	}
	state, ok := wire.GetString(f.Data, "result", "requestState")
	if !ok {
		return
	}
	s := crowdState{r.call, state, map[string]string{}}
	raw, _ := wire.Get(f.Data, "result", "inputRequests")
	all, _ := wire.Members(raw)
	for _, m := range all {
		number, _ := wire.Get(m.Value, "params", "call")
		s.answers[m.Name] = string(number)
		n, _ := strconv.Atoi(string(number))
		c.w.leaving.Lock()
		late := c.w.late[n]
		c.w.leaving.Unlock()
		if n%len(c.w.crowds) != c.index || c.token == "" && n != r.call && !late {
			c.w.fault("call %d of clients with token %q is asked the question of call %d", r.call, c.token, n)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states = append(c.states, s)
}
