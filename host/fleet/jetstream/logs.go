package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// record is a message of a log: an event, or what fences the log.
type record struct {
	seq    uint64 // in the stream, with what home.mark says
	number uint64 // of the event, or of the one before
	fence  uint64
	marker bool
	event  uint64 // in the stream: of the event, or of the one before; 0 for none
	id     store.ID
}

// position returns the place behind the record.
func (r *record) position() store.Position {
	return store.Position{Number: r.number, Fence: r.fence, Mark: r.seq}
}

// readRecord reads the headers of a message of a log that is there.
func (at home) readRecord(what string, seq uint64, h nats.Header) (record, error) {
	r := record{seq: seq | at.mark, marker: h.Get(headerMarker) != ""}
	var err, err2, err3 error
	r.number, err = strconv.ParseUint(h.Get(headerNumber), 10, 64)
	r.fence, err2 = strconv.ParseUint(h.Get(headerFence), 10, 64)
	if r.marker {
		r.event, err3 = strconv.ParseUint(h.Get(headerMarker), 10, 64)
	} else {
		r.event = seq
		r.id, err3 = store.ParseID(h.Get(headerID))
	}
	if errors.Join(err, err2, err3) != nil {
		return r, &store.CorruptError{What: what, Reason: fmt.Sprintf("message %d in the stream has wrong headers", seq)}
	}
	return r, nil
}

// logEnd returns the last record of a log; the zero value if there is none.
func (s *Store) logEnd(ctx context.Context, h home, log string) (record, error) {
	m, err := s.last(ctx, h.stream, h.subject)
	if err != nil || m == nil {
		return record{}, err
	}
	return h.readRecord("log "+log, m.Sequence, m.Header)
}

// logNext returns the record behind a place in a log; false if there is none.
func (s *Store) logNext(ctx context.Context, h home, log string, after store.Position) (record, bool, error) {
	m, err := s.next(ctx, h.stream, h.subject, after.Mark&^inRuns+1)
	if err != nil || m == nil {
		return record{}, false, err
	}
	r, err := h.readRecord("log "+log, m.Sequence, m.Header)
	return r, err == nil, err
}

// Append implements [store.Store].
func (s *Store) Append(ctx context.Context, log string, e store.Entry) (store.Position, error) {
	if err := errors.Join(store.CheckLog(log), e.Check()); err != nil {
		return store.Position{}, err
	}
	if e.Fence < e.After.Fence {
		return store.Position{}, &store.FencedError{Log: log, Number: e.After.Fence}
	}
	ctx, cancel := s.open(ctx)
	defer cancel()
	what := "log " + log
	h, err := s.homeOf(ctx, log, e.After)
	if err != nil {
		return store.Position{}, failed(ctx, what, false, err)
	}
	body, parts, err := s.split(ctx, h.parts, e.Data)
	if err != nil {
		return store.Position{}, failedParts(ctx, what, err)
	}
	after, number := e.After, strconv.FormatUint(e.After.Number+1, 10)
	maybe := false // an attempt may have written the event
	for wait, began := newBackoff(), time.Now(); ; {
		msg := newMessage(h.subject, body, headerID, e.ID.String(), headerNumber, number,
			headerFence, strconv.FormatUint(e.Fence, 10))
		if parts != "" {
			msg.Header.Set(headerParts, parts)
		}
		seq, out, last := s.publish(ctx, msg, int64(after.Mark&^inRuns))
		if out == done {
			return store.Position{Number: after.Number + 1, Fence: e.Fence, Mark: seq | h.mark}, nil
		}
		maybe = maybe || s.inDoubt(out)
		if out == refused || out == notSent {
			return store.Position{}, refusal(ctx, what, maybe, last)
		}
		if out.answered() {
			next, found, err := s.logNext(ctx, h, log, after)
			switch {
			case err != nil:
				last = err
			case found && !next.marker && next.id == e.ID:
				return next.position(), nil
			case found && !next.follows(after):
				return store.Position{}, conflict(maybe, what, next.position())
			case found && next.fence > e.Fence:
				return store.Position{}, &store.FencedError{Log: log, Number: next.fence}
			case found && !next.marker:
				return store.Position{}, conflict(false, what, next.position())
			case found:
				// It was fenced for this writer, or one before: no attempt so far can succeed.
				if after, err = s.lastMarker(ctx, h, log, next, e.Fence); err != nil {
					return store.Position{}, err
				}
				maybe = false
				continue
			case out == full || out == notStored:
				return store.Position{}, fullError(what, maybe, last)
			case out == unmet && (s.single() || time.Since(began) > s.opts.silence()):
				gone, err := s.isGone(ctx, h, log, after)
				if err == nil && gone {
					return store.Position{}, goneError(what, maybe)
				}
			}
		}
		if !wait.sleep(ctx) {
			return store.Position{}, failed(ctx, what, maybe, last)
		}
	}
}

// isGone reports whether the record at a place in a log, behind which there is none, is gone.
func (s *Store) isGone(ctx context.Context, h home, log string, at store.Position) (bool, error) {
	end, err := s.logEnd(ctx, h, log)
	return err == nil && end.seq < at.Mark, err
}

