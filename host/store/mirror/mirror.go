// Package mirror keeps copies of documents of one store in another one, usually those of a
// fleet in a folder, where they can be read when the fleet's store is away. Changes go one way
// only: whoever wants to change a document does so in the first store. What is changed in the
// second one is undone.
//
//	mirror.go   Start, Sync; one document
//	follow.go   the goroutines
//	retry.go    documents that are looked at again
//
// Several mirrors, of several processes, may write to the same folder. None of them writes an
// older form over a newer one, except for a moment: a form replaces another one only if the
// first store has it after the other one was read.
package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Options are the options of a Mirror.
type Options struct {
	// From has the documents, and To the copies.
	From, To store.Store
	// Collections are copied one after the other, and then kept up to date at the same time.
	Collections []Collection
	Log         *slog.Logger
}

// Collection is a collection that is copied.
type Collection struct {
	// From and To are its names in the two stores.
	From, To string
	// Check may refuse to change a copy. copied is its data, nil if there is none; now is that
	// of the document, nil if it was removed. After an error the copy stays as it is, and Check
	// is asked again at growing intervals, since what it depends on may change. It may be
	// called by several goroutines, and for a change that is not made in the end. Nil: nothing
	// is refused.
	Check func(name string, copied, now []byte) error
	// Restore undoes changes that others make to copies when they are made. Without it, that
	// is done when the Mirror starts.
	Restore bool
}

// Mirror keeps copies up to date until it is closed.
type Mirror struct {
	opts   Options
	cancel context.CancelFunc
	synced chan struct{} // closed by the first goroutine that follows the last collection
	group  sync.WaitGroup
	retry  retries
}

// Start begins to keep copies up to date, and returns at once. The caller must Close the Mirror
// before the two stores.
func Start(o Options) *Mirror {
	ctx, cancel := context.WithCancel(context.Background())
	m := &Mirror{opts: o, cancel: cancel, synced: make(chan struct{})}
	m.retry.init()
	watched := make([]chan struct{}, len(o.Collections)) // closed when changes of copies are seen
	for i := range o.Collections {
		watched[i] = make(chan struct{})
		if c := &o.Collections[i]; c.Restore {
			m.group.Go(func() { m.restore(ctx, c, watched[i]) })
		} else {
			close(watched[i])
		}
	}
	m.group.Go(func() { m.follow(ctx, watched) })
	m.group.Go(func() { m.again(ctx) })
	return m
}

// Synced is closed when every document has been looked at once.
func (m *Mirror) Synced() <-chan struct{} { return m.synced }

// Close ends what the Mirror does.
func (m *Mirror) Close() {
	m.cancel()
	m.group.Wait()
}

// Sync brings copies up to date once. The error says why not all of them are; documents that
// are damaged or refused are only logged.
func Sync(ctx context.Context, o Options) error {
	m := &Mirror{opts: o}
	for i := range o.Collections {
		if err := m.sync(ctx, &o.Collections[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mirror) sync(ctx context.Context, c *Collection) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := m.newReading(c)
	for change, err := range m.opts.From.Watch(ctx, c.From) {
		if change.Ready {
			return r.ready(ctx)
		}
		if err != nil && change.Name == "" {
			return err
		}
		if err := r.change(ctx, change, err); err != nil {
			return err
		}
	}
	return fmt.Errorf("collection %s: %w: %w", c.From, store.ErrUnavailable, context.Cause(ctx))
}

// RefusedError says that a copy stays as it is.
type RefusedError struct {
	What string
	Err  error // why
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: the copy stays as it is: %v", e.What, e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// settle makes the copy of a document what the document is. seen is a form that it had a
// moment ago, nil if none is known. It does not return before it has found both the same: what
// it writes may be older than what others, who see no difference, have just compared.
func (m *Mirror) settle(ctx context.Context, c *Collection, name string, seen *store.Document) error {
	for {
		to := store.Key{Collection: c.To, Name: name}
		copied, err := get(ctx, m.opts.To, to)
		if err != nil {
			return err
		}
		var now store.Document
		if seen != nil && (copied.Version == "" || bytes.Equal(copied.Data, seen.Data)) {
			now = *seen
		} else if now, err = get(ctx, m.opts.From, store.Key{Collection: c.From, Name: name}); err != nil {
			return m.damaged(c, name, err)
		}
		if (copied.Version == "") == (now.Version == "") && bytes.Equal(copied.Data, now.Data) {
			return nil
		}
		if c.Check != nil {
			if err := c.Check(name, bytesOf(copied), bytesOf(now)); err != nil {
				return &RefusedError{"document " + to.String(), err}
			}
		}
		if now.Version == "" {
			err = m.opts.To.Remove(ctx, to, copied.Version)
		} else {
			_, err = m.opts.To.Put(ctx, to, copied.Version, now.Data)
		}
		var conflict *store.ConflictError // somebody else has changed the copy
		if err != nil && !errors.As(err, &conflict) {
			return err
		}
		seen = nil
	}
}

// damaged returns err, as a *RefusedError if it is about a document that is damaged.
func (m *Mirror) damaged(c *Collection, name string, err error) error {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrClosed) {
		return err
	}
	return &RefusedError{"document " + store.Key{Collection: c.To, Name: name}.String(), err}
}

// get returns a document, with Version "" if there is none.
func get(ctx context.Context, s store.Store, key store.Key) (store.Document, error) {
	d, err := s.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return store.Document{Key: key}, nil
	}
	return d, err
}

// bytesOf returns the data of a document, nil if there is no document.
func bytesOf(d store.Document) []byte {
	switch {
	case d.Version == "":
		return nil
	case d.Data == nil:
		return []byte{}
	}
	return d.Data
}
