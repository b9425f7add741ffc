package rpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestInterleavings performs random steps on connections, many of them concurrently:
// calls, answers, late and second answers, progress, cancellations in both directions,
// requests that reuse an id, batches, streams that end, time that passes, and the end
// of the connection. It checks that every call has one outcome and no progress after
// it, that every request of the peer is answered once or was dropped, and that nothing
// is left at the end.
func TestInterleavings(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 100
	}
	first := rand.Uint64()
	for i := range rounds {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// simulation is one round of TestInterleavings.
type simulation struct {
	t       *testing.T
	random  *rand.Rand
	conn    *Conn
	main    *fakeStream
	errs    errorLog
	numbers int // the number of calls so far

	mu      sync.Mutex
	calls   []*simulatedCall
	frames  []*frame
	handled []*Request
	gone    map[*Request]bool
	release []func()
	ends    sync.WaitGroup // goroutines of the round
}

// errorLog collects failures from any goroutine.
type errorLog struct {
	mu  sync.Mutex
	all []string
}

func (l *errorLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

// simulatedCall is a call of ours.
type simulatedCall struct {
	stream   Stream
	pending  Pending
	private  *fakeCallStream // its own stream; nil if it is on another stream
	wants    bool            // it wants progress
	slow     time.Duration   // how long the progress callback takes
	task     bool            // it asks for a task
	inside   atomic.Int32    // the number of progress callbacks that run
	outcomes atomic.Int32
	isTask   atomic.Bool // it was answered with a task
	number   int         // in its params
	limit    Limit
	started  time.Time
	err      error // the error that it ended with; set before its outcome is counted
	cancel   func(error)
}

// frame is a frame of the peer with requests.
type frame struct {
	stream *fakeStream
	wants  int // messages that want an answer
}

func simulate(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	sim := &simulation{t: t, random: random, gone: map[*Request]bool{}, main: newFakeStream(1 + random.IntN(8))}
	sim.main.main = true
	peer := Peer(sim.random.IntN(2))
	sim.conn = New(context.Background(), Options{
		Peer: peer, Main: sim.main, Handler: sim, SerialIDs: true, MaxRequests: 6, MaxAnswers: 20, KeepWorkers: sim.random.IntN(3),
	})
	sim.conn.SetBatches(sim.random.IntN(2) == 0)
	for range 60 + sim.random.IntN(100) {
		sim.step()
		if sim.random.IntN(3) == 0 {
			synctest.Wait()
		}
	}
	sim.finish()
	for _, e := range sim.errs.all {
		t.Error(e)
	}
}

// background runs f at once or concurrently with the next steps.
func (sim *simulation) background(f func()) {
	if sim.random.IntN(2) == 0 {
		f()
		return
	}
	sim.ends.Go(f)
}

func (sim *simulation) step() {
	switch n := sim.random.IntN(100); {
	case n < 14:
		sim.submit()
	case n < 26:
		sim.callAndWait()
	case n < 38:
		k := 1 + sim.random.IntN(4)
		sim.background(func() { sim.flush(k) })
	case n < 54:
		sim.answer()
	case n < 62:
		sim.progress()
	case n < 70:
		sim.cancel()
	case n < 84:
		sim.request()
	case n < 90:
		sim.releaseOne()
	case n < 94:
		id := sim.random.IntN(5)
		sim.receive(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id), sim.main)
	case n < 96:
		sim.abandon()
	case n < 99:
		time.Sleep(time.Duration(sim.random.IntN(4)) * time.Second)
	default:
		switch sim.random.IntN(4) {
		case 0:
			sim.background(func() { sim.conn.End(errors.New("the end")) })
		case 1:
			sim.background(sim.main.fail)
		}
	}
}

// receive passes a frame to the connection.
func (sim *simulation) receive(raw string, on Stream) { sim.conn.Receive([]byte(raw), on) }

// newCall makes a random call.
func (sim *simulation) newCall() (*simulatedCall, Call) {
	p := &simulatedCall{wants: sim.random.IntN(2) == 0, task: sim.random.IntN(4) == 0, slow: time.Duration(sim.random.IntN(3)) * time.Millisecond}
	sim.numbers++
	p.number, p.started = sim.numbers, time.Now()
	call := Call{Call: wire.Call{Method: "tools/call", Params: fmt.Appendf(nil, `{"n":%d}`, p.number), Owner: p}}
	if sim.random.IntN(10) == 0 {
		call.Method = "initialize"
	}
	if p.task {
		call.Params = fmt.Appendf(nil, `{"n":%d,"task":{}}`, p.number)
	}
	if p.wants {
		call.Progress = func([]byte) { sim.progressed(p) }
	}
	switch sim.random.IntN(4) {
	case 0:
		p.private = &fakeCallStream{fakeStream: newFakeStream(1), owner: p}
		p.stream = p.private
	case 1:
		if f := sim.anyFrame(); f != nil {
			p.stream = f.stream
		}
	}
	call.Stream = p.stream
	p.limit = Limit{Idle: time.Duration(sim.random.IntN(4)) * time.Second, Max: time.Duration(sim.random.IntN(6)) * time.Second}
	call.Limit = p.limit
	return p, call
}

// progressed is the progress callback of a call.
func (sim *simulation) progressed(p *simulatedCall) {
	if p.inside.Add(1) != 1 {
		sim.errs.add("two progress callbacks of one call at a time")
	}
	if p.outcomes.Load() > 0 && !p.isTask.Load() {
		sim.errs.add("progress after the outcome")
	}
	time.Sleep(p.slow)
	if p.outcomes.Load() > 0 && !p.isTask.Load() {
		sim.errs.add("an outcome while progress runs")
	}
	p.inside.Add(-1)
}

// ended records the outcome of a call.
func (sim *simulation) ended(p *simulatedCall, reply wire.Reply, err error) {
	if err == nil && reply.Result == nil && reply.Error == nil {
		sim.errs.add("neither a reply nor an error")
	}
	if p.outcomes.Add(1) != 1 {
		sim.errs.add("a second outcome: %s %v", reply.Result, err)
	}
	if p.inside.Load() > 0 && !p.isTask.Load() {
		sim.errs.add("the outcome came while progress ran")
	}
	// A limit ends a call at once, except for the time of a running progress callback
	// and the time to find out why the request could not be written.
	if took := time.Since(p.started); p.limit.Max > 0 && took > p.limit.Max+unwrittenWait+100*time.Millisecond {
		sim.errs.add("a call took %v, at most %v were allowed", took, p.limit.Max)
	}
	p.err = err
}

func (sim *simulation) submit() {
	p, call := sim.newCall()
	pending, err := sim.conn.Submit(call, func(reply wire.Reply, next wire.Continuation) {
		if p.task && p.wants && strings.Contains(string(reply.Result), `"working"`) {
			p.isTask.Store(true)
		}
		if next == nil {
			sim.ended(p, reply, nil)
			return
		}
		sim.ends.Go(func() {
			reply, err := next(context.Background())
			if err == nil {
				sim.errs.add("a continuation without an error")
			}
			sim.ended(p, reply, err)
		})
	})
	if err != nil {
		if p.outcomes.Load() > 0 {
			sim.errs.add("an outcome of a call that was not submitted: %v", err)
		}
		return
	}
	p.pending, p.cancel = pending, pending.Cancel
	sim.add(p)
}

func (sim *simulation) callAndWait() {
	p, call := sim.newCall()
	ctx, cancel := context.WithCancelCause(context.Background())
	p.cancel = cancel
	sim.ends.Go(func() {
		defer cancel(nil)
		reply, err := sim.conn.Call(ctx, call)
		if p.task && p.wants && strings.Contains(string(reply.Result), `"working"`) {
			p.isTask.Store(true)
		}
		sim.ended(p, reply, err)
	})
	sim.add(p)
}

func (sim *simulation) add(p *simulatedCall) {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	sim.calls = append(sim.calls, p)
}

func (sim *simulation) any() *simulatedCall {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	if len(sim.calls) == 0 {
		return nil
	}
	return sim.calls[sim.random.IntN(len(sim.calls))]
}

func (sim *simulation) anyFrame() *frame {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	if len(sim.frames) == 0 {
		return nil
	}
	return sim.frames[sim.random.IntN(len(sim.frames))]
}

// flush writes frames of all streams.
func (sim *simulation) flush(n int) {
	for _, s := range sim.streams() {
		s.flush(n)
	}
}

func (sim *simulation) streams() []*fakeStream {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	all := []*fakeStream{sim.main}
	for _, p := range sim.calls {
		if p.private != nil {
			all = append(all, p.private.fakeStream)
		}
	}
	for _, f := range sim.frames {
		all = append(all, f.stream)
	}
	return all
}

// target returns the id of a request that was written, and a stream on which its answer
// may come.
func (sim *simulation) target() (id int64, on Stream) {
	on = sim.main
	if p := sim.any(); p != nil && p.private != nil && sim.random.IntN(2) == 0 {
		on = p.private
		id, _ = p.private.Call()
		return id, on
	}
	var all []int64
	for _, s := range sim.streams() {
		requests, _ := s.written()
		all = append(all, requests...)
	}
	if len(all) == 0 {
		return 99, on
	}
	return all[sim.random.IntN(len(all))], on
}

// answer makes the peer answer a request of ours that is in flight, was cancelled, or
// was answered before.
func (sim *simulation) answer() {
	id, on := sim.target()
	member := []string{
		`"result":{}`, `"error":{"code":1,"message":"no"}`, `"result":{"task":{"taskId":"t","status":"working"}}`, `"result":{},"error":{}`,
	}[sim.random.IntN(4)]
	raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, id, member)
	sim.background(func() { sim.receive(raw, on) })
}

