package mirror

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// How long a watch that has failed is left alone, at first and at last.
const (
	pauseFirst = 100 * time.Millisecond
	pauseLast  = 10 * time.Second
)

// follow copies the collections one after the other, each once its copies are watched, and then
// goes on with all of them.
func (m *Mirror) follow(ctx context.Context, watched []chan struct{}) {
	for i := range m.opts.Collections {
		select {
		case <-ctx.Done():
			return
		case <-watched[i]:
		}
		ready := make(chan struct{})
		m.group.Go(func() { m.watch(ctx, &m.opts.Collections[i], ready) })
		select {
		case <-ctx.Done():
			return
		case <-ready:
		}
	}
	close(m.synced)
}

// watch keeps one collection up to date until ctx ends. It closes ready when every document
// has been looked at.
func (m *Mirror) watch(ctx context.Context, c *Collection, ready chan struct{}) {
	for pause := pauseFirst; ctx.Err() == nil; pause = min(2*pause, pauseLast) {
		r := m.newReading(c)
		for change, err := range m.opts.From.Watch(ctx, c.From) {
			if err != nil && change.Name == "" {
				m.opts.Log.Warn("documents of the fleet cannot be watched, and will be again", "collection", c.From, "in", pause, "err", err)
				break
			}
			pause = pauseFirst
			if !change.Ready {
				_ = m.attempt(c, change.Name, func() error { return r.change(ctx, change, err) })
				continue
			}
			if err := r.ready(ctx); err != nil {
				m.opts.Log.Warn("a folder cannot be compared with the fleet", "collection", c.To, "err", err)
			}
			if ready != nil {
				close(ready)
				ready = nil
			}
		}
		sleep(ctx, pause)
	}
}

// restore looks at documents again whose copies were changed by others. It closes watched when it
// sees such changes, or cannot at present.
func (m *Mirror) restore(ctx context.Context, c *Collection, watched chan struct{}) {
	begun := sync.OnceFunc(func() { close(watched) })
	defer begun()
	ready := false // what is there at first is looked at by watch, which begins later
	for pause := pauseFirst; ctx.Err() == nil; pause = min(2*pause, pauseLast) {
		for change, err := range m.opts.To.Watch(ctx, c.To) {
			switch {
			case err != nil && change.Name == "":
				m.opts.Log.Warn("copies of documents of the fleet cannot be watched, and will be again", "collection", c.To, "in", pause, "err", err)
			case change.Ready:
				ready = true
				begun()
			case ready:
				m.look(ctx, c, change.Name)
			}
			if err != nil && change.Name == "" {
				break
			}
		}
		ready = true // what was changed meanwhile is in the next reading
		begun()
		sleep(ctx, pause)
	}
}

// settleTime bounds one attempt to look at a document.
const settleTime = 10 * time.Second

// look looks at a document again, and remembers to do so later if that fails.
func (m *Mirror) look(ctx context.Context, c *Collection, name string) {
	attempt, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	_ = m.attempt(c, name, func() error { return m.settle(attempt, c, name, nil) })
}

// reading is one reading of a collection.
type reading struct {
	mirror *Mirror
	c      *Collection
	seen   map[string]bool // documents that there were; nil when all have been read
}

func (m *Mirror) newReading(c *Collection) *reading {
	return &reading{m, c, map[string]bool{}}
}

// change copies a document that was read. failed is the error that it came with.
func (r *reading) change(ctx context.Context, change store.Change, failed error) error {
	if r.seen != nil {
		r.seen[change.Name] = true
	}
	attempt, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	var err error
	switch {
	case failed != nil:
		err = r.mirror.damaged(r.c, change.Name, failed)
	case change.Version == "":
		err = r.mirror.settle(attempt, r.c, change.Name, nil)
	default:
		err = r.mirror.settle(attempt, r.c, change.Name, &change.Document)
	}
	return r.mirror.once(err)
}

// ready looks at the copies of documents that are not there any more.
func (r *reading) ready(ctx context.Context) error {
	seen := r.seen
	r.seen = nil
	for d, err := range r.mirror.opts.To.Documents(ctx, r.c.To) {
		if d.Name == "" && err != nil {
			return err
		}
		if seen[d.Name] {
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, settleTime)
		err := r.mirror.attempt(r.c, d.Name, func() error { return r.mirror.settle(attempt, r.c, d.Name, nil) })
		cancel()
		if err := r.mirror.once(err); err != nil && r.mirror.synced == nil {
			return err
		}
	}
	return nil
}

// once returns the error of looking at one document. Without goroutines, those of refused and
// damaged documents are logged and ignored.
func (m *Mirror) once(err error) error {
	var name *store.NameError
	if refused := (*RefusedError)(nil); m.synced == nil && (errors.As(err, &refused) || errors.As(err, &name)) {
		m.opts.Log.Warn("a document of the fleet is not used", "err", err)
		return nil
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