// goneError says that what an event was to be behind has been removed. maybe says that the event may
// have been there before that.
func goneError(what string, maybe bool) error {
	if maybe {
		return fmt.Errorf("%s: %w: %w", what, store.ErrUnknown, store.ErrGone)
	}
	return fmt.Errorf("%s: %w", what, store.ErrGone)
}

// follows reports whether nothing can have been between a place in a log and the record that is
// found behind it now. Otherwise the stream has removed what was there, since it was too old.
func (r *record) follows(at store.Position) bool {
	if r.marker {
		return r.number == at.Number
	}
	return r.number == at.Number+1
}

// lastMarker returns the place behind the last of the markers that follow one another, of which
// next is the first: a log may be fenced many times without an event. The error is a
// [*store.FencedError] if that one is for a later owner than fence.
func (s *Store) lastMarker(ctx context.Context, h home, log string, next record, fence uint64) (store.Position, error) {
	end, err := s.logEnd(ctx, h, log)
	if err != nil || end.number != next.number || end.seq <= next.seq {
		return next.position(), nil // there are events, or the answer is from before
	}
	if end.fence > fence {
		return store.Position{}, &store.FencedError{Log: log, Number: end.fence}
	}
	return end.position(), nil
}

// conflict returns the error for what somebody else has changed. maybe says that what was to be
// written may have been there before that.
func conflict(maybe bool, what string, last store.Position) error {
	err := &store.ConflictError{What: what, Last: last}
	if maybe {
		return fmt.Errorf("%s: %w: %w", what, store.ErrUnknown, err)
	}
	return err
}

// fullError says that there is no room. In a cluster it can be that only one server has none, and
// that another one accepts the message.
func fullError(what string, maybe bool, cause error) error {
	if maybe {
		return fmt.Errorf("%s: %w, and %w: %w", what, store.ErrFull, store.ErrUnknown, cause)
	}
	return fmt.Errorf("%s: %w: %w", what, store.ErrFull, cause)
}

// refusal returns the error for a message that a stream does not take.
func refusal(ctx context.Context, what string, maybe bool, cause error) error {
	var api *jetstream.APIError
	if errors.As(cause, &api) && !maybe {
		return fmt.Errorf("%s: NATS does not take it: %w", what, cause)
	}
	return failed(ctx, what, maybe, cause)
}

// Fence implements [store.Store].
func (s *Store) Fence(ctx context.Context, log string, number uint64) (store.Position, error) {
	if err := store.CheckLog(log); err != nil {
		return store.Position{}, err
	}
	ctx, cancel := s.open(ctx)
	defer cancel()
	what := "log " + log
	h, err := s.homeOf(ctx, log, store.Position{})
	if err != nil {
		return store.Position{}, failed(ctx, what, false, err)
	}
	maybe := false
	for wait := newBackoff(); ; {
		end, last := s.logEnd(ctx, h, log)
		if last == nil {
			switch {
			case end.fence > number:
				return store.Position{}, &store.FencedError{Log: log, Number: end.fence}
			case end.fence == number:
				return end.position(), nil
			}
			msg := newMessage(h.subject, nil, headerMarker, strconv.FormatUint(end.event, 10),
				headerNumber, strconv.FormatUint(end.number, 10), headerFence, strconv.FormatUint(number, 10))
			var out outcome
			var seq uint64
			seq, out, last = s.publish(ctx, msg, int64(end.seq&^inRuns))
			maybe = maybe || s.inDoubt(out)
			switch out {
			case done:
				return store.Position{Number: end.number, Fence: number, Mark: seq | h.mark}, nil
			case full, notStored:
				return store.Position{}, fullError(what, maybe, last)
			case refused, notSent:
				return store.Position{}, refusal(ctx, what, maybe, last)
			}
		} else if isCorrupt(last) {
			return store.Position{}, last
		}
		if !wait.sleep(ctx) {
			return store.Position{}, failed(ctx, what, maybe, last)
		}
	}
}

func isCorrupt(err error) bool {
	var corrupt *store.CorruptError
	return errors.As(err, &corrupt)
}

// Drop implements [store.Store].
func (s *Store) Drop(ctx context.Context, log string) error {
	if err := store.CheckLog(log); err != nil {
		return err
	}
	ctx, cancel := s.open(ctx)
	defer cancel()
	for _, h := range s.homes(log) {
		if err := s.purge(ctx, "log "+log, h.stream, 0, h.subject, h.parts+".*.*"); err != nil {
			return err
		}
	}
	return nil
}

// purge removes the messages of subjects; before is the sequence number before which it
// removes them, 0 for all.
func (s *Store) purge(ctx context.Context, what string, st jetstream.Stream, before uint64, subjects ...string) error {
	for _, subject := range subjects {
		maybe := false
		err := s.retry(ctx, func(ctx context.Context) error {
			options := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(subject)}
			if before > 0 {
				options = append(options, jetstream.WithPurgeSequence(before))
			}
			maybe = true
			return st.Purge(ctx, options...)
		})
		if err != nil {
			return failed(ctx, what, maybe, err)
		}
	}
	return nil
}
