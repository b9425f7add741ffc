package rpc

import (
	"context"
	"sync"
	"sync/atomic"
)

// workers runs requests on goroutines, some of which it keeps for the next ones:
// their stacks have grown already.
type workers struct {
	keep int             // at most
	ctx  context.Context // when it ends, none is kept any more
	next chan *Request   // taken by those that are kept
	idle atomic.Int32
	all  sync.WaitGroup
}

// start runs a request.
func (w *workers) start(r *Request) {
	select {
	case w.next <- r:
	default:
		w.all.Go(func() { w.run(r) })
	}
}

func (w *workers) run(r *Request) {
	for {
		r.run()
		if int(w.idle.Add(1)) > w.keep {
			w.idle.Add(-1)
			return
		}
		select {
		case r = <-w.next:
			w.idle.Add(-1)
		case <-w.ctx.Done():
			return
		}
	}
}
