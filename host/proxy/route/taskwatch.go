package route

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Delays before a task with an ended subscription is listened to again.
const (
	firstWatchDelay = 250 * time.Millisecond
	maxWatchDelay   = 30 * time.Second
)

// watchKey is a task of an upstream.
type watchKey struct {
	conn connKey
	id   string // the upstream's
}

// watcher is a session that wants notifications about a task.
type watcher struct {
	session Session
	id      string // of the task, as known to the client
}

// taskWatch is the subscription to a task at the upstream.
type taskWatch struct {
	cancel   context.CancelFunc
	watchers map[watcher]int // counts WatchTask; guarded by Router.mu
	decided  chan struct{}   // closed when the upstream has agreed or refused
	agreed   bool            // set before decided is closed
}

// WatchTask passes notifications about a task to a session from now on, until stop is called. id is
// the id of the task known to the client, and is in the notifications. ok is false if the task is
// unknown, the upstream does not announce changes of the task, or ctx ends before.
func (r *Router) WatchTask(ctx context.Context, s Session, id string) (stop func(), ok bool) {
	t, home, known := r.openTask(s, id)
	switch {
	case !known:
		return nil, false
	case t.server == "" && home != "" && r.Replicas != nil:
		return r.watchElsewhere(ctx, s, home, t.id, id)
	case t.server == "":
		return r.watchRunTask(ctx, s, t.id, id)
	case home != "" && r.Replicas != nil && !r.shares(t.server):
		return r.watchElsewhere(ctx, s, home, "", id)
	}
	to, there := r.to(s, t.server)
	if !there {
		return nil, false
	}
	if !to.isStateless(ctx) {
		return r.watchBridged(ctx, s, to, t.id, id)
	}
	key, who := watchKey{to.key(), t.id}, watcher{s, id}
	w := r.addWatcher(key, who, func(ctx context.Context, w *taskWatch) { r.watch(ctx, key, to, w) })
	if w == nil {
		return nil, false
	}
	stop = func() { r.removeWatcher(key, w, who) }
	select {
	case <-w.decided:
		if w.agreed {
			return stop, true
		}
	case <-ctx.Done():
	}
	stop()
	return nil, false
}

// isStateless reports whether an upstream is of the stateless era, after waiting for the first
// handshake.
func (c serverConn) isStateless(ctx context.Context) bool {
	if _, ok := c.Server(); !ok {
		_, _ = c.Handshake(ctx) // then era knows
	}
	_, era := c.era()
	return era == protocol.Stateless
}

// era returns which era an upstream is of; known is false before the first handshake.
func (c serverConn) era() (known bool, era protocol.Era) {
	if c.Upstream == nil {
		return false, 0
	}
	result, ok := c.Server()
	if !ok {
		return false, 0
	}
	name, _ := wire.GetString(result, "protocolVersion")
	revision, _ := protocol.Lookup(name)
	return true, revision.Era()
}

// addWatcher adds a watcher of a task, and for the first watcher begins to listen to the task, with
// watch. The result is nil if the router is closed.
func (r *Router) addWatcher(key watchKey, who watcher, watch func(ctx context.Context, w *taskWatch)) *taskWatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	w := r.watched[key]
	if w == nil {
		ctx, cancel := context.WithCancel(r.ctx)
		w = &taskWatch{cancel: cancel, watchers: map[watcher]int{}, decided: make(chan struct{})}
		r.watched[key] = w
		r.background.Go(func() { watch(ctx, w) })
	}
	w.watchers[who]++
	return w
}

// removeWatcher undoes addWatcher.
func (r *Router) removeWatcher(key watchKey, w *taskWatch, who watcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.watchers[who]--; w.watchers[who] > 0 {
		return
	}
	delete(w.watchers, who)
	if len(w.watchers) > 0 {
		return
	}
	w.cancel()
	if r.watched[key] == w {
		delete(r.watched, key)
	}
}

// watch listens to a task until ctx ends or the upstream refuses.
func (r *Router) watch(ctx context.Context, key watchKey, to serverConn, w *taskWatch) {
	var params, filter wire.Object
	filter.Raw("taskIds", wire.Array([][]byte{wire.Quote(key.id)}))
	params.Raw("notifications", filter.Bytes())
	call := wire.Call{Method: protocol.MethodListen, Params: params.Bytes(), Permit: watchers{r, key}}
	delay := firstWatchDelay
	for first := true; ; first = false {
		acknowledged := false
		call.Progress = func([]byte) { // an acknowledgement; before the end of Call
			again := acknowledged
			acknowledged = true
			if first && !again {
				w.agreed = true
				close(w.decided)
			} else {
				r.inBackground(func() { r.catchUp(ctx, key, to) })
			}
		}
		if !first && call.Permit.Permitted() != nil { // a link need not send anything for this call
			return
		}
		reply, err := to.Call(ctx, call)
		if first && !acknowledged {
			close(w.decided)
		}
		refused := !acknowledged && err == nil
		switch {
		case ctx.Err() != nil, first && !acknowledged, refused, errors.Is(err, errNoRights):
			r.Log.Debug("a task is not listened to any more", "upstream", key.conn.server, "refused", refused, "answer", excerpt(reply.Error))
			return
		case acknowledged:
			delay = firstWatchDelay
		}
		if pause(ctx, delay) != nil {
			return
		}
		delay = min(2*delay, maxWatchDelay)
	}
}

// watchers is the wire.Permit of requests on behalf of the watchers of a task: the requests are
// sent as long as the token of a watcher is accepted.
type watchers struct {
	router *Router
	key    watchKey
}

// Permitted implements wire.Permit.
func (w watchers) Permitted() error {
	for _, who := range w.router.watchersOf(w.key) {
		if (present{who.session}).Permitted() == nil {
			return nil
		}
	}
	return errNoRights
}

// catchUp tells the watchers of a task the status, since notifications may have been missed.
func (r *Router) catchUp(ctx context.Context, key watchKey, to serverConn) {
	var params wire.Object
	params.Text("taskId", key.id)
	reply, err := to.Call(ctx, wire.Call{
		Method: protocol.MethodTasksGet, Params: params.Bytes(), Client: declareTasks(nil), Permit: watchers{r, key},
	})
	if err != nil || reply.Error != nil {
		return
	}
	task, err := wire.Without(reply.Result, "resultType", "_meta")
	if err == nil {
		r.tellWatchers(key, task)
	}
}

// taskChanged delivers a notification about a task to the sessions that watch the task, and to no
// other sessions.
func (p Peer) taskChanged(m wire.Inbound) {
	id, _ := wire.GetString(m.Params, "taskId")
	p.router.tellWatchers(watchKey{p.conn, id}, m.Params)
}

func (r *Router) tellWatchers(key watchKey, task []byte) {
	if err := wire.ExtensionTaskShape.Check(task); err != nil {
		r.Log.Warn("malformed notification about a task", "upstream", key.conn.server, "err", err)
		return
	}
	for _, who := range r.watchersOf(key) {
		if named, err := ownID(task, who.id); err == nil {
			who.session.Notify(protocol.NotificationTask, named)
		}
	}
}

// watchersOf returns the watchers of a task.
func (r *Router) watchersOf(key watchKey) (all []watcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.watched[key]; w != nil {
		for who := range w.watchers {
			all = append(all, who)
		}
	}
	return all
}