func (sim *simulation) progress() {
	id, on := sim.target()
	raw := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}`, id)
	if sim.random.IntN(4) == 0 {
		raw = `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t","status":"failed"}}`
	}
	sim.ends.Go(func() { sim.receive(raw, on) })
}

func (sim *simulation) cancel() {
	if p := sim.any(); p != nil {
		sim.background(func() { p.cancel(errors.New("cancelled")) })
	}
}

// request makes the peer send a request, whose id may be in use.
func (sim *simulation) request() {
	one := func() (raw string, wants bool) {
		id := sim.random.IntN(5)
		switch method := []string{"reply", "start", "async", "left", "ping", "note", "bad"}[sim.random.IntN(7)]; method {
		case "note":
			return `{"jsonrpc":"2.0","method":"note"}`, false
		case "bad": // with an id, so that either kind of peer gets an answer
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"bad","params":5}`, id), true
		default:
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"_meta":{"progressToken":1}}}`, id, method), true
		}
	}
	f := &frame{stream: newFakeStream(2)}
	var raw string
	if sim.conn.batches.Load() && sim.random.IntN(2) == 0 {
		var items []string
		for range 1 + sim.random.IntN(4) {
			item, wants := one()
			items = append(items, item)
			if wants {
				f.wants++
			}
		}
		raw = "[" + strings.Join(items, ",") + "]"
	} else {
		var wants bool
		if raw, wants = one(); wants {
			f.wants = 1
		}
	}
	sim.mu.Lock()
	sim.frames = append(sim.frames, f)
	sim.mu.Unlock()
	sim.ends.Go(func() {
		if waits := sim.conn.Receive([]byte(raw), f.stream); waits != (f.wants > 0) && sim.conn.Err() == nil {
			sim.errs.add("%s: waits is %v", raw, waits)
		}
	})
}

