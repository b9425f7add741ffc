package rpc

import (
	"context"
	"sync"
	"sync/atomic"
)

// workers runs requests on goroutines. Some idle goroutines are kept for further requests: their
// stacks need not grow again.
type workers struct {
	keep int             // the largest number of idle goroutines
	ctx  context.Context // idle goroutines end with ctx
	next chan *Request   // received by idle goroutines
	idle atomic.Int32    // the number of idle goroutines
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
