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

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// TestInterleavings plays random steps against connections, many of them at the
// same time: calls, answers, late and second answers, progress, cancellations in
// both directions, requests that reuse an id, batches, streams that end, time that
// passes, and the end of the connection. Whatever happens, every call has one
// outcome and no progress after it, every request of the peer is answered once or
// was dropped, and nothing is left at the end.
func TestInterleavings(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 100
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

// game is one round.
type game struct {
	t       *testing.T
	random  *rand.Rand
	conn    *Conn
	main    *fakeStream
	errs    errorLog
	numbers int // of calls

	mu      sync.Mutex
	calls   []*played
	frames  []*frame
	handled []*Request
	gone    map[*Request]bool
	release []func()
	ends    sync.WaitGroup // goroutines of the round
}

// errorLog takes failures of any goroutine.
type errorLog struct {
	mu  sync.Mutex
	all []string
}

func (l *errorLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

// played is a call of ours.
type played struct {
	stream   Stream
	pending  Pending
	private  *fakeCallStream // nil if it is on another stream
	wants    bool            // progress
	slow     time.Duration   // of the progress callback
	task     bool            // it asks for one
	inside   atomic.Int32    // progress callbacks that run
	outcomes atomic.Int32
	isTask   atomic.Bool // and was answered with one
	number   int         // in its params
	limit    Limit
	started  time.Time
	err      error // that it ended with; after its outcome
	cancel   func(error)
}

// frame is a frame of the peer with requests.
type frame struct {
	stream *fakeStream
	wants  int // messages that want an answer
	done   bool
}

func play(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	g := &game{t: t, random: random, gone: map[*Request]bool{}, main: newFakeStream(1 + random.IntN(8))}
	g.main.main = true
	peer := Peer(g.random.IntN(2))
	g.conn = New(context.Background(), Options{
		Peer: peer, Main: g.main, Handler: g, SerialIDs: true, MaxRequests: 6, MaxAnswers: 20, KeepWorkers: g.random.IntN(3),
	})
	g.conn.SetBatches(g.random.IntN(2) == 0)
	for range 60 + g.random.IntN(100) {
		g.step()
		if g.random.IntN(3) == 0 {
			synctest.Wait()
		}
	}
	g.finish()
	for _, e := range g.errs.all {
		t.Error(e)
	}
}

// background runs f at the same time as the next steps, perhaps.
func (g *game) background(f func()) {
	if g.random.IntN(2) == 0 {
		f()
		return
	}
	g.ends.Go(f)
}

func (g *game) step() {
	switch n := g.random.IntN(100); {
	case n < 14:
		g.submit()
	case n < 26:
		g.callAndWait()
	case n < 38:
		k := 1 + g.random.IntN(4)
		g.background(func() { g.flush(k) })
	case n < 54:
		g.answer()
	case n < 62:
		g.progress()
	case n < 70:
		g.cancel()
	case n < 84:
		g.request()
	case n < 90:
		g.releaseOne()
	case n < 94:
		id := g.random.IntN(5)
		g.receive(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id), g.main)
	case n < 96:
		g.abandon()
	case n < 99:
		time.Sleep(time.Duration(g.random.IntN(4)) * time.Second)
	default:
		switch g.random.IntN(4) {
		case 0:
			g.background(func() { g.conn.End(errors.New("the end")) })
		case 1:
			g.background(g.main.fail)
		}
	}
}

// receive gives the connection a frame.
func (g *game) receive(raw string, on Stream) { g.conn.Receive([]byte(raw), on) }

// newCall makes a random call.
func (g *game) newCall() (*played, Call) {
	p := &played{wants: g.random.IntN(2) == 0, task: g.random.IntN(4) == 0, slow: time.Duration(g.random.IntN(3)) * time.Millisecond}
	g.numbers++
	p.number, p.started = g.numbers, time.Now()
	call := Call{Call: wire.Call{Method: "tools/call", Params: fmt.Appendf(nil, `{"n":%d}`, p.number), Owner: p}}
	if g.random.IntN(10) == 0 {
		call.Method = "initialize"
	}
	if p.task {
		call.Params = fmt.Appendf(nil, `{"n":%d,"task":{}}`, p.number)
	}
	if p.wants {
		call.Progress = func([]byte) { g.progressed(p) }
	}
	switch g.random.IntN(4) {
	case 0:
		p.private = &fakeCallStream{fakeStream: newFakeStream(1), owner: p}
		p.stream = p.private
	case 1:
		if f := g.anyFrame(); f != nil {
			p.stream = f.stream
		}
	}
	call.Stream = p.stream
	p.limit = Limit{Idle: time.Duration(g.random.IntN(4)) * time.Second, Max: time.Duration(g.random.IntN(6)) * time.Second}
	call.Limit = p.limit
	return p, call
}

// progressed is the progress callback of a call.
func (g *game) progressed(p *played) {
	if p.inside.Add(1) != 1 {
		g.errs.add("two progress callbacks of one call at a time")
	}
	if p.outcomes.Load() > 0 && !p.isTask.Load() {
		g.errs.add("progress after the outcome")
	}
	time.Sleep(p.slow)
	if p.outcomes.Load() > 0 && !p.isTask.Load() {
		g.errs.add("an outcome while progress runs")
	}
	p.inside.Add(-1)
}

// ended takes the outcome of a call.
func (g *game) ended(p *played, reply wire.Reply, err error) {
	if err == nil && reply.Result == nil && reply.Error == nil {
		g.errs.add("neither a reply nor an error")
	}
	if p.outcomes.Add(1) != 1 {
		g.errs.add("a second outcome: %s %v", reply.Result, err)
	}
	if p.inside.Load() > 0 && !p.isTask.Load() {
		g.errs.add("the outcome came while progress ran")
	}
	// A limit ends a call at once, but for a progress callback that runs and the
	// time that it takes to find out why nothing was written.
	if took := time.Since(p.started); p.limit.Max > 0 && took > p.limit.Max+unwrittenWait+100*time.Millisecond {
		g.errs.add("a call took %v, at most %v were allowed", took, p.limit.Max)
	}
	p.err = err
}

func (g *game) submit() {
	p, call := g.newCall()
	pending, err := g.conn.Submit(call, func(reply wire.Reply, next wire.Continuation) {
		if p.task && p.wants && strings.Contains(string(reply.Result), `"working"`) {
			p.isTask.Store(true)
		}
		if next == nil {
			g.ended(p, reply, nil)
			return
		}
		g.ends.Go(func() {
			reply, err := next(context.Background())
			if err == nil {
				g.errs.add("a continuation without an error")
			}
			g.ended(p, reply, err)
		})
	})
	if err != nil {
		if p.outcomes.Load() > 0 {
			g.errs.add("an outcome of a call that was not submitted: %v", err)
		}
		return
	}
	p.pending, p.cancel = pending, pending.Cancel
	g.add(p)
}

func (g *game) callAndWait() {
	p, call := g.newCall()
	ctx, cancel := context.WithCancelCause(context.Background())
	p.cancel = cancel
	g.ends.Go(func() {
		defer cancel(nil)
		reply, err := g.conn.Call(ctx, call)
		if p.task && p.wants && strings.Contains(string(reply.Result), `"working"`) {
			p.isTask.Store(true)
		}
		g.ended(p, reply, err)
	})
	g.add(p)
}

func (g *game) add(p *played) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, p)
}

