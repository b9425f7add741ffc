package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/timeline"
)

// run is one run in the list.
type run struct {
	ID        string    `json:"id"`
	Tool      string    `json:"tool"`
	Start     time.Time `json:"start"`
	Duration  float64   `json:"duration"` // milliseconds; 0 if it has not ended
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
		Damaged  int   `json:"damaged"` // lines of the journal that cannot be read
		Recorded bool  `json:"recorded"`
	}{Runs: []run{}, Recorded: h.opts.Journal != ""}
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
	for rec, err := range journal.Scan(ctx, h.opts.Journal, filter) {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
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

// run answers with one run, with its calls over time.
func (h *Handler) run(w http.ResponseWriter, r *http.Request) error {
	if h.opts.Journal == "" {
		return journal.ErrNotFound
	}
	ctx, end := h.untilEnd(r)
	defer end()
	rec, err := journal.Find(ctx, h.opts.Journal, r.PathValue("id"))
	if err != nil {
		return err
	}
	return write(w, struct {
		run
		View *timeline.View `json:"view"`
	}{newRun(&rec), timeline.NewView(&rec)})
}

// pause is the least time between events of one stream.
const pause = 200 * time.Millisecond

// live is a stream of server-sent events: each has a run that has begun, got events, or
// ended. The state of a run in it is that of the moment, so nothing is lost if a page is
// slow.
func (h *Handler) live(w http.ResponseWriter, r *http.Request) error {
	if h.opts.Journal == "" {
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
	opts := journal.FollowOptions{Unfinished: true, Pause: pause, Started: func() { send("ready", []byte("{}")) }}
	for rec, err := range journal.Follow(ctx, h.opts.Journal, opts) {
		if err != nil {
			continue // the list of runs counts what is damaged
		}
		raw, err := json.Marshal(newRun(&rec))
		if err == nil {
			send("run", raw)
		}
	}
	return nil
}
