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

// settleTime is how long a draining replica still takes new sessions: load balancers learn of the
// drain with a delay.
const settleTime = 10 * time.Second

// ErrDraining is the error for a new session in a replica that has drained.
var ErrDraining = errors.New("this replica drains, and takes no new sessions (try again: another one takes them)")

// drain is the progress of a replica that drains.
type drain struct {
	// begun ends when the replica begins to drain, and left when the replica leaves its durable
	// runs to other replicas. Without a fleet, neither ends before the Host closes.
	begun, left context.Context
	begin       context.CancelFunc
	leave       context.CancelFunc
	settle      time.Duration // settleTime, except in tests
	settled     atomic.Bool   // new sessions are refused
	idle        chan struct{} // closed when the replica was told to end and has no request or run

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

// followDrain waits until the replica begins to drain, and then drains until the Host is closed.
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

// awaitDrained leaves the durable runs without waiting clients to other replicas, as soon as a
// replica has the same guest. If the replica was told to end, awaitDrained closes h.drain.idle when
// no request and no run is in progress.
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

// sayIfLast warns about open durable runs that no other replica can continue.
func (h *Host) sayIfLast(ctx context.Context) {
	if h.hasSuccessor() {
		return
	}
	if open, err := h.openDurableRuns(ctx); err == nil && open > 0 {
		h.opts.Log.Warn("no other replica has the same guest: the open durable runs go on only when one is started that has it",
			"runs", open, "guest", sandbox.GuestDigest())
	}
}

// hasSuccessor reports whether another replica can continue the runs of this replica.
func (h *Host) hasSuccessor() bool {
	return slices.ContainsFunc(h.fleet.Replicas(), func(r fleet.Replica) bool {
		return !r.Self && r.State == fleet.Live && !r.Draining && r.Guest == sandbox.GuestDigest()
	})
}

// openDurableRuns returns the number of open durable runs that need the guest of this replica.
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

// Drain makes this process refuse new sessions, and leave its durable runs to other replicas, for
// good. With end, the process ends when no request and no run is in progress; see Drained. Drain
// reports false, and does nothing, without a fleet.
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

// Drained returns a channel that is closed once a replica with the order to end has drained.
func (h *Host) Drained() <-chan struct{} { return h.drain.idle }

// Settled reports whether the replica refuses new sessions: load balancers have had settleTime to
// notice the drain.
func (h *Host) Settled() bool { return h.drain.settled.Load() }

// Busy returns the number of requests and runs in progress. Requests are counted only in a fleet.
func (h *Host) Busy() int64 {
	return h.drain.requests.Load() + int64(h.sandbox.Active()) + h.durable.taken()
}

// close ends the following.
func (d *drain) close() {
	d.stop()
	d.following.Wait()
	d.begin() // releases the goroutines that wait for begun
	d.leave()
}

// refuses returns ErrDraining if no new session may begin.
func (d *drain) refuses() error {
	if d.settled.Load() {
		return ErrDraining
	}
	return nil
}

// handler makes clients open another connection after each answer of a draining replica.
func (d *drain) handler(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.begun.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		inner.ServeHTTP(w, r)
	})
}

// counted is a clients.Tracer that counts the requests in flight, and then calls another Tracer.
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

// inBackground runs f, and sends the error of f to the channel.
func inBackground(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// awaitUntil returns the error from the channel, and whether the error came in time.
func awaitUntil(end time.Time, from <-chan error) (ended bool, err error) {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case err = <-from:
		return true, err
	case <-timer.C:
	}
	select { // the error and the end of the time may have come together
	case err = <-from:
		return true, err
	default:
		return false, nil
	}
}
