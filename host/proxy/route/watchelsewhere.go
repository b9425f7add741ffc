package route

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
)

// recordedPoll is how often the journal is read for a watched task that goes on in another process.
const recordedPoll = 2 * time.Second

// watchElsewhere is WatchTask for a task of another replica, home. run is the run of a task of
// ours, "" for a task of a server. If the replica ends, the further course of a run is in the
// records.
func (r *Router) watchElsewhere(ctx context.Context, s Session, home, run, id string) (stop func(), ok bool) {
	unwatch, ended, ok := r.Replicas.WatchTask(ctx, home, s, id, func(task []byte) {
		s.Notify(protocol.NotificationTask, task)
	})
	if !ok {
		if run == "" {
			return nil, false
		}
		return r.watchRecorded(ctx, s, run, id)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.inBackground(func() {
		defer unwatch()
		select {
		case <-ended:
			if run != "" {
				r.followRecorded(ctx, s, run, id, nil)
			}
		case <-ctx.Done():
		}
	})
	return cancel, true
}

// watchRecorded is WatchTask for a task of ours that runs in another process. Changes are not
// announced, so the journal is asked.
func (r *Router) watchRecorded(ctx context.Context, s Session, run, id string) (stop func(), ok bool) {
	t, err := r.findRunTask(ctx, s, run)
	if err != nil {
		return nil, false
	}
	seen := t.describe("", id)
	ctx, cancel := context.WithCancel(r.ctx)
	r.inBackground(func() { r.followRecorded(ctx, s, run, id, seen) })
	return cancel, true
}

// followRecorded tells a session each change of a task of ours, until the task or ctx has ended.
// seen is the last known task, nil for none.
func (r *Router) followRecorded(ctx context.Context, s Session, run, id string, seen []byte) {
	for ctx.Err() == nil {
		t, err := r.findRunTask(ctx, s, run)
		if errors.Is(err, ErrNoRun) {
			return // the client finds the error with tasks/get
		}
		if err == nil {
			now := t.describe("", id)
			if seen == nil || changed(seen, now) {
				s.Notify(protocol.NotificationTask, now)
			}
			seen = now
			if t.hasEnded() {
				return
			}
		}
		_ = pause(ctx, recordedPoll)
	}
}

// hasEnded reports whether the task will not change again.
func (t *runTask) hasEnded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return hasEnded(t.status)
}
