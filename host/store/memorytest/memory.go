package memorytest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Store is a [store.Store] at the end of a link.
type Store struct {
	link   *Link
	once   sync.Once
	closed chan struct{}
}

var _ store.Store = (*Store)(nil)

// Close implements [store.Store].
func (s *Store) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// ended returns why the store does nothing now.
func (s *Store) ended(ctx context.Context) error {
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	return nil
}

// use does something with the memory, unless it is not to be had.
func use[V any](ctx context.Context, s *Store, what string, do func(*memory) (V, error)) (v V, err error) {
	m := s.link.at
	m.mu.Lock()
	defer m.mu.Unlock()
	switch err = s.ended(ctx); {
	case err != nil:
	case s.link.cut:
		err = errCut
	case m.lost:
		err = errLost
	}
	if err == nil {
		v, err = do(m)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return v, err
}

// change is use for what is written.
func change[V any](ctx context.Context, s *Store, what string, bad error, do func(*memory) (V, error)) (V, error) {
	return use(ctx, s, what, func(m *memory) (v V, err error) {
		if bad != nil {
			return v, bad
		}
		defer m.tell()
		return do(m)
	})
}

// log returns a log, which is made if it is not there.
func (m *memory) log(name string) *log {
	l := m.logs[name]
	if l == nil {
		l = &log{}
		m.logs[name] = l
	}
	return l
}

func (l *log) end() store.Position {
	return store.Position{Number: uint64(l.removed + len(l.events)), Fence: l.fence}
}

// drop removes the first events.
func (l *log) drop(n int) {
	l.removed, l.events = l.removed+n, l.events[n:]
}

// behind returns the events behind a position. The error is store.ErrGone if they were removed.
func (m *memory) behind(name string, after store.Position) (events []store.Event, err error) {
	l := m.logs[name]
	switch {
	case l == nil && after.Number > 0, l != nil && l.end().Number < after.Number:
		return nil, store.ErrGone
	case l == nil || l.end().Number == after.Number:
		return nil, nil
	case after.Number < uint64(l.removed):
		return nil, store.ErrGone
	}
	events = slices.Clone(l.events[after.Number-uint64(l.removed):])
	for i := range events {
		events[i].Data = bytes.Clone(events[i].Data)
	}
	return events, nil
}

// bounded removes the oldest events of logs that do not last if there are too many, after one was
// appended to a log.
func (m *memory) bounded(name string, size int) {
	if store.IsLasting(name) {
		return
	}
	m.written, m.size = append(m.written, name), m.size+size
	for m.bound > 0 && m.size > m.bound && len(m.written) > 1 {
		if l := m.logs[m.written[0]]; l != nil && len(l.events) > 0 {
			m.size -= len(l.events[0].Data)
			l.drop(1)
		}
		m.written = m.written[1:]
	}
}

// first returns the first error.
func first(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// Append implements [store.Store], and so do the methods below.
func (s *Store) Append(ctx context.Context, name string, e store.Entry) (store.Position, error) {
	return change(ctx, s, "log "+name, first(store.CheckLog(name), e.Check()), func(m *memory) (none store.Position, err error) {
		if e.Fence < e.After.Fence {
			return none, &store.FencedError{Log: name, Number: e.After.Fence}
		}
		if e.After.Number > 0 && m.logs[name] == nil {
			return none, store.ErrGone
		}
		l, n := m.log(name), e.After.Number
		at := n - uint64(l.removed)
		switch {
		case n < uint64(l.removed):
			return none, &store.ConflictError{What: name, Last: l.end()}
		case at < uint64(len(l.events)) && l.events[at].ID == e.ID:
			return l.events[at].Position, nil
		case l.fence > e.Fence:
			return none, &store.FencedError{Log: name, Number: l.fence}
		case at > uint64(len(l.events)):
			return none, store.ErrGone
		case at < uint64(len(l.events)):
			return none, &store.ConflictError{What: name, Last: l.end()}
		}
		l.fence = e.Fence
		behind := store.Position{Number: n + 1, Fence: e.Fence}
		l.events = append(l.events, store.Event{Position: behind, ID: e.ID, Data: bytes.Clone(e.Data)})
		m.bounded(name, len(e.Data))
		return behind, nil
	})
}

func (s *Store) Fence(ctx context.Context, name string, number uint64) (store.Position, error) {
	return change(ctx, s, "log "+name, store.CheckLog(name), func(m *memory) (none store.Position, err error) {
		l := m.log(name)
		if l.fence > number {
			return none, &store.FencedError{Log: name, Number: l.fence}
		}
		l.fence = number
		return l.end(), nil
	})
}

func (s *Store) Read(ctx context.Context, name string, after store.Position) iter.Seq2[store.Event, error] {
	return list(func() ([]store.Event, error) {
		return use(ctx, s, "log "+name, func(m *memory) ([]store.Event, error) {
			if err := store.CheckLog(name); err != nil {
				return nil, err
			}
			return m.behind(name, after)
		})
	})
}

func (s *Store) Whole(ctx context.Context, name string) error {
	_, err := use(ctx, s, "log "+name, func(m *memory) (none struct{}, err error) {
		switch l := m.logs[name]; {
		case store.CheckLog(name) != nil:
			return none, store.CheckLog(name)
		case l == nil || l.removed > 0:
			return none, store.ErrGone
		}
		return none, nil
	})
	return err
}

// list yields what a function returns.
func list[V any](read func() ([]V, error)) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		all, err := read()
		if err != nil {
			var none V
			yield(none, err)
			return
		}
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func (s *Store) Follow(ctx context.Context, name string, after store.Position) iter.Seq2[store.Event, error] {
	return follow(ctx, s, store.CheckLog(name), func(m *memory) ([]store.Event, error) {
		events, err := m.behind(name, after)
		if len(events) > 0 {
			after = events[len(events)-1].Position
		}
		return events, err
	})
}

// follow yields what news returns, now and after each change, but not while the link is cut.
func follow[V any](ctx context.Context, s *Store, bad error, news func(*memory) ([]V, error)) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var none V
		if bad != nil {
			yield(none, bad)
			return
		}
		m := s.link.at
		for {
			var all []V
			var err error
			m.mu.Lock()
			changed := m.changed
			switch {
			case s.link.cut || s.ended(ctx) != nil:
			case m.lost:
				err = errLost
			default:
				all, err = news(m)
			}
			m.mu.Unlock()
			if err != nil {
				yield(none, err)
				return
			}
			for _, v := range all {
				if !yield(v, nil) {
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-s.closed:
				yield(none, store.ErrClosed)
				return
			}
		}
	}
}

func (s *Store) Logs(ctx context.Context) iter.Seq2[store.LastEvent, error] {
	return list(func() ([]store.LastEvent, error) {
		return use(ctx, s, "logs", func(m *memory) (all []store.LastEvent, err error) {
			for name, l := range m.logs {
				if len(l.events) > 0 {
					last := l.events[len(l.events)-1]
					last.Data = bytes.Clone(last.Data)
					all = append(all, store.LastEvent{Log: name, Event: last})
				}
			}
			return all, nil
		})
	})
}

func (s *Store) Last(ctx context.Context, name string) (store.Event, error) {
	return use(ctx, s, "log "+name, func(m *memory) (last store.Event, err error) {
		if err := store.CheckLog(name); err != nil {
			return last, err
		}
		l := m.logs[name]
		if l == nil || len(l.events) == 0 {
			return last, store.ErrNotFound
		}
		last = l.events[len(l.events)-1]
		last.Data = bytes.Clone(last.Data)
		return last, nil
	})
}

func (s *Store) Drop(ctx context.Context, name string) error {
	_, err := change(ctx, s, "log "+name, store.CheckLog(name), func(m *memory) (none struct{}, err error) {
		delete(m.logs, name)
		return none, nil
	})
	return err
}

func (s *Store) Get(ctx context.Context, key store.Key) (store.Document, error) {
	return use(ctx, s, key.String(), func(m *memory) (store.Document, error) {
		d, ok := m.docs[key]
		switch err := key.Check(); {
		case err != nil:
			return store.Document{}, err
		case !ok:
			return store.Document{}, store.ErrNotFound
		}
		d.Data = bytes.Clone(d.Data)
		return d, nil
	})
}

func (s *Store) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	return change(ctx, s, key.String(), first(key.Check(), store.CheckDocument(data)), func(m *memory) (store.Version, error) {
		if m.docs[key].Version != old {
			return "", &store.ConflictError{What: key.String()}
		}
		m.forms++
		v := store.Version(strconv.Itoa(m.forms))
		m.docs[key] = store.Document{Key: key, Version: v, Data: bytes.Clone(data)}
		return v, nil
	})
}

