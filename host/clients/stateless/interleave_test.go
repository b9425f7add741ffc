package stateless

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestInterleavings plays random clients against random servers, many concurrently: calls
// that ask again and again, also several things at once, retries with all, some and none
// of the answers, states that were changed, used or belong to another call, disconnects
// at every moment, time that passes, and the end of the principal. It checks that each
// request is answered once or was dropped, that each state works once, that a call gets
// the answers to its own questions, and that nothing is left at the end.
func TestInterleavings(t *testing.T) { playRounds(t, 300, 100, simulate) }

// playRounds plays rounds with random seeds, fewer with -short, until one fails.
func playRounds(t *testing.T, rounds, short int, play func(t *testing.T, seed uint64)) {
	if testing.Short() {
		rounds = short
	}
	first := rand.Uint64()
	for i := range rounds {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) { play(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// simulation is a round of TestInterleavings, and also the backend.
type simulation struct {
	t         *testing.T
	parking   Parking
	principal *Principal
	conn      *rpc.Conn
	calls     atomic.Int32 // in progress
	begun     atomic.Int32
	ended     atomic.Int32

	mu       sync.Mutex // guards the fields below
	random   *rand.Rand
	requests []*simulatedRequest
	states   []*simulatedState
	faults   []string
}

// simulatedRequest is a request of a client. It is the rpc.Stream of the answer.
type simulatedRequest struct {
	sim     *simulation
	call    int
	dropped atomic.Bool
	mu      sync.Mutex
	answers [][]byte
	ends    int
}

// simulatedState is a requestState that a client has got, with the questions.
type simulatedState struct {
	call  int
	state string
	keys  []string
	used  bool // by an accepted retry
}

func (sim *simulation) fault(format string, args ...any) {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	sim.faults = append(sim.faults, fmt.Sprintf(format, args...))
}

func (sim *simulation) intn(n int) int {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	return sim.random.IntN(n)
}

const simulatedTimeout = time.Minute

func simulate(t *testing.T, seed uint64) {
	sim := &simulation{t: t, random: rand.New(rand.NewPCG(seed, 1))}
	sim.principal = New(t.Context(), Options{
		Backend: sim, Name: "n", Version: "v", Parking: &sim.parking,
		InputTimeout: func() time.Duration { return simulatedTimeout }, Log: slog.New(slog.DiscardHandler),
	})
	sim.conn = rpc.New(t.Context(), rpc.Options{Peer: rpc.Client, Main: &simulatedRequest{sim: sim}, Handler: sim, SharedIDs: true, MaxRequests: 1000})
	for range 20 + sim.intn(60) {
		sim.step()
		if sim.intn(3) == 0 {
			synctest.Wait()
		}
	}
	sim.finish()
	for _, f := range sim.faults {
		t.Error(f)
	}
}

func (sim *simulation) step() {
	switch sim.intn(8) {
	case 0, 1:
		sim.send(int(sim.begun.Add(1)), "", "")
	case 2, 3, 4:
		sim.retry()
	case 5:
		sim.disconnect()
	default:
		time.Sleep(testenv.Quiet(time.Duration(sim.intn(30)) * time.Millisecond))
		if sim.intn(20) == 0 {
			time.Sleep(simulatedTimeout + time.Second)
		}
	}
}

// send sends a request for a call, which the arguments name.
func (sim *simulation) send(call int, state, answers string) *simulatedRequest {
	r := &simulatedRequest{sim: sim, call: call}
	sim.mu.Lock()
	sim.requests = append(sim.requests, r)
	sim.mu.Unlock()
	members := ""
	if state != "" {
		members = fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}`, state, answers)
	}
	sim.conn.Receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"call":%d}%s}}`, call, members), r)
	return r
}

// retry returns some state with some answers.
func (sim *simulation) retry() {
	sim.mu.Lock()
	if len(sim.states) == 0 {
		sim.mu.Unlock()
		return
	}
	s := sim.states[sim.random.IntN(len(sim.states))]
	used := s.used
	sim.mu.Unlock()
	var answers []string
	for _, key := range s.keys {
		if sim.intn(4) > 0 {
			answers = append(answers, fmt.Sprintf(`%q:{"roots":[%d]}`, key, s.call))
		}
	}
	wrong := true
	state, call := s.state, s.call
	switch sim.intn(8) {
	case 0:
		call++ // another request
	case 1:
		i := sim.intn(len(state))
		state = state[:i] + string(rune('A'+sim.intn(26))) + state[i+1:]
		wrong = state != s.state
	case 2:
		answers = []string{`"q1":[]`} // malformed, or for a question that is not open
		wrong = false
	default:
		wrong = false
	}
	r := sim.send(call, state, strings.Join(answers, ","))
	if sim.intn(2) == 0 {
		return
	}
	synctest.Wait()
	r.mu.Lock()
	refused := len(r.answers) == 1 && strings.Contains(string(r.answers[0]), "requestState is not valid")
	malformed := len(r.answers) == 1 && strings.Contains(string(r.answers[0]), "inputResponses.")
	r.mu.Unlock()
	switch {
	case r.dropped.Load():
	case wrong && !refused, used && !refused:
		sim.fault("wrong %v, used %v: answered with %s", wrong, used, r.answers)
	case !wrong && !refused && !malformed:
		sim.mu.Lock()
		s.used = true
		sim.mu.Unlock()
	}
}

// disconnect ends the connection of some request.
func (sim *simulation) disconnect() {
	sim.mu.Lock()
	var r *simulatedRequest
	if len(sim.requests) > 0 {
		r = sim.requests[sim.random.IntN(len(sim.requests))]
	}
	sim.mu.Unlock()
	if r != nil {
		r.dropped.Store(true)
		sim.conn.Abandon(r, errGone)
	}
}

// finish lets time pass, ends everything, and checks that nothing is left.
func (sim *simulation) finish() {
	time.Sleep(time.Duration(sim.intn(3)) * simulatedTimeout)
	sim.conn.End(wire.ErrClosed)
	sim.principal.End(wire.ErrClosed)
	sim.conn.Close(wire.ErrClosed)
	if !sim.principal.Close(time.Hour) {
		sim.fault("the principal has not ended")
	}
	if n := sim.calls.Load(); n != 0 {
		sim.fault("%d calls go on", n)
	}
	if sim.parking.n != 0 || len(sim.principal.parked) != 0 {
		sim.fault("%d and %d calls are parked", sim.parking.n, len(sim.principal.parked))
	}
	for _, r := range sim.requests {
		if r.ends != 1 || len(r.answers) > 1 || len(r.answers) == 0 && !r.dropped.Load() {
			sim.fault("request of call %d (dropped: %v): %d ends, answers %s", r.call, r.dropped.Load(), r.ends, r.answers)
		}
	}
}

// Request implements rpc.Handler.
func (sim *simulation) Request(r *rpc.Request) {
	sim.principal.Serve(r, envelope.Envelope{Revision: protocol.Stateless.Newest(), Capabilities: []byte(`{"roots":{}}`)})
}

// Notification implements rpc.Handler.
func (sim *simulation) Notification(wire.Inbound) {}

// Handle implements Backend: Handle asks several times, and several questions at once.
func (sim *simulation) Handle(ctx context.Context, call route.Call) wire.Reply {
	sim.calls.Add(1)
	defer sim.calls.Add(-1)
	number, _ := wire.Get(call.Params, "arguments", "call")
	for range sim.intn(4) {
		if sim.intn(2) == 0 {
			sim.pause(ctx, time.Duration(sim.intn(40))*time.Millisecond)
		}
		var asked sync.WaitGroup
		for range 1 + sim.intn(3) {
			asked.Go(func() { sim.ask(ctx, call.Origin, string(number)) })
		}
		asked.Wait()
		call.Origin.Notify("notifications/x", nil)
	}
	if sim.intn(4) == 0 {
		sim.pause(ctx, 2*simulatedTimeout)
	}
	return wire.Reply{Result: fmt.Appendf(nil, `{"call":%s}`, number)}
}

func (sim *simulation) ask(ctx context.Context, o route.Origin, number string) {
	if sim.intn(8) == 0 { // the question is withdrawn
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, testenv.Quiet(time.Duration(sim.intn(200))*time.Millisecond))
		defer cancel()
	}
	reply, err := o.Ask(ctx, wire.Call{Method: protocol.MethodRootsList})
	switch {
	case err == nil && string(reply.Result) != `{"roots":[`+number+`]}`:
		sim.fault("call %s got the answer %s", number, reply.Result)
	case err != nil && ctx.Err() == nil && !errors.Is(err, wire.ErrClosed):
		sim.fault("call %s: %v", number, err)
	}
}