func (g *game) any() *played {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.calls) == 0 {
		return nil
	}
	return g.calls[g.random.IntN(len(g.calls))]
}

func (g *game) anyFrame() *frame {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.frames) == 0 {
		return nil
	}
	return g.frames[g.random.IntN(len(g.frames))]
}

// flush writes frames of all streams.
func (g *game) flush(n int) {
	for _, s := range g.streams() {
		s.flush(n)
	}
}

func (g *game) streams() []*fakeStream {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := []*fakeStream{g.main}
	for _, p := range g.calls {
		if p.private != nil {
			all = append(all, p.private.fakeStream)
		}
	}
	for _, f := range g.frames {
		all = append(all, f.stream)
	}
	return all
}

// target is a request that was written, and the stream where its answer may
// come.
func (g *game) target() (id int64, on Stream) {
	on = g.main
	if p := g.any(); p != nil && p.private != nil && g.random.IntN(2) == 0 {
		on = p.private
		id, _ = p.private.Call()
		return id, on
	}
	var all []int64
	for _, s := range g.streams() {
		requests, _ := s.written()
		all = append(all, requests...)
	}
	if len(all) == 0 {
		return 99, on
	}
	return all[g.random.IntN(len(all))], on
}

// answer answers a request of ours: in flight, cancelled, or answered before.
func (g *game) answer() {
	id, on := g.target()
	member := []string{
		`"result":{}`, `"error":{"code":1,"message":"no"}`, `"result":{"task":{"taskId":"t","status":"working"}}`, `"result":{},"error":{}`,
	}[g.random.IntN(4)]
	raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, id, member)
	g.background(func() { g.receive(raw, on) })
}

