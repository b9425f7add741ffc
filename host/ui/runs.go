package ui

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
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
