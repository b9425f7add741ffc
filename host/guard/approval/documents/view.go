package documents

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// view has the documents as last reported by the store.
type view struct {
	opts    Options
	ctx     context.Context // of watching
	stop    context.CancelFunc
	started sync.Once
	all     sync.Once // closes ready
	working sync.WaitGroup

	mu    sync.Mutex    // a leaf
	ready chan struct{} // closed when all documents were seen once
	seen  map[Name]held // not changed, but replaced
	next  chan struct{} // closed when seen is replaced
}

func (v *view) open(opts Options) {
	v.opts, v.seen, v.next, v.ready = opts, map[Name]held{}, make(chan struct{}), make(chan struct{})
	v.ctx, v.stop = context.WithCancel(context.Background())
}

func (v *view) close() {
	v.stop()
	v.started.Do(func() {}) // from now on no goroutine is started
	v.working.Wait()
}

func (v *view) start() {
	v.started.Do(func() { v.working.Go(v.watch) })
}

// get returns all documents, and waits until they are known.
func (v *view) get(ctx context.Context) (map[Name]held, error) {
	v.start()
	select {
	case <-v.ready:
	case <-v.ctx.Done():
		return nil, store.ErrClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen, nil
}

func (v *view) changed() <-chan struct{} {
	v.start()
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.next
}

func (v *view) set(seen map[Name]held) {
	v.mu.Lock()
	v.seen = seen
	close(v.next)
	v.next = make(chan struct{})
	v.mu.Unlock()
}

// again is how long to wait before documents are watched again after an error.
const again = time.Second

// watch follows the documents until v is closed.
func (v *view) watch() {
	for v.ctx.Err() == nil {
		err := v.follow()
		if v.ctx.Err() != nil {
			return
		}
		v.opts.Log.Warn("the approvals of the fleet are read again", "err", err)
		select {
		case <-time.After(again):
		case <-v.ctx.Done():
		}
	}
}

// follow follows the documents until an error.
func (v *view) follow() error {
	seen, ready := map[Name]held{}, false
	for c, err := range v.opts.Store.Watch(v.ctx, Collection) {
		if err != nil && c.Key != (store.Key{}) {
			v.opts.damaged(err)
			c.Version = "" // a damaged document does not count
		} else if err != nil {
			return err
		}
		n, h, ok := readForm(c.Document)
		switch {
		case c.Ready:
			ready = true
		case ok && c.Version != "":
			seen[n] = h
		default:
			delete(seen, n)
		}
		if ready {
			v.set(maps.Clone(seen))
			v.all.Do(func() { close(v.ready) })
		}
	}
	return nil
}
