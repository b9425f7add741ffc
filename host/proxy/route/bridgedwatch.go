package route

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// minWatchPoll is the shortest time between two requests for a watched task.
const minWatchPoll = 250 * time.Millisecond

// watchBridged is WatchTask for a task of the handshake era. The upstream need not announce
// changes, so the router asks for the task as often as a client would, and also after each
// announced change.
func (r *Router) watchBridged(ctx context.Context, s Session, to serverConn, own, id string) (stop func(), ok bool) {
	key, who := watchKey{to.key(), own}, watcher{s, id}
	t, err := r.bridged.get(r, key, s)
	if err != nil {
		return nil, false
	}
	var about wire.Object
	about.Text("taskId", own)
	params := about.Bytes()
	first, ended := t.describe(ctx, to, params, id, "")
	if first.Error != nil {
		return nil, false
	}
	w := r.addWatcher(key, who, func(ctx context.Context, w *taskWatch) {
		w.agreed = true
		close(w.decided)
		if !ended {
			r.poll(ctx, t, to, params, first.Result)
		}
	})
	if w == nil {
		return nil, false
	}
	if ended { // the last change, which the watcher may have missed
		s.Notify(protocol.NotificationTask, first.Result)
	}
	return func() { r.removeWatcher(key, w, who) }, true
}

// poll tells the watchers of a task each change, until the task or ctx has ended. seen is the last
// known task.
func (r *Router) poll(ctx context.Context, t *bridgedTask, to serverConn, params, seen []byte) {
	for {
		_, fresh := t.open()
		timer := time.NewTimer(max(pollInterval(seen), minWatchPoll))
		select {
		case <-fresh:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
		if again, err := r.bridged.get(r, t.key, t.session); err == nil {
			t = again
		}
		now, ended := t.describe(ctx, to, params, t.key.id, "")
		if now.Error != nil { // the client finds the error with tasks/get
			return
		}
		if changed(seen, now.Result) {
			r.tellWatchers(t.key, now.Result)
		}
		if ended {
			return
		}
		seen = now.Result
	}
}

// changed reports whether a client has to know a change of a task.
func changed(before, now []byte) bool {
	return slices.ContainsFunc([]string{"status", "statusMessage", "inputRequests"}, func(name string) bool {
		a, _ := wire.Get(before, name)
		b, _ := wire.Get(now, name)
		return !bytes.Equal(a, b)
	})
}