func (sim *simulation) pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Discover, Begin, EndSession and Hints implement Backend.
func (sim *simulation) AwaitServers(context.Context, route.Session) {}

func (sim *simulation) Discover(route.Session) route.InitializeResult {
	return route.InitializeResult{}
}
func (sim *simulation) Begin(route.Session)              {}
func (sim *simulation) EndSession(route.Session)         { sim.ended.Add(1) }
func (sim *simulation) Hints(route.Call) *envelope.Hints { return nil }

// TrySend implements rpc.Stream.
func (r *simulatedRequest) TrySend(f rpc.Frame) bool {
	f.Done(rpc.Written, nil)
	return true
}

// Send implements rpc.Stream.
func (r *simulatedRequest) Send(_ context.Context, f rpc.Frame) error { return r.Push(f) }

// Push implements rpc.Stream.
func (r *simulatedRequest) Push(f rpc.Frame) error {
	f.Done(rpc.Written, nil)
	return nil
}

// Withdraw implements rpc.Stream.
func (r *simulatedRequest) Withdraw(int64) bool { return false }

// Finish implements rpc.Stream.
func (r *simulatedRequest) Finish(f rpc.Frame) {
	r.mu.Lock()
	r.ends++
	if f.Data != nil {
		r.answers = append(r.answers, f.Data)
	}
	r.mu.Unlock()
	f.Done(rpc.Written, nil)
	state, ok := wire.GetString(f.Data, "result", "requestState")
	if !ok {
		return
	}
	requests, _ := wire.Get(f.Data, "result", "inputRequests")
	s := &simulatedState{call: r.call, state: state}
	for i := 1; i < 200; i++ {
		if _, ok := wire.Get(requests, questionKey(i)); ok {
			s.keys = append(s.keys, questionKey(i))
		}
	}
	r.sim.mu.Lock()
	defer r.sim.mu.Unlock()
	r.sim.states = append(r.sim.states, s)
}
