package simulate

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// data is what the store keeps.
type data struct {
	logs  map[string]*log
	docs  map[store.Key]store.Document
	blobs map[store.Digest][]byte
	forms uint64 // how many there were of all documents
}

type log struct {
	events []store.Event
	fence  uint64
}

func newData() data {
	return data{map[string]*log{}, map[store.Key]store.Document{}, map[store.Digest][]byte{}, 0}
}

// memory is the store as a process sees it; process is nil for one without faults. Follow and
// Watch end where Read and Documents do.
type memory struct {
	world   *World
	process *Process
}

// What becomes of a call.
type fate int

const (
	works      fate = iota
	refused         // nothing is done
	lost            // nothing is done, and nobody knows
	unanswered      // it is done, and nobody knows
	late            // it is done later, or finds that it is too late; and nobody knows
)

// call lets others go on, and returns what becomes of the call.
func (m *memory) call(writes bool) fate {
	if m.process == nil {
		return works
	}
	m.process.Sleep(time.Duration(m.world.Rand.IntN(50)) * time.Millisecond)
	switch n := m.world.Rand.IntN(100); {
	case n < 5:
		return refused
	case !writes || n >= 17:
		return works
	case n < 8:
		return lost
	case n < 12:
		return unanswered
	default:
		return late
	}
}

// write does something with the fate of its call.
func write[T any](m *memory, f func() (T, error)) (result T, err error) {
	switch m.call(true) {
	case refused:
		return result, store.ErrUnavailable
	case lost:
		return result, store.ErrUnknown
	case unanswered:
		_, _ = f()
		return result, store.ErrUnknown
	case late:
		m.world.late = append(m.world.late, func() { _, _ = f() })
		return result, store.ErrUnknown
	}
	result, err = f()
	if m.process != nil { // the answer takes its time, too
		m.process.Sleep(time.Duration(m.world.Rand.IntN(50)) * time.Millisecond)
	}
	return result, err
}

func (m *memory) read() error {
	if m.call(false) == refused {
		return store.ErrUnavailable
	}
	return nil
}

func (m *memory) log(name string) *log {
	l := m.world.data.logs[name]
	if l == nil {
		l = &log{}
		m.world.data.logs[name] = l
	}
	return l
}

func (l *log) end() store.Position {
	return store.Position{Number: uint64(len(l.events)), Fence: l.fence}
}

// Append implements [store.Store].
func (m *memory) Append(_ context.Context, name string, e store.Entry) (store.Position, error) {
	if e.Fence < e.After.Fence {
		return store.Position{}, &store.FencedError{Log: name, Number: e.After.Fence}
	}
	e.Data = bytes.Clone(e.Data)
	return write(m, func() (store.Position, error) {
		l := m.log(name)
		n := e.After.Number
		switch {
		case n < uint64(len(l.events)) && l.events[n].ID == e.ID:
			return l.events[n].Position, nil
		case l.fence > e.Fence:
			return store.Position{}, &store.FencedError{Log: name, Number: l.fence}
		case n > uint64(len(l.events)):
			return store.Position{}, store.ErrGone
		case n != uint64(len(l.events)):
			return store.Position{}, &store.ConflictError{What: name, Last: l.end()}
		}
		l.fence = e.Fence
		at := store.Position{Number: n + 1, Fence: e.Fence}
		l.events = append(l.events, store.Event{Position: at, ID: e.ID, Data: e.Data})
		return at, nil
	})
}

// Fence implements [store.Store].
func (m *memory) Fence(_ context.Context, name string, number uint64) (store.Position, error) {
	return write(m, func() (store.Position, error) {
		l := m.log(name)
		if l.fence > number {
			return store.Position{}, &store.FencedError{Log: name, Number: l.fence}
		}
		l.fence = number
		return l.end(), nil
	})
}

