package ui

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
)

// feed follows the journal once for all pages, while pages are open and a little longer. The views
// of runs on open pages are kept, so an event of a viewed run needs no look into the journal.
type feed struct {
	ctx context.Context // ends the feed
	dir string
	// done counts the current reader of the journal, and earlier ones.
	done sync.WaitGroup

	mu    sync.Mutex
	subs  map[*subscriber]bool
	ready chan struct{} // closed when the journal was read up to now; nil: not followed
	stop  func()
	idle  *time.Timer
	// views has the JSON of the runs on open pages, nil before the next event of a run, and order
	// their ids, the latest request last.
	views map[string][]byte
	order []string
}

// The bounds of feed.views, and how long the journal is followed after the last page has
// left.
const (
	maxViews     = 16
	maxViewBytes = 32 << 20
	maxIdle      = time.Minute
)

// subscriber is a stream. The state of a run replaces an unsent earlier state, so nothing is lost
// if a page is slow.
type subscriber struct {
	wake    chan struct{} // has a token while pending is not empty
	pending map[string][]byte
	order   []string // ids in pending
	behind  bool     // the subscriber has missed events
}

// maxPending is how many runs a stream can be behind.
const maxPending = 1000

func newFeed(ctx context.Context, dir string) *feed {
	return &feed{ctx: ctx, dir: dir, subs: map[*subscriber]bool{}, views: map[string][]byte{}}
}

// subscribe returns a subscriber, and a channel that is closed when the subscriber gets all later
// events.
func (f *feed) subscribe() (*subscriber, <-chan struct{}) {
	s := &subscriber{wake: make(chan struct{}, 1), pending: map[string][]byte{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subs[s] = true
	if f.idle != nil {
		f.idle.Stop()
		f.idle = nil
	}
	if f.ready == nil {
		ctx, cancel := context.WithCancel(f.ctx)
		f.ready, f.stop = make(chan struct{}), cancel
		ready := f.ready
		f.done.Go(func() { f.follow(ctx, ready) })
	}
	return s, f.ready
}

func (f *feed) unsubscribe(s *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subs, s)
	if len(f.subs) == 0 && f.idle == nil {
		f.idle = time.AfterFunc(maxIdle, f.rest)
	}
}

// rest ends following, unless a page has come back.
func (f *feed) rest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.subs) > 0 || f.ready == nil {
		return
	}
	f.stop()
	f.ready, f.idle, f.order = nil, nil, nil
	clear(f.views)
}

// close waits until nothing follows the journal. The context of the feed must have ended.
func (f *feed) close() {
	f.mu.Lock()
	if f.idle != nil {
		f.idle.Stop()
	}
	f.mu.Unlock()
	f.done.Wait()
}

func (f *feed) follow(ctx context.Context, ready chan struct{}) {
	opts := journal.FollowOptions{Unfinished: true, Pause: pause, Started: func() { close(ready) }}
	for rec, err := range journal.Follow(ctx, f.dir, opts) {
		if err == nil { // the list of runs counts damaged lines
			f.publish(ctx, &rec)
		}
	}
}

// publish tells all streams of a run.
func (f *feed) publish(ctx context.Context, rec *journal.Record) {
	raw, err := json.Marshal(newRun(rec))
	if err != nil {
		return
	}
	f.mu.Lock()
	_, watched := f.views[rec.ID]
	f.mu.Unlock()
	var view []byte
	if watched {
		view = viewOf(rec)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil { // f.views may belong to a later follow
		return
	}
	if _, watched = f.views[rec.ID]; watched {
		f.views[rec.ID] = view
		f.trim()
	}
	for s := range f.subs {
		s.put(rec.ID, raw)
	}
}

// put adds the state of a run. feed.mu must be held.
func (s *subscriber) put(id string, raw []byte) {
	if _, again := s.pending[id]; !again {
		if len(s.order) == maxPending {
			s.behind = true
			return
		}
		s.order = append(s.order, id)
	}
	s.pending[id] = raw
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns the unsent events of a stream. behind says that the stream has missed events.
func (f *feed) take(s *subscriber) (events [][]byte, behind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range s.order {
		events = append(events, s.pending[id])
	}
	clear(s.pending)
	s.order = nil
	return events, s.behind
}

// watch keeps the view of a run from the next event on, if the journal is followed.
func (f *feed) watch(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ready == nil {
		return
	}
	if _, ok := f.views[id]; !ok {
		f.views[id] = nil
	}
	f.touch(id)
	f.trim()
}

// view returns the JSON of a watched run.
func (f *feed) view(id string) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	raw := f.views[id]
	if raw == nil {
		return nil, false
	}
	f.touch(id)
	return raw, true
}

func (f *feed) touch(id string) {
	f.order = append(slices.DeleteFunc(f.order, func(other string) bool { return other == id }), id)
}

// trim removes the views with the oldest requests.
func (f *feed) trim() {
	size := 0
	for _, raw := range f.views {
		size += len(raw)
	}
	for len(f.order) > 1 && (len(f.order) > maxViews || size > maxViewBytes) {
		size -= len(f.views[f.order[0]])
		delete(f.views, f.order[0])
		f.order = f.order[1:]
	}
}

// viewOf returns the JSON of a run, with its calls over time.
func viewOf(rec *journal.Record) []byte {
	raw, err := json.Marshal(struct {
		run
		View *timeline.View `json:"view"`
	}{newRun(rec), timeline.NewView(rec)})
	if err != nil {
		return nil
	}
	return raw
}
