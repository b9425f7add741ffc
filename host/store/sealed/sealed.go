// Package sealed is a [store.Store] that encrypts what another one keeps, so that whoever
// operates the other one can read and change nothing: neither the content, nor the place that
// it belongs to.
//
//	sealed.go    Store; logs
//	documents.go documents, blobs, new keys for old documents
//	keys.go      Ring: the keys of a fleet
//	rotate.go    which keys are in use
//	seal.go      the format
//
// # What is protected
//
// An event can only be opened in its log, at its number, with its fencing number and its id. It
// also names the event before it, so that an event cannot be replaced by another one that was
// once sealed for the same place, such as that of a writer who was too late, if events follow it. A
// document can only be opened under its key, and a blob by its digest.
//
// # What is not
//
// Names of logs, collections and documents, sizes and times are visible. Whoever operates the
// other Store can remove things, give an older form of a document, or the beginning of a log
// without its end.
package sealed

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Store encrypts what another Store keeps. The methods that it does not have are those of the
// other one.
type Store struct {
	store.Store
	ring  *Ring
	space string
}

// New returns a Store in another one, which it closes. space is the name of the fleet: what is
// sealed in one cannot be opened in another. Keys can be changed in ring at any time.
func New(inner store.Store, ring *Ring, space string) *Store {
	return &Store{inner, ring, space}
}

// linkSize is the length of a link in bytes.
const linkSize = len(store.Position{}.Link)

// eventPlace returns what the seal of an event covers beside it.
func (s *Store) eventPlace(log string, number, fence uint64, id store.ID) place {
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], number)
	binary.BigEndian.PutUint64(numbers[8:], fence)
	return place{"event", []string{s.space, log}, []string{string(numbers[:]), string(id[:])}}
}

// link returns what the event behind an event names it by.
func link(before [linkSize]byte, p place, data []byte) (l [linkSize]byte) {
	h := sha256.New()
	h.Write(p.bytes())
	h.Write(before[:])
	h.Write(data)
	copy(l[:], h.Sum(nil))
	return l
}

// errPosition says that a position has no link.
var errPosition = errors.New("the position is not from this store")

// bare returns the position as the other Store knows it.
func bare(p store.Position) store.Position {
	p.Link = [linkSize]byte{}
	return p
}

// Append implements [store.Store].
func (s *Store) Append(ctx context.Context, log string, e store.Entry) (store.Position, error) {
	if err := errors.Join(store.CheckLog(log), e.Check()); err != nil {
		return store.Position{}, err
	}
	before := e.After.Link
	if e.After.Number > 0 && before == [linkSize]byte{} {
		return store.Position{}, fmt.Errorf("log %s: %w", log, errPosition)
	}
	p := s.eventPlace(log, e.After.Number+1, e.Fence, e.ID)
	data := e.Data
	sealed, err := s.ring.seal(p, before[:], data)
	if err != nil {
		return store.Position{}, fmt.Errorf("log %s: %w", log, err)
	}
	e.After, e.Data = bare(e.After), sealed
	at, err := s.Store.Append(ctx, log, e)
	if err != nil {
		return store.Position{}, err
	}
	at.Link = link(before, p, data)
	return at, nil
}

// Fence implements [store.Store].
func (s *Store) Fence(ctx context.Context, log string, number uint64) (store.Position, error) {
	for {
		at, err := s.Store.Fence(ctx, log, number)
		if err != nil || at.Number == 0 {
			return at, err
		}
		last, err := s.Last(ctx, log)
		if err != nil {
			return store.Position{}, err
		}
		// Otherwise somebody with the same number has written in between.
		if last.Position.Number == at.Number {
			at.Link = last.Position.Link
			return at, nil
		}
	}
}

// open opens an event, and returns the link of the event before it.
func (s *Store) open(log string, e *store.Event) (before [linkSize]byte, err error) {
	what := fmt.Sprintf("log %s, event %d", log, e.Position.Number)
	p := s.eventPlace(log, e.Position.Number, e.Position.Fence, e.ID)
	plain, err := s.ring.open(what, p, e.Data)
	if err != nil {
		return before, err
	}
	if len(plain) < linkSize {
		return before, &store.CorruptError{What: what, Reason: "is too short"}
	}
	copy(before[:], plain)
	e.Data = plain[linkSize:]
	e.Position.Link = link(before, p, e.Data)
	return before, nil
}

// Last implements [store.Store].
func (s *Store) Last(ctx context.Context, log string) (store.Event, error) {
	e, err := s.Store.Last(ctx, log)
	if err == nil {
		_, err = s.open(log, &e)
	}
	if err != nil {
		return store.Event{}, err
	}
	return e, nil
}

// Logs implements [store.Store].
func (s *Store) Logs(ctx context.Context) iter.Seq2[store.LastEvent, error] {
	return func(yield func(store.LastEvent, error) bool) {
		for l, err := range s.Store.Logs(ctx) {
			if err == nil {
				_, err = s.open(l.Log, &l.Event)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// Read implements [store.Store].
func (s *Store) Read(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return s.read(log, after, s.Store.Read(ctx, log, bare(after)))
}

// Follow implements [store.Store].
func (s *Store) Follow(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return s.read(log, after, s.Store.Follow(ctx, log, bare(after)))
}

func (s *Store) read(log string, after store.Position, inner iter.Seq2[store.Event, error]) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		at := after.Link
		if after.Number > 0 && at == [linkSize]byte{} {
			yield(store.Event{}, fmt.Errorf("log %s: %w", log, errPosition))
			return
		}
		for e, err := range inner {
			if err == nil {
				var before [linkSize]byte
				if before, err = s.open(log, &e); err == nil && before != at {
					err = &store.CorruptError{
						What:   fmt.Sprintf("log %s, event %d", log, e.Position.Number),
						Reason: "was written behind another event than the one that comes before it",
					}
				}
			}
			if err != nil {
				yield(store.Event{}, err)
				return
			}
			at = e.Position.Link
			if !yield(e, nil) {
				return
			}
		}
	}
}