// Read implements [store.Store].
func (m *memory) Read(_ context.Context, name string, after store.Position) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		if err := m.read(); err != nil {
			yield(store.Event{}, err)
			return
		}
		l := m.log(name)
		for _, e := range slices.Clone(l.events[min(after.Number, uint64(len(l.events))):]) {
			e.Data = bytes.Clone(e.Data)
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Follow implements [store.Store].
func (m *memory) Follow(ctx context.Context, name string, after store.Position) iter.Seq2[store.Event, error] {
	return m.Read(ctx, name, after)
}

// Logs implements [store.Store].
func (m *memory) Logs(context.Context) iter.Seq2[store.LastEvent, error] {
	return func(yield func(store.LastEvent, error) bool) {
		if err := m.read(); err != nil {
			yield(store.LastEvent{}, err)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(m.world.data.logs)) {
			if l := m.log(name); len(l.events) > 0 && !yield(store.LastEvent{Log: name, Event: l.events[len(l.events)-1]}, nil) {
				return
			}
		}
	}
}

// Last implements [store.Store].
func (m *memory) Last(_ context.Context, name string) (store.Event, error) {
	if err := m.read(); err != nil {
		return store.Event{}, err
	}
	l := m.log(name)
	if len(l.events) == 0 {
		return store.Event{}, store.ErrNotFound
	}
	return l.events[len(l.events)-1], nil
}

// Whole implements [store.Store].
func (m *memory) Whole(_ context.Context, name string) error {
	if err := m.read(); err != nil {
		return err
	}
	if m.world.data.logs[name] == nil {
		return store.ErrGone
	}
	return nil
}

// Drop implements [store.Store].
func (m *memory) Drop(_ context.Context, name string) error {
	_, err := write(m, func() (struct{}, error) {
		delete(m.world.data.logs, name)
		return struct{}{}, nil
	})
	return err
}

// Get implements [store.Store].
func (m *memory) Get(_ context.Context, key store.Key) (store.Document, error) {
	if err := m.read(); err != nil {
		return store.Document{}, err
	}
	d, ok := m.world.data.docs[key]
	if !ok {
		return d, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	d.Data = bytes.Clone(d.Data)
	return d, nil
}

// conflict returns the error for a document that somebody else has changed. Some stores do not
// know whether that was after this caller had.
func (m *memory) conflict(key store.Key) error {
	err := &store.ConflictError{What: key.String()}
	if m.process != nil && m.world.Rand.IntN(5) == 0 {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return err
}

// Put implements [store.Store].
func (m *memory) Put(_ context.Context, key store.Key, old store.Version, content []byte) (store.Version, error) {
	content = bytes.Clone(content)
	return write(m, func() (store.Version, error) {
		if m.world.data.docs[key].Version != old {
			return "", m.conflict(key)
		}
		m.world.data.forms++
		r := store.Version(strconv.FormatUint(m.world.data.forms, 10))
		m.world.data.docs[key] = store.Document{Key: key, Version: r, Data: content}
		return r, nil
	})
}

// Remove implements [store.Store].
func (m *memory) Remove(_ context.Context, key store.Key, old store.Version) error {
	_, err := write(m, func() (struct{}, error) {
		if old == "" || m.world.data.docs[key].Version != old {
			return struct{}{}, m.conflict(key)
		}
		delete(m.world.data.docs, key)
		return struct{}{}, nil
	})
	return err
}

// Documents implements [store.Store].
func (m *memory) Documents(_ context.Context, collection string) iter.Seq2[store.Document, error] {
	return func(yield func(store.Document, error) bool) {
		if err := m.read(); err != nil {
			yield(store.Document{}, err)
			return
		}
		for key, d := range maps.Clone(m.world.data.docs) {
			if key.Collection == collection && !yield(d, nil) {
				return
			}
		}
	}
}

// Watch implements [store.Store].
func (m *memory) Watch(ctx context.Context, collection string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		for d, err := range m.Documents(ctx, collection) {
			if !yield(store.Change{Document: d}, err) || err != nil {
				return
			}
		}
		yield(store.Change{Ready: true}, nil)
	}
}

// PutBlob implements [store.Store].
func (m *memory) PutBlob(_ context.Context, content []byte) (store.Digest, error) {
	content = bytes.Clone(content)
	return write(m, func() (store.Digest, error) {
		d := store.DigestOf(content)
		m.world.data.blobs[d] = content
		return d, nil
	})
}

// Blob implements [store.Store].
func (m *memory) Blob(_ context.Context, d store.Digest) ([]byte, error) {
	if err := m.read(); err != nil {
		return nil, err
	}
	content, ok := m.world.data.blobs[d]
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", d, store.ErrNotFound)
	}
	return bytes.Clone(content), nil
}

// DropBlob implements [store.Store].
func (m *memory) DropBlob(_ context.Context, d store.Digest) error {
	_, err := write(m, func() (struct{}, error) {
		delete(m.world.data.blobs, d)
		return struct{}{}, nil
	})
	return err
}

// Close implements [store.Store].
func (m *memory) Close() error { return nil }