// Request implements Handler.
func (sim *simulation) Request(r *Request) {
	sim.handle(r)
	reply := wire.Reply{Result: []byte("{}")}
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	switch r.Method {
	case "start":
		r.Start(func(ctx context.Context, r *Request) wire.Reply {
			r.Progress([]byte(`{"progress":1}`))
			select {
			case <-gate:
			case <-ctx.Done():
			}
			if cause := context.Cause(ctx); cause != nil && cause != sim.conn.Err() {
				sim.cancelled(r, cause)
			}
			_ = r.Notify(ctx, "note", nil)
			return reply
		})
	case "async", "left":
		if r.Method == "async" {
			open = func() { r.Reply(reply) }
		}
		r.OnCancel(func(cause error) {
			if cause != sim.conn.Err() {
				sim.cancelled(r, cause)
			}
			r.Reply(reply)
		})
	default:
		r.Reply(reply)
		r.Reply(reply) // which is nothing
	}
	sim.mu.Lock()
	sim.release = append(sim.release, open)
	sim.mu.Unlock()
}

// handle records a request that the connection has admitted.
func (sim *simulation) handle(r *Request) {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	sim.conn.mu.Lock()
	defer sim.conn.mu.Unlock()
	for _, other := range sim.handled {
		if other.key == r.key && other.phase == working {
			sim.errs.add("two requests with id %s at a time", r.ID)
		}
	}
	sim.handled = append(sim.handled, r)
}

// cancelled records that a request was cancelled and must not be answered.
func (sim *simulation) cancelled(r *Request, _ error) {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	sim.gone[r] = true
}

// Notification implements Handler.
func (sim *simulation) Notification(m wire.Inbound) { m.Owners() }

func (sim *simulation) releaseOne() {
	sim.mu.Lock()
	if len(sim.release) == 0 {
		sim.mu.Unlock()
		return
	}
	i := sim.random.IntN(len(sim.release))
	open := sim.release[i]
	sim.mu.Unlock()
	sim.background(open)
}

func (sim *simulation) abandon() {
	if f := sim.anyFrame(); f != nil {
		sim.background(func() { sim.conn.Abandon(f.stream, errors.New("gone")) })
	}
}
