package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// finish ends a round and looks at what came of it.
func (g *game) finish() {
	late, began := errors.New("too late"), time.Now()
	g.ends.Go(func() { g.conn.Close(late) })
	synctest.Wait()
	for _, open := range g.release {
		g.ends.Go(open)
	}
	g.ends.Go(func() { g.flush(1000) })
	synctest.Wait()
	g.flush(1000)
	g.ends.Wait()
	g.conn.Close(late) // again
	if took := time.Since(began); took > 500*time.Millisecond {
		g.errs.add("the end took %v", took)
	}
	g.checkCalls()
	g.checkRequests()
	g.checkState()
}

func (g *game) checkCalls() {
	for _, p := range g.calls {
		if n := p.outcomes.Load(); n != 1 {
			g.errs.add("a call had %d outcomes", n)
		}
		if p.private != nil && p.private.settled > 1 {
			g.errs.add("the stream of a call was told %d times of the outcome", p.private.settled)
		}
	}
	var requests, cancels []int64
	for _, s := range g.streams() {
		r, c := s.written()
		requests, cancels = append(requests, r...), append(cancels, c...)
	}
	for _, id := range cancels {
		if !slices.Contains(requests, id) {
			g.errs.add("request %d was cancelled at the peer, and never sent", id)
		}
	}
	for _, p := range g.calls {
		id := g.idOf(p)
		if id != 0 && isCancelled(p.err) && !slices.Contains(cancels, id) && !g.lost(id) {
			g.errs.add("request %d was sent and cancelled, and the peer was not told: %v", id, p.err)
		}
	}
	slices.Sort(cancels)
	if len(slices.Compact(slices.Clone(cancels))) != len(cancels) {
		g.errs.add("a request was cancelled twice at the peer: %v", cancels)
	}
	slices.Sort(requests)
	if len(slices.Compact(slices.Clone(requests))) != len(requests) {
		g.errs.add("a request was written twice: %v", requests)
	}
}

// isCancelled reports whether a call ended since it was cancelled or took too long.
func isCancelled(err error) bool {
	return err != nil && (err.Error() == "cancelled" || errors.Is(err, context.DeadlineExceeded))
}

// idOf is the id that the request of a call was written with; 0 if it was not.
func (g *game) idOf(p *played) int64 {
	for _, s := range g.streams() {
		if id := s.numbers[p.number]; id != 0 {
			return id
		}
	}
	return 0
}

// lost reports whether no cancellation of a request can have been written: it was
// initialize, or its stream is broken or was never written to its end.
func (g *game) lost(id int64) bool {
	for _, s := range g.streams() {
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
func (g *game) checkRequests() {
	gone := map[Stream]int{}
	for _, r := range g.handled {
		if !r.replied {
			g.errs.add("request %s %s has no reply", r.Method, r.ID)
		}
		if g.gone[r] && r.phase != dropped {
			g.errs.add("request %s %s was answered, and had been cancelled", r.Method, r.ID)
		}
		if r.phase == dropped {
			gone[r.on]++
		}
	}
	for _, f := range g.frames {
		if f.wants == 0 {
			if f.stream.finishes != 0 {
				g.errs.add("a frame without requests was finished")
			}
			continue
		}
		if f.stream.finishes != 1 {
			g.errs.add("a frame with %d requests was finished %d times", f.wants, f.stream.finishes)
			continue
		}
		answers := 0
		if items, batch, err := wire.Split(f.stream.last); err != nil {
			g.errs.add("%s: %v", f.stream.last, err)
		} else if batch {
			answers = len(items)
		} else if f.stream.last != nil {
			answers = 1
		}
		if answers+gone[f.stream] != f.wants {
			g.errs.add("%d requests, %d answers, %d dropped: %s", f.wants, answers, gone[f.stream], f.stream.last)
		}
	}
}

// checkState finds what is left in the connection.
func (g *game) checkState() {
	g.conn.mu.Lock()
	defer g.conn.mu.Unlock()
	s := &g.conn.state
	if len(s.calls)+len(s.tasks)+len(s.ongoing)+len(s.requests)+s.open > 0 {
		g.errs.add("left: %d calls, %d tasks, %d requests, %d open", len(s.calls), len(s.ongoing), len(s.requests), s.open)
	}
	if s.timerSet {
		g.errs.add("the timer is set")
	}
	if n := len(g.conn.answers); n > 0 {
		g.errs.add("%d answers are still to be written", n)
	}
}