func (s *Store) Remove(ctx context.Context, key store.Key, old store.Version) error {
	_, err := change(ctx, s, key.String(), key.Check(), func(m *memory) (none struct{}, err error) {
		if old == "" || m.docs[key].Version != old {
			return none, &store.ConflictError{What: key.String()}
		}
		delete(m.docs, key)
		return none, nil
	})
	return err
}

func (m *memory) collection(name string) (all []store.Document) {
	for key, d := range m.docs {
		if key.Collection == name {
			d.Data = bytes.Clone(d.Data)
			all = append(all, d)
		}
	}
	return all
}

// Collections returns the names of the collections that have documents, as package jetstream does.
func (s *Store) Collections(ctx context.Context) ([]string, error) {
	return use(ctx, s, "collections", func(m *memory) (names []string, err error) {
		for key := range m.docs {
			if !slices.Contains(names, key.Collection) {
				names = append(names, key.Collection)
			}
		}
		return names, nil
	})
}

func (s *Store) Documents(ctx context.Context, collection string) iter.Seq2[store.Document, error] {
	return list(func() ([]store.Document, error) {
		return use(ctx, s, collection, func(m *memory) ([]store.Document, error) {
			return m.collection(collection), store.CheckCollection(collection)
		})
	})
}

func (s *Store) Watch(ctx context.Context, collection string) iter.Seq2[store.Change, error] {
	seen, ready := map[store.Key]store.Version{}, false
	return follow(ctx, s, store.CheckCollection(collection), func(m *memory) (news []store.Change, err error) {
		there := map[store.Key]store.Version{}
		for _, d := range m.collection(collection) {
			there[d.Key] = d.Version
			if seen[d.Key] != d.Version {
				news = append(news, store.Change{Document: d})
			}
		}
		for key := range seen {
			if there[key] == "" {
				news = append(news, store.Change{Document: store.Document{Key: key}})
			}
		}
		seen = there
		if !ready {
			news, ready = append(news, store.Change{Ready: true}), true
		}
		return news, nil
	})
}

func (s *Store) PutBlob(ctx context.Context, data []byte) (store.Digest, error) {
	return change(ctx, s, "blob", store.CheckBlob(data), func(m *memory) (store.Digest, error) {
		d := store.DigestOf(data)
		m.blobs[d] = bytes.Clone(data)
		return d, nil
	})
}

func (s *Store) Blob(ctx context.Context, digest store.Digest) ([]byte, error) {
	return use(ctx, s, "blob "+string(digest), func(m *memory) ([]byte, error) {
		data, ok := m.blobs[digest]
		switch err := digest.Check(); {
		case err != nil:
			return nil, err
		case !ok:
			return nil, store.ErrNotFound
		}
		return bytes.Clone(data), nil
	})
}

func (s *Store) DropBlob(ctx context.Context, digest store.Digest) error {
	_, err := change(ctx, s, "blob "+string(digest), digest.Check(), func(m *memory) (none struct{}, err error) {
		delete(m.blobs, digest)
		return none, nil
	})
	return err
}
