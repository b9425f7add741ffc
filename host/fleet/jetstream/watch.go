package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Documents implements [store.Store].
func (s *Store) Documents(ctx context.Context, collection string) iter.Seq2[store.Document, error] {
	return func(yield func(store.Document, error) bool) {
		outer := ctx
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		found := map[string]store.Document{} // a document can change before everything was read
		for c, err := range s.Watch(ctx, collection) {
			switch {
			case err != nil:
				delete(found, c.Name)
				if !yield(c.Document, err) || c.Name == "" {
					return
				}
			case c.Ready:
				for _, d := range found {
					if !yield(d, nil) {
						return
					}
				}
				return
			case c.Version == "":
				delete(found, c.Name)
			default:
				found[c.Name] = c.Document
			}
		}
		yield(store.Document{}, failed(outer, "collection "+collection, false, context.Cause(outer)))
	}
}

// Watch implements [store.Store].
func (s *Store) Watch(ctx context.Context, collection string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		if err := store.CheckCollection(collection); err != nil {
			yield(store.Change{}, err)
			return
		}
		ctx, cancel := s.open(ctx)
		defer cancel()
		what := "collection " + collection
		ready, shown, last := false, map[string]bool{}, time.Now()
		for m, err := range s.tail(ctx, s.docs, s.opts.subject("doc", collection, "*"), 1) {
			cut := time.Since(last)
			last = time.Now()
			switch {
			case err != nil:
				yield(store.Change{}, err)
				return
			case cut > removedFor/2: // some removals may be forgotten
				yield(store.Change{}, fmt.Errorf("%s: %w: nothing was read for %v (watch it again)", what, store.ErrGone, cut))
				return
			case m.idle:
				if !ready && !yield(store.Change{Ready: true}, nil) {
					return
				}
				ready, shown = true, nil
				continue
			}
			key, ok := s.keyOf(m.subject)
			if !ok {
				continue // not written by this package
			}
			c := store.Change{Document: store.Document{Key: key}}
			f := form{seq: m.seq, removed: m.header.Get(headerRemoved) != "", header: m.header, body: m.data}
			if f.there() {
				c.Version = f.version()
				c.Data, err = s.join(ctx, "document "+key.String(), s.docs, m.header, m.data)
				switch {
				case errors.Is(err, errPartsGone):
					continue // it has been replaced: the next form comes
				case isCorrupt(err):
					if !yield(c, err) {
						return
					}
					continue
				case ctx.Err() != nil:
					continue // which ends the loop
				case err != nil:
					yield(store.Change{}, failed(ctx, what, false, err))
					return
				}
			} else if !ready && !shown[key.Name] {
				continue // it was removed before
			}
			if !ready {
				shown[key.Name] = true
			}
			if !yield(c, nil) {
				return
			}
		}
		if err := s.closedOr(what); err != nil {
			yield(store.Change{}, err)
		}
	}
}
