package host

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/clients/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// settleTime is how long a replica that drains still takes new sessions: load balancers do not
// learn at once that it is not ready.
const settleTime = 10 * time.Second

// ErrDraining says that a replica takes no new sessions.
var ErrDraining = errors.New("this replica drains, and takes no new sessions (try again: another one takes them)")

// drain is what becomes of a replica that drains.
type drain struct {
	// begun ends when the replica begins to drain, and left when its durable runs are left to
	// others. They do not end without a fleet.
	begun, left context.Context
	begin       context.CancelFunc
	leave       context.CancelFunc
	settle      time.Duration // settleTime, except in tests
	settled     atomic.Bool   // no new sessions are taken any more
	idle        chan struct{} // closed when the replica was told to end and nothing is going on

	requests  atomic.Int64  // of clients, in flight
	wake      chan struct{} // of capacity 1: a request has ended
	following sync.WaitGroup
	stop      context.CancelFunc
}

func newDrain() *drain {
	d := &drain{settle: settleTime, idle: make(chan struct{}), wake: make(chan struct{}, 1), stop: func() {}}
	d.begun, d.begin = context.WithCancel(context.Background())
	d.left, d.leave = context.WithCancel(context.Background())
	return d
}

// followDrain does what is to be done when the replica begins to drain, until the Host is closed.
func (h *Host) followDrain() {
	if h.fleet == nil || h.opts.Clients == NoClient {
		return
	}
	h.fleet.Count("requests", h.drain.requests.Load)
	h.fleet.Count("settling", func() int64 {
		if h.fleet.IsDraining() && !h.drain.settled.Load() {
			return 1
		}
		return 0
	})
	h.fleet.Count("runs", func() int64 { return int64(h.sandbox.Active()) })
	h.fleet.Count("durable_runs_taken_over", h.durable.taken)
	ctx, stop := context.WithCancel(context.Background())
	h.drain.stop = stop
	h.drain.following.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-h.fleet.Draining():
		}
		h.drain.begin()
		h.durable.takeNoMore()
		h.sayIfLast(ctx)
		h.awaitDrained(ctx)
	})
}

// awaitDrained leaves the durable runs that no client waits for to other replicas, as soon as
// there is one that can go on with them, and says when nothing is going on any more, if the
// replica was told to end then.
func (h *Host) awaitDrained(ctx context.Context) {
	settled := time.After(h.drain.settle)
	ticker := time.NewTicker(time.Second) // scripts and other replicas do not wake anybody
	defer ticker.Stop()
	for {
		if h.hasSuccessor() {
			h.drain.leave()
		}
		if h.drain.settled.Load() && h.fleet.EndsDrained() && h.Busy() == 0 {
			h.opts.Log.Info("this replica has drained, and ends")
			close(h.drain.idle)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-settled:
			h.drain.settled.Store(true)
		case <-h.drain.wake:
		case <-ticker.C:
		}
	}
}

// sayIfLast warns if there are open durable runs that nobody else can go on with.
func (h *Host) sayIfLast(ctx context.Context) {
	if h.hasSuccessor() {
		return
	}
	if open, err := h.openDurableRuns(ctx); err == nil && open > 0 {
		h.opts.Log.Warn("no other replica has the same guest: the open durable runs go on only when one is started that has it",
			"runs", open, "guest", sandbox.GuestDigest())
	}
}

// hasSuccessor reports whether another replica can go on with the runs of this one.
func (h *Host) hasSuccessor() bool {
	return slices.ContainsFunc(h.fleet.Replicas(), func(r fleet.Replica) bool {
		return !r.Self && r.State == fleet.Live && !r.Draining && r.Guest == sandbox.GuestDigest()
	})
}

// openDurableRuns returns how many durable runs are open that need the guest of this replica.
func (h *Host) openDurableRuns(ctx context.Context) (n int, err error) {
	if h.durable.Runs == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	all, err := h.durable.List(ctx)
	for _, o := range all {
		if o.State != nil && o.State.Record.Guest == sandbox.GuestDigest() {
			n++
		}
	}
	return n, err
}

// Drain makes this process take no new sessions, and leave its durable runs to others, for
// good. With end, it ends when nothing is going on any more; see Drained. It reports false, and
// does nothing, if there is no fleet.
func (h *Host) Drain(end bool) bool {
	if h.fleet == nil {
		return false
	}
	if end {
		h.fleet.EndDrained()
	}
	h.fleet.Drain()
	return true
}

// Drained is closed when the replica was told to end when it has drained, and has.
func (h *Host) Drained() <-chan struct{} { return h.drain.idle }

// Settled reports whether the replica has drained for so long that load balancers know it, and
// it takes no new sessions any more.
func (h *Host) Settled() bool { return h.drain.settled.Load() }

// Busy returns how many requests and runs are going on, as far as a fleet counts them.
func (h *Host) Busy() int64 {
	return h.drain.requests.Load() + int64(h.sandbox.Active()) + h.durable.taken()
}

// close ends the following.
func (d *drain) close() {
	d.stop()
	d.following.Wait()
	d.begin() // releases what waits for it
	d.leave()
}

// refuses returns ErrDraining if no new session may begin.
func (d *drain) refuses() error {
	if d.settled.Load() {
		return ErrDraining
	}
	return nil
}

// handler makes clients open another connection after each answer of a replica that drains.
func (d *drain) handler(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.begun.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		inner.ServeHTTP(w, r)
	})
}

// counted is a clients.Tracer that counts the requests in flight, before another one.
type counted struct {
	clients.Tracer // nil for none
	drain          *drain
}

// BeginRequest implements stateless.Tracer.
func (c counted) BeginRequest(o route.Origin, method string, id, params []byte) rpc.Span {
	c.drain.requests.Add(1)
	s := countedSpan{drain: c.drain}
	if c.Tracer != nil {
		s.inner = c.Tracer.BeginRequest(o, method, id, params)
	}
	return s
}

// BeginCall implements rpc.Tracer.
func (c counted) BeginCall(ctx context.Context, id int64, call wire.Call) ([]byte, rpc.Span) {
	if c.Tracer != nil {
		return c.Tracer.BeginCall(ctx, id, call)
	}
	return call.Params, nil
}

type countedSpan struct {
	drain *drain
	inner rpc.Span
}

// End implements rpc.Span.
func (s countedSpan) End(reply wire.Reply, err error) {
	if s.inner != nil {
		s.inner.End(reply, err)
	}
	s.drain.requests.Add(-1)
	select {
	case s.drain.wake <- struct{}{}:
	default:
	}
}

var _ stateless.Tracer = counted{}

// FleetRuns returns the open durable runs of a fleet, for a command.
func FleetRuns(ctx context.Context, f *fleet.Fleet) ([]durable.Open, error) {
	runs := durable.New(durable.Options{Store: durable.Shared(f.Store()), Owner: func() (string, error) {
		return "", errors.New("this command makes no runs")
	}})
	all, err := runs.List(ctx)
	return all, errors.Join(err, runs.Close(ctx))
}

// inBackground runs f, whose error the channel gets.
func inBackground(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// awaitUntil returns the error from the channel, and whether it came in time.
func awaitUntil(end time.Time, from <-chan error) (ended bool, err error) {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case err = <-from:
		return true, err
	case <-timer.C:
	}
	select { // both may have been there
	case err = <-from:
		return true, err
	default:
		return false, nil
	}
}
