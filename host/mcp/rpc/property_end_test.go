package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// finish ends a round and checks its results.
func (sim *simulation) finish() {
	late, began := errors.New("too late"), time.Now()
	sim.ends.Go(func() { sim.conn.Close(late) })
	synctest.Wait()
	for _, open := range sim.release {
		sim.ends.Go(open)
	}
	sim.ends.Go(func() { sim.flush(1000) })
	synctest.Wait()
	sim.flush(1000)
	sim.ends.Wait()
	sim.conn.Close(late) // again
	if took := time.Since(began); took > 500*time.Millisecond {
		sim.errs.add("the end took %v", took)
	}
	sim.checkCalls()
	sim.checkRequests()
	sim.checkState()
}

func (sim *simulation) checkCalls() {
	for _, p := range sim.calls {
		if n := p.outcomes.Load(); n != 1 {
			sim.errs.add("a call had %d outcomes", n)
		}
		if p.private != nil && p.private.settled > 1 {
			sim.errs.add("the stream of a call was told %d times of the outcome", p.private.settled)
		}
	}
	var requests, cancels []int64
	for _, s := range sim.streams() {
		r, c := s.written()
		requests, cancels = append(requests, r...), append(cancels, c...)
	}
	for _, id := range cancels {
		if !slices.Contains(requests, id) {
			sim.errs.add("request %d was cancelled at the peer, and never sent", id)
		}
	}
	for _, p := range sim.calls {
		id := sim.idOf(p)
		if id != 0 && isCancelled(p.err) && !slices.Contains(cancels, id) && !sim.lost(id) {
			sim.errs.add("request %d was sent and cancelled, and the peer was not told: %v", id, p.err)
		}
	}
	slices.Sort(cancels)
	if len(slices.Compact(slices.Clone(cancels))) != len(cancels) {
		sim.errs.add("a request was cancelled twice at the peer: %v", cancels)
	}
	slices.Sort(requests)
	if len(slices.Compact(slices.Clone(requests))) != len(requests) {
		sim.errs.add("a request was written twice: %v", requests)
	}
}

// isCancelled reports whether a call ended because it was cancelled or timed out.
func isCancelled(err error) bool {
	return err != nil && (err.Error() == "cancelled" || errors.Is(err, context.DeadlineExceeded))
}

// idOf returns the id of the request of a call; 0 if the request was not written.
func (sim *simulation) idOf(p *simulatedCall) int64 {
	for _, s := range sim.streams() {
		if id := s.numbers[p.number]; id != 0 {
			return id
		}
	}
	return 0
}

// lost reports whether a cancellation of a request cannot have been written: the request
// was initialize, its stream is broken, or its stream was not written to its end.
func (sim *simulation) lost(id int64) bool {
	for _, s := range sim.streams() {
		if s.broken {
			return true
		}
		for _, data := range s.sent {
			if strings.HasPrefix(string(data), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"initialize"`, id)) {
				return true
			}
		}
	}
	return false
}

// checkRequests compares the answers with the requests that were dropped.
func (sim *simulation) checkRequests() {
	gone := map[Stream]int{}
	for _, r := range sim.handled {
		if !r.replied {
			sim.errs.add("request %s %s has no reply", r.Method, r.ID)
		}
		if sim.gone[r] && r.phase != dropped {
			sim.errs.add("request %s %s was answered, and had been cancelled", r.Method, r.ID)
		}
		if r.phase == dropped {
			gone[r.on]++
		}
	}
	for _, f := range sim.frames {
		if f.wants == 0 {
			if f.stream.finishes != 0 {
				sim.errs.add("a frame without requests was finished")
			}
			continue
		}
		if f.stream.finishes != 1 {
			sim.errs.add("a frame with %d requests was finished %d times", f.wants, f.stream.finishes)
			continue
		}
		answers := 0
		if items, batch, err := wire.Split(f.stream.last); err != nil {
			sim.errs.add("%s: %v", f.stream.last, err)
		} else if batch {
			answers = len(items)
		} else if f.stream.last != nil {
			answers = 1
		}
		if answers+gone[f.stream] != f.wants {
			sim.errs.add("%d requests, %d answers, %d dropped: %s", f.wants, answers, gone[f.stream], f.stream.last)
		}
	}
}

// checkState checks that nothing is left in the connection.
func (sim *simulation) checkState() {
	sim.conn.mu.Lock()
	defer sim.conn.mu.Unlock()
	s := &sim.conn.state
	if len(s.calls)+len(s.tasks)+len(s.ongoing)+len(s.requests)+s.open > 0 {
		sim.errs.add("left: %d calls, %d tasks, %d requests, %d open", len(s.calls), len(s.ongoing), len(s.requests), s.open)
	}
	if s.timerSet {
		sim.errs.add("the timer is set")
	}
	if n := len(sim.conn.answers); n > 0 {
		sim.errs.add("%d answers are still to be written", n)
	}
}
