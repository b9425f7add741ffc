package jetstream

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// A log that lasts is in a stream of its own. Versions before had it in that of the other logs, from
// which it is removed for its age and for its size. One that is there stays there until it is
// dropped, so that its owner can be such a version, and so can who takes it over.

// home is where a log is.
type home struct {
	stream  jetstream.Stream
	subject string // of its messages
	parts   string // begins those of their parts
	mark    uint64 // is in each Position.Mark: inRuns or 0
}

// inRuns is the bit of Position.Mark which says that the rest is a sequence number in the stream of
// logs that last.
const inRuns = 1 << 63

func (s *Store) inLogs(log string) home {
	return home{s.logs, s.opts.subject("log", log), s.opts.subject("logpart", log), 0}
}

func (s *Store) inRuns(log string) home {
	return home{s.runs, s.opts.subject("run", log), s.opts.subject("runpart", log), inRuns}
}

// homeOf returns where a log is, for who knows a position in it.
func (s *Store) homeOf(ctx context.Context, log string, at store.Position) (home, error) {
	switch {
	case !store.IsLasting(log):
		return s.inLogs(log), nil
	case at.Mark&inRuns != 0:
		return s.inRuns(log), nil
	case at.Mark != 0:
		return s.inLogs(log), nil
	}
	for _, h := range []home{s.inRuns(log), s.inLogs(log)} {
		if m, err := s.last(ctx, h.stream, h.subject); err != nil || m != nil {
			return h, err
		}
	}
	return s.inRuns(log), nil
}

// homes returns where a log can be.
func (s *Store) homes(log string) []home {
	if store.IsLasting(log) {
		return []home{s.inRuns(log), s.inLogs(log)}
	}
	return []home{s.inLogs(log)}
}

// Whole implements [store.Store].
func (s *Store) Whole(ctx context.Context, log string) error {
	if err := store.CheckLog(log); err != nil {
		return err
	}
	ctx, cancel := s.open(ctx)
	defer cancel()
	what := "log " + log
	for wait, began := newBackoff(), time.Now(); ; {
		h, err := s.homeOf(ctx, log, store.Position{})
		if err != nil {
			return failed(ctx, what, false, err)
		}
		first, found, err := s.logNext(ctx, h, log, store.Position{})
		switch {
		case err != nil && isCorrupt(err):
			return err
		case err != nil:
			return failed(ctx, what, false, err)
		case found && first.number <= 1 && (first.number == 1) != first.marker:
			return nil
		case found, s.single(), time.Since(began) > s.opts.silence():
			return fmt.Errorf("%s: %w: its beginning is not there", what, store.ErrGone)
		}
		// The answer can be from before.
		if !wait.sleep(ctx) {
			return failed(ctx, what, false, context.Cause(ctx))
		}
	}
}
