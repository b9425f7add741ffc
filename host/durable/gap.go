package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// A log can lose its beginning, or all of it, although no process may remove it: the operator of the
// store can, and the stream in which versions before kept it does. Then no other process can go on with
// the run. So its owner, as long as the run is his, ends it and undoes what it did, without a log.

var (
	// ErrGap is the cause of the end of a run whose log is no longer whole.
	ErrGap = errors.New("its log was removed from the store, so that no other process could go on with it: the run ends, and what it did is undone")
	// ErrLogGone says that the log of an open run that no process is at is no longer whole.
	ErrLogGone = errors.New("its log was removed, so that no process can go on with it (what it called was called, and nothing was undone: look at the servers)")
)

// isGone reports whether an error says that a log is no longer there, or not as it was.
func isGone(err error) bool {
	return errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrMissing)
}

// cut ends a run whose log could not be written, as why says, since what was there is gone. The error
// is ErrLost if the run may not be that of this process: who has ended it has removed its lease
// before its log.
func (r *Run) cut(ctx context.Context, why error) error {
	ctx, cancel := r.patience(ctx)
	defer cancel()
	if err := r.renew(ctx); err != nil {
		r.lose(why)
		return fmt.Errorf("run %s: %w: %w", r.id, ErrLost, why)
	}
	r.gap()
	return nil
}

// gap ends the run. Nothing more is written to its log.
func (r *Run) gap() {
	if !r.gone.Swap(true) {
		r.runs.opts.Log.Error("the log of a durable run is gone: the run ends, and what it did is undone", "run", r.id)
		r.end(fmt.Errorf("run %s: %w", r.id, ErrGap))
	}
}

// look finds out whether the log is still whole. The caller holds r.renewing, and has renewed the lease.
func (r *Run) look(ctx context.Context) {
	if r.flushed.Load() == 0 || r.gone.Load() {
		return
	}
	if errors.Is(r.runs.opts.Store.Whole(ctx, r.id), store.ErrGone) {
		r.gap()
	}
}

// Fate returns ErrLogGone if the run will have no end: its log is gone, and no process is at it.
func (o *Open) Fate() error {
	if o.Err == nil || o.Held || !errors.Is(o.Err, ErrCut) && !errors.Is(o.Err, store.ErrGone) {
		return nil
	}
	return fmt.Errorf("run %s: %w", o.ID, ErrLogGone)
}
