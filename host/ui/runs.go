package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
)

// run is a run in the list.
type run struct {
	ID        string    `json:"id"`
	Tool      string    `json:"tool"`
	Start     time.Time `json:"start"`
	Duration  float64   `json:"duration"` // milliseconds; 0 before the end
	Outcome   string    `json:"outcome"`
	Done      bool      `json:"done"`
	Message   string    `json:"message,omitempty"`
	Continues string    `json:"continues,omitempty"`
	Calls     int       `json:"calls"`
	Fuel      uint64    `json:"fuel"`
	Client    string    `json:"client,omitempty"`
}

func newRun(rec *journal.Record) run {
	v := run{
		ID: rec.ID, Tool: rec.Definition.Name, Start: rec.Start.UTC(), Duration: milliseconds(rec.Duration), Outcome: rec.OutcomeName(),
		Done: rec.Done, Message: rec.Outcome.Message, Continues: rec.Continues, Calls: len(rec.Calls), Fuel: rec.Outcome.Fuel, Client: rec.Client.Name,
	}
	if open := rec.Open(); len(open) > 0 {
		v.Message = timeline.Question(&open[0])
	}
	return v
}

// Bounds of a list of runs.
const (
	defaultRuns = 50
	maxRuns     = 500
)

// failed stands for every class of error in the filter by outcome.
const failed = "error"

// runs answers with runs, the newest first. The query has tool and outcome, which select
// runs; before, the id of the last run of the page before; and limit.
func (h *Handler) runs(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	limit := defaultRuns
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxRuns {
			return badRequest("limit is not a number from 1 to %d", maxRuns)
		}
		limit = n
	}
	answer := struct {
		Runs     []run `json:"runs"`
		More     bool  `json:"more"`
		Damaged  int   `json:"damaged"` // unreadable lines of the journal
		Recorded bool  `json:"recorded"`
	}{Runs: []run{}, Recorded: h.opts.Journal.Dir != ""}
	if !answer.Recorded {
		return write(w, answer)
	}
	ctx, end := h.untilEnd(r)
	defer end()
	before, outcome := query.Get("before"), query.Get("outcome")
	filter := journal.Filter{Tool: query.Get("tool")}
	if outcome != failed {
		filter.Outcome = outcome
	}
	if at, ok := journal.TimeOf(before); ok {
		filter.Until = at.Add(time.Millisecond)
	}
	for rec, err := range h.opts.Journal.Scan(ctx, filter) {
		var full *journal.RoomError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &full) && full.Run == "": // the list would end here
			return err
		case err != nil:
			answer.Damaged++
			continue
		case before != "" && rec.ID >= before, outcome == failed && (!rec.Done || rec.Outcome.Error == "" || rec.Outcome.Asks):
			continue
		}
		if answer.More = len(answer.Runs) == limit; answer.More {
			break
		}
		answer.Runs = append(answer.Runs, newRun(&rec))
	}
	return write(w, answer)
}

// run answers with a run, with its calls over time.
func (h *Handler) run(w http.ResponseWriter, r *http.Request) error {
	if h.opts.Journal.Dir == "" {
		return journal.ErrNotFound
	}
	id := r.PathValue("id")
	if raw, ok := h.feed.view(id); ok {
		writeRaw(w, http.StatusOK, raw)
		return nil
	}
	ctx, end := h.untilEnd(r)
	defer end()
	rec, err := h.opts.Journal.Find(ctx, id)
	if err != nil {
		return err
	}
	if !rec.Done {
		h.feed.watch(rec.ID)
	}
	writeRaw(w, http.StatusOK, viewOf(&rec))
	return nil
}

// pause is the least time between two looks into the journal.
const pause = 200 * time.Millisecond

// alive is the time between events of a stream without news, by which the page sees that the
// program still answers.
const alive = 10 * time.Second

// live is a stream of server-sent events: each has the current state of a run that has begun, got
// events, or ended.
func (h *Handler) live(w http.ResponseWriter, r *http.Request) error {
	if h.opts.Journal.Dir == "" {
		return &requestError{status: http.StatusNotFound, text: "runs are not recorded"}
	}
	select {
	case h.streams <- struct{}{}:
	default:
		return &requestError{status: http.StatusServiceUnavailable, text: "too many pages follow runs already (close some)"}
	}
	defer func() { <-h.streams }()
	ctx, end := h.untilEnd(r)
	defer end()
	sub, ready := h.feed.subscribe()
	defer h.feed.unsubscribe(sub)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	send := func(event string, data []byte) {
		deadline(w)
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data); err != nil {
			end() // the page is gone
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
	tick := time.NewTicker(alive)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ready:
			ready = nil
			send("ready", []byte("{}"))
		case <-tick.C:
			send("alive", []byte("{}"))
		case <-sub.wake:
			events, behind := h.feed.take(sub)
			for _, raw := range events {
				send("run", raw)
			}
			if behind { // the page connects again, and reads the list
				return nil
			}
		}
	}
	return nil
}

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
