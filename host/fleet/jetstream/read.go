package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Read implements [store.Store].
func (s *Store) Read(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return s.read(ctx, log, after, false)
}

// Follow implements [store.Store].
func (s *Store) Follow(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return s.read(ctx, log, after, true)
}

func (s *Store) read(ctx context.Context, log string, after store.Position, follow bool) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		if err := store.CheckLog(log); err != nil {
			yield(store.Event{}, err)
			return
		}
		outer, what := ctx, "log "+log
		ctx, cancel := s.open(ctx)
		defer cancel()
		h, err := s.homeOf(ctx, log, after)
		if err != nil {
			yield(store.Event{}, failed(ctx, what, false, err))
			return
		}
		behind := after.Mark &^ inRuns
		end := uint64(0) // where Read ends
		if !follow {
			m, err := s.last(ctx, h.stream, h.subject)
			if err != nil {
				yield(store.Event{}, failed(ctx, what, false, err))
				return
			}
			if m == nil || m.Sequence <= behind {
				gone := m == nil || m.Sequence < behind && s.single()
				if !gone && m.Sequence < behind { // or the answer is from before
					gone, err = s.madeAgain(ctx, h.stream, s.whenMade(h.stream))
				}
				switch {
				case err != nil:
					yield(store.Event{}, failed(ctx, what, false, err))
				case gone && after.Number > 0:
					yield(store.Event{}, fmt.Errorf("%s: %w", what, store.ErrGone))
				}
				return
			}
			end = m.Sequence
		}
		at := after.Number
		for m, err := range s.tail(ctx, h.stream, h.subject, behind+1) {
			if err == nil && !m.idle {
				var e store.Event
				var ok bool
				if e, ok, err = s.event(ctx, h, what, m.seq, m.header, m.data); err == nil && ok {
					if e.Position.Number != at+1 {
						err = fmt.Errorf("%s: %w (event %d comes after %d)", what, store.ErrGone, e.Position.Number, at)
					} else if at++; !yield(e, nil) {
						return
					}
				}
			}
			if err != nil {
				yield(store.Event{}, err)
				return
			}
			if !follow && (m.idle || m.seq >= end) {
				return
			}
		}
		switch err := s.closedOr(what); {
		case err != nil:
			yield(store.Event{}, err)
		case !follow:
			yield(store.Event{}, failed(outer, what, false, context.Cause(outer)))
		}
	}
}

// event returns the event that a message has; ok is false if it has none.
func (s *Store) event(ctx context.Context, at home, what string, seq uint64, h nats.Header, body []byte) (e store.Event, ok bool, err error) {
	r, err := at.readRecord(what, seq, h)
	if err != nil || r.marker {
		return e, false, err
	}
	data, err := s.join(ctx, what, at.stream, h, body)
	switch {
	case errors.Is(err, errPartsGone):
		return e, false, fmt.Errorf("%s, event %d: %w", what, r.number, store.ErrGone)
	case isCorrupt(err):
		return e, false, err
	case err != nil:
		return e, false, failed(ctx, what, false, err)
	}
	return store.Event{Position: r.position(), ID: r.id, Data: data}, true, nil
}

// Logs implements [store.Store].
func (s *Store) Logs(ctx context.Context) iter.Seq2[store.LastEvent, error] {
	return func(yield func(store.LastEvent, error) bool) {
		ctx, cancel := s.open(ctx)
		defer cancel()
		names, err := s.logNames(ctx)
		if err != nil {
			yield(store.LastEvent{}, failed(ctx, "logs", false, err))
			return
		}
		for _, name := range names {
			e, err := s.Last(ctx, name)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if !yield(store.LastEvent{Log: name, Event: e}, err) || err != nil {
				return
			}
		}
	}
}

// logNames returns the names of all logs.
func (s *Store) logNames(ctx context.Context) ([]string, error) {
	names := map[string]bool{} // one may be left in the stream of before
	for _, all := range []home{s.inLogs("*"), s.inRuns("*")} {
		prefix := strings.TrimSuffix(all.subject, "*")
		err := s.retry(ctx, func(ctx context.Context) error {
			info, err := all.stream.Info(ctx, jetstream.WithSubjectFilter(all.subject))
			if err != nil {
				return err
			}
			for subject := range info.State.Subjects {
				if name := strings.TrimPrefix(subject, prefix); store.CheckLog(name) == nil {
					names[name] = true
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Collect(maps.Keys(names)), nil
}

// Last implements [store.Store].
func (s *Store) Last(ctx context.Context, log string) (store.Event, error) {
	what := "log " + log
	if err := store.CheckLog(log); err != nil {
		return store.Event{}, err
	}
	ctx, cancel := s.open(ctx)
	defer cancel()
	h, err := s.homeOf(ctx, log, store.Position{})
	if err != nil {
		return store.Event{}, failed(ctx, what, false, err)
	}
	m, err := s.last(ctx, h.stream, h.subject)
	if err != nil {
		return store.Event{}, failed(ctx, what, false, err)
	}
	if m == nil {
		return store.Event{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	end, err := h.readRecord(what, m.Sequence, m.Header)
	switch {
	case err != nil:
		return store.Event{}, err
	case end.marker && end.event == 0:
		return store.Event{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	case end.marker:
		m, err = s.get(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) { return h.stream.GetMsg(ctx, end.event) })
		if err != nil {
			return store.Event{}, failed(ctx, what, false, err)
		}
		if m == nil {
			return store.Event{}, fmt.Errorf("%s: %w", what, store.ErrGone)
		}
	}
	e, _, err := s.event(ctx, h, what, m.Sequence, m.Header, m.Data)
	return e, err
}
