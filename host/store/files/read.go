package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Read implements [store.Store].
func (s *Store) Read(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		_, err := s.read(ctx, log, after.Number, func(e store.Event) bool { return yield(e, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(store.Event{}, err)
		}
	}
}

// errStopped says that the caller wants no more.
var errStopped = errors.New("the caller wants no more")

// read yields the events behind a number, and returns the number of the last one.
func (s *Store) read(ctx context.Context, log string, after uint64, yield func(store.Event) bool) (uint64, error) {
	what := "log " + log
	if err := store.CheckLog(log); err != nil {
		return after, err
	}
	if err := s.ended(ctx, what); err != nil {
		return after, err
	}
	x, err := s.openIndex(log, false)
	if err != nil {
		return after, s.failed(ctx, what, err)
	}
	if x == nil || x.end.number <= after {
		if x != nil {
			x.file.Close()
		} else if after > 0 {
			return after, fmt.Errorf("%s: %w", what, store.ErrGone)
		}
		return after, nil
	}
	defer x.file.Close()
	first, err := x.behind(after)
	if err != nil {
		return after, s.failed(ctx, what, err)
	}
	for i := first; i < x.n; i++ {
		if err := s.ended(ctx, what); err != nil {
			return after, err
		}
		r, ok, err := x.read(i)
		if err != nil {
			return after, s.failed(ctx, what, err)
		}
		if ok && r.kind == kindFence {
			continue
		}
		if !ok || r.number != after+1 {
			return after, &store.CorruptError{What: what, Reason: fmt.Sprintf("its index is damaged behind event %d", after)}
		}
		e, err := s.event(ctx, log, &r)
		if err != nil {
			return after, err
		}
		after++
		if !yield(e) {
			return after, errStopped
		}
	}
	return after, nil
}

// event returns the event of a record.
func (s *Store) event(ctx context.Context, log string, r *record) (store.Event, error) {
	what := fmt.Sprintf("log %s, event %d", log, r.number)
	line, err := s.line(r)
	switch {
	case errors.Is(err, errVoid):
		return store.Event{}, &store.CorruptError{What: what, Reason: err.Error()}
	case errors.Is(err, store.ErrGone):
		return store.Event{}, fmt.Errorf("%s: %w", what, err)
	case err != nil:
		return store.Event{}, s.failed(ctx, what, err)
	}
	data, err := fromLine(log, line)
	return store.Event{Position: r.position(), ID: r.id, Data: data}, err
}

// Follow implements [store.Store].
func (s *Store) Follow(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		at := after.Number
		for {
			changed := s.notify.watch(s.positions()) // before reading, so that nothing is missed
			var err error
			at, err = s.read(ctx, log, at, func(e store.Event) bool { return yield(e, nil) })
			switch {
			case errors.Is(err, errStopped):
				return
			case ctx.Err() != nil && s.ctx.Err() == nil:
				return
			case err != nil && !errors.Is(err, store.ErrUnavailable):
				yield(store.Event{}, err)
				return
			}
			if !s.wait(ctx, changed) {
				if err := s.ended(context.Background(), "log "+log); err != nil {
					yield(store.Event{}, err)
				}
				return
			}
		}
	}
}

// Logs implements [store.Store].
func (s *Store) Logs(ctx context.Context) iter.Seq2[store.LastEvent, error] {
	return func(yield func(store.LastEvent, error) bool) {
		if err := s.ended(ctx, "logs"); err != nil {
			yield(store.LastEvent{}, err)
			return
		}
		entries, err := os.ReadDir(s.positions())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(store.LastEvent{}, s.failed(ctx, "logs", err))
			return
		}
		for _, entry := range entries {
			log := entry.Name()
			if store.CheckLog(log) != nil {
				continue
			}
			e, err := s.Last(ctx, log)
			switch {
			case errors.Is(err, store.ErrNotFound):
				continue
			case errors.Is(err, store.ErrGone): // the journal keeps nothing for ever, and nor does its index
				if err := s.Drop(ctx, log); err != nil {
					s.opts.Log.Debug("the index of an old log is still there", "log", log, "err", err)
				}
				continue
			}
			if !yield(store.LastEvent{Log: log, Event: e}, err) || err != nil {
				return
			}
		}
	}
}

// Last implements [store.Store].
func (s *Store) Last(ctx context.Context, log string) (store.Event, error) {
	what := "log " + log
	if err := store.CheckLog(log); err != nil {
		return store.Event{}, err
	}
	if err := s.ended(ctx, what); err != nil {
		return store.Event{}, err
	}
	x, err := s.openIndex(log, false)
	if err != nil {
		return store.Event{}, s.failed(ctx, what, err)
	}
	if x == nil {
		return store.Event{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	defer x.file.Close()
	r, ok, err := x.event(x.end.number)
	switch {
	case err != nil:
		return store.Event{}, s.failed(ctx, what, err)
	case !ok:
		return store.Event{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	return s.event(ctx, log, &r)
}

// Whole implements [store.Store].
func (s *Store) Whole(ctx context.Context, log string) error {
	what := "log " + log
	if err := store.CheckLog(log); err != nil {
		return err
	}
	if err := s.ended(ctx, what); err != nil {
		return err
	}
	x, err := s.openIndex(log, false)
	if err != nil {
		return s.failed(ctx, what, err)
	}
	if x == nil {
		return fmt.Errorf("%s: %w", what, store.ErrGone)
	}
	defer x.file.Close()
	if x.end.number == 0 { // it is only fenced
		return nil
	}
	r, ok, err := x.event(1)
	switch {
	case err != nil:
		return s.failed(ctx, what, err)
	case !ok:
		return fmt.Errorf("%s: %w", what, store.ErrGone)
	}
	_, err = s.event(ctx, log, &r)
	return err
}
