package mirror

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// retries are the documents that are looked at again: those that could not be read or written,
// and those that were refused, since they may depend on others that come later.
type retries struct {
	more chan struct{} // signals that one was added; capacity 1

	mu    sync.Mutex // a leaf
	turns uint64     // counts attempts that begin or fail
	all   map[key]*retry
}

type key struct {
	c    *Collection
	name string
}

type retry struct {
	failed uint64 // the turn of the last failure
	at     time.Time
	wait   time.Duration
	said   string // what was logged
	since  time.Time
}

// When a document is looked at again, and when a reason is worth a warning: documents that
// belong together come within milliseconds.
const (
	retryFirst = 50 * time.Millisecond
	retryLast  = 30 * time.Second
	warnAfter  = 2 * time.Second
)

func (r *retries) init() { r.more, r.all = make(chan struct{}, 1), map[key]*retry{} }

// begin returns the turn of an attempt that begins now.
func (r *retries) begin() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns++
	return r.turns
}

// attempt calls f, which looks at a document, and remembers to look again if it fails.
func (m *Mirror) attempt(c *Collection, name string, f func() error) error {
	begun := m.retry.begin()
	err := f()
	m.note(c, name, begun, err)
	return err
}

// note remembers that a document must be looked at again, or need not. begun is the turn of the
// attempt: one that succeeds says nothing of those that failed since it began, and may have read
// something newer.
func (m *Mirror) note(c *Collection, name string, begun uint64, err error) {
	if m.synced == nil {
		return
	}
	r, k := &m.retry, key{c, name}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.all[k]
	if err == nil {
		if next != nil && next.failed < begun {
			delete(r.all, k)
		}
		return
	}
	now := time.Now()
	if next == nil {
		next = &retry{wait: retryFirst / 2, since: now}
		r.all[k] = next
	}
	r.turns++
	next.failed = r.turns
	next.wait = min(2*next.wait, retryLast)
	if never := (*store.NameError)(nil); errors.As(err, &never) {
		next.wait = retryLast
		next.since = now.Add(-warnAfter)
	}
	next.at = now.Add(next.wait)
	away := errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrClosed)
	if text := err.Error(); !away && next.said != text && now.Sub(next.since) >= warnAfter {
		next.said = text
		m.opts.Log.Warn("a document of the fleet is not used", "err", err)
	}
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// due returns the documents to look at now, and how long until the next one.
func (r *retries) due() (now []key, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = time.Hour
	for k, next := range r.all {
		if left := time.Until(next.at); left <= 0 {
			now = append(now, k)
		} else {
			wait = min(wait, left)
		}
	}
	return now, wait
}

// again looks at documents again until ctx ends.
func (m *Mirror) again(ctx context.Context) {
	for ctx.Err() == nil {
		due, wait := m.retry.due()
		for _, k := range due {
			m.look(ctx, k.c, k.name)
		}
		if len(due) > 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-m.retry.more:
		}
		timer.Stop()
	}
}