func (g *game) progress() {
	id, on := g.target()
	raw := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}`, id)
	if g.random.IntN(4) == 0 {
		raw = `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t","status":"failed"}}`
	}
	g.ends.Go(func() { g.receive(raw, on) })
}

func (g *game) cancel() {
	if p := g.any(); p != nil {
		g.background(func() { p.cancel(errors.New("cancelled")) })
	}
}

// request has the peer ask something, with an id that may be in use.
func (g *game) request() {
	one := func() (raw string, wants bool) {
		id := g.random.IntN(5)
		switch method := []string{"reply", "start", "async", "left", "ping", "note", "bad"}[g.random.IntN(7)]; method {
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
	if g.conn.batches.Load() && g.random.IntN(2) == 0 {
		var items []string
		for range 1 + g.random.IntN(4) {
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
	g.mu.Lock()
	g.frames = append(g.frames, f)
	g.mu.Unlock()
	g.ends.Go(func() {
		if waits := g.conn.Receive([]byte(raw), f.stream); waits != (f.wants > 0) && g.conn.Err() == nil {
			g.errs.add("%s: waits is %v", raw, waits)
		}
	})
}

// Request implements Handler.
func (g *game) Request(r *Request) {
	g.handle(r)
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
			if cause := context.Cause(ctx); cause != nil && cause != g.conn.Err() {
				g.cancelled(r, cause)
			}
			_ = r.Notify(ctx, "note", nil)
			return reply
		})
	case "async", "left":
		if r.Method == "async" {
			open = func() { r.Reply(reply) }
		}
		r.OnCancel(func(cause error) {
			if cause != g.conn.Err() {
				g.cancelled(r, cause)
			}
			r.Reply(reply)
		})
	default:
		r.Reply(reply)
		r.Reply(reply) // which is nothing
	}
	g.mu.Lock()
	g.release = append(g.release, open)
	g.mu.Unlock()
}

// handle notes a request that the connection has admitted.
func (g *game) handle(r *Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conn.mu.Lock()
	defer g.conn.mu.Unlock()
	for _, other := range g.handled {
		if other.key == r.key && other.phase == working {
			g.errs.add("two requests with id %s at a time", r.ID)
		}
	}
	g.handled = append(g.handled, r)
}

// cancelled notes that a request was cancelled, and so must not be answered.
func (g *game) cancelled(r *Request, _ error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone[r] = true
}

// Notification implements Handler.
func (g *game) Notification(m wire.Inbound) { m.Owners() }

func (g *game) releaseOne() {
	g.mu.Lock()
	if len(g.release) == 0 {
		g.mu.Unlock()
		return
	}
	i := g.random.IntN(len(g.release))
	open := g.release[i]
	g.mu.Unlock()
	g.background(open)
}

func (g *game) abandon() {
	if f := g.anyFrame(); f != nil {
		g.background(func() { g.conn.Abandon(f.stream, errors.New("gone")) })
	}
}
