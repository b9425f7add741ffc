package front

import (
	"context"
	"sync"
	"time"
)

// What the memory of many large bodies leaves behind, the runtime keeps for
// minutes, and what has become free since it last looked for longer than that.
// So it is given back to the system, once after each burst.
const (
	burst     = 64 << 20        // bytes of bodies at a time
	giveAfter = 5 * time.Second // after the last of them, when most of their memory is free
)

// giver has memory given back to the system after bursts. run does it.
type giver struct {
	give  func()
	quiet chan struct{} // holds a token when bodies of a burst have become few

	mu   sync.Mutex // a leaf
	held int64      // bytes of bodies that there are
	most int64      // that there were since memory was given back
}

func newGiver(give func()) *giver { return &giver{give: give, quiet: make(chan struct{}, 1)} }

// add counts bytes of bodies that come, or go if n is negative.
func (g *giver) add(n int64) {
	g.mu.Lock()
	g.held += n
	g.most = max(g.most, g.held)
	quiet := n < 0 && g.most >= burst && g.held <= g.most/8
	g.mu.Unlock()
	if !quiet {
		return
	}
	select {
	case g.quiet <- struct{}{}:
	default:
	}
}

// run gives memory back after bursts until ctx ends.
func (g *giver) run(ctx context.Context) {
	for {
		select {
		case <-g.quiet:
		case <-ctx.Done():
			return
		}
		timer := time.NewTimer(giveAfter)
		for waiting := true; waiting; {
			select {
			case <-g.quiet: // something more has gone
				timer.Reset(giveAfter)
			case <-timer.C:
				waiting = false
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
		g.mu.Lock()
		over := g.held <= g.most/8 // else another burst has begun, and will be over too
		if over {
			g.most = g.held
		}
		g.mu.Unlock()
		if over {
			g.give()
		}
	}
}
