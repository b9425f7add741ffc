package durable

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// simStore is a Store in memory. Its methods are atomic.
type simStore struct {
	logs map[string][]store.Event
	docs map[store.Key]store.Document
	rev  int
	// errNext is what the next change reports: store.ErrUnavailable if it is not made, or
	// store.ErrUnknown although it is.
	errNext error
}

func newSimStore() *simStore {
	return &simStore{logs: map[string][]store.Event{}, docs: map[store.Key]store.Document{}}
}

func (s *simStore) last(log string) store.Position {
	if events := s.logs[log]; len(events) > 0 {
		return events[len(events)-1].Position
	}
	return store.Position{}
}

// failure returns the error that the scheduler wants for a change, once.
func (s *simStore) failure() error {
	err := s.errNext
	s.errNext = nil
	return err
}

// isOpen reports whether there is a log with events.
func (s *simStore) isOpen() bool {
	for _, events := range s.logs {
		for _, e := range events {
			if len(e.Data) > 0 {
				return true
			}
		}
	}
	return false
}

func (s *simStore) Create(ctx context.Context, log string) (store.Position, error) {
	reach(ctx)
	if s.last(log).Number == 0 {
		s.logs[log] = []store.Event{{Position: store.Position{Number: 1, Fence: 1}}}
	}
	return s.last(log), nil
}

func (s *simStore) Append(ctx context.Context, log string, e store.Entry) (store.Position, error) {
	reach(ctx)
	for _, is := range s.logs[log] {
		if is.ID == e.ID {
			return is.Position, nil
		}
	}
	last := s.last(log)
	switch {
	case last.Fence > e.Fence, last.Number == 0 && e.After.Number > 0:
		return last, &store.FencedError{Log: log, Number: last.Fence}
	case last.Number != e.After.Number:
		return last, &store.ConflictError{What: log, Last: last}
	}
	err := s.failure()
	if errors.Is(err, store.ErrUnavailable) {
		return last, err
	}
	at := store.Position{Number: last.Number + 1, Fence: e.Fence}
	s.logs[log] = append(s.logs[log], store.Event{Position: at, ID: e.ID, Data: e.Data})
	return at, err
}

func (s *simStore) Flush(ctx context.Context, _ string) error {
	reach(ctx)
	return nil
}

func (s *simStore) Fence(ctx context.Context, log string, number uint64) (store.Position, error) {
	reach(ctx)
	last := s.last(log)
	switch {
	case last.Number == 0:
		return last, ErrNotFound
	case last.Fence > number:
		return last, &store.FencedError{Log: log, Number: last.Fence}
	case last.Fence == number:
		return last, nil
	}
	if err := s.failure(); errors.Is(err, store.ErrUnavailable) {
		return last, err
	}
	at := store.Position{Number: last.Number + 1, Fence: number}
	s.logs[log] = append(s.logs[log], store.Event{Position: at})
	return at, nil
}

func (s *simStore) Whole(ctx context.Context, log string) error {
	reach(ctx)
	if len(s.logs[log]) == 0 {
		return store.ErrGone
	}
	return nil
}

func (s *simStore) LastEvent(store.Position) uint64 { return 0 } // nothing is ever read from before

func (s *simStore) Read(ctx context.Context, log string, _ store.Position) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		reach(ctx)
		for _, e := range slices.Clone(s.logs[log]) {
			if len(e.Data) > 0 && !yield(e, nil) {
				return
			}
		}
	}
}

func (s *simStore) Leases(ctx context.Context) iter.Seq2[store.Document, error] {
	return func(yield func(store.Document, error) bool) {
		reach(ctx)
		for log := range s.logs { // there is one at most
			key := store.Key{Collection: leases, Name: log}
			if !yield(store.Document{Key: key, Version: s.docs[key].Version, Data: s.docs[key].Data}, nil) {
				return
			}
		}
	}
}

func (s *simStore) Drop(ctx context.Context, log string) error {
	reach(ctx)
	delete(s.logs, log)
	return nil
}

func (s *simStore) Get(ctx context.Context, key store.Key) (store.Document, error) {
	reach(ctx)
	if doc, ok := s.docs[key]; ok {
		return doc, nil
	}
	return store.Document{}, store.ErrNotFound
}

func (s *simStore) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	reach(ctx)
	if s.docs[key].Version != old {
		return "", &store.ConflictError{What: key.String()}
	}
	err := s.failure()
	if errors.Is(err, store.ErrUnavailable) {
		return "", err
	}
	s.rev++
	doc := store.Document{Key: key, Version: store.Version(fmt.Sprint(s.rev)), Data: data}
	s.docs[key] = doc
	return doc.Version, err
}

func (s *simStore) Remove(ctx context.Context, key store.Key, old store.Version) error {
	reach(ctx)
	if s.docs[key].Version != old {
		return &store.ConflictError{What: key.String()}
	}
	delete(s.docs, key)
	return nil
}

// reach lets others go on, until the process can reach the Store.
func reach(ctx context.Context) {
	step(ctx)
	for p, ok := ctx.Value(processKey{}).(*process); ok && p.cut > 0; {
		step(ctx)
	}
}

// processKey is the key of a process in its context.
type processKey struct{}

// stepKey is the key of the yield function of a process in its context.
type stepKey struct{}

// died unwinds the coroutine of a process that was killed.
type died struct{}

// step lets others go on.
func step(ctx context.Context) {
	if yield, ok := ctx.Value(stepKey{}).(func(struct{}) bool); ok && !yield(struct{}{}) {
		panic(died{})
	}
}
