package compose

import (
	"errors"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// Bounds of the records in Asked. Beyond these bounds the oldest record is forgotten, and the run
// can only be continued if the journal has the record.
const (
	maxAsked      = 256
	maxAskedBytes = 64 << 20 // of answers
)

// Asked keeps the records of runs that ended to ask the client. In contrast to the journal on disk,
// nothing is masked in these records. Asked is safe for concurrent use. The zero value is ready to
// use.
type Asked struct {
	mu    sync.Mutex
	runs  []askedRun // oldest first
	bytes int
}

type askedRun struct {
	rec     journal.Record
	claimed bool // another run continues this run
}

var errForgotten = errors.New("there is no record of it")

// keep adds a record.
func (a *Asked) keep(rec journal.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs = append(a.runs, askedRun{rec: rec})
	a.bytes += answerBytes(&rec)
	for len(a.runs) > maxAsked || a.bytes > maxAskedBytes && len(a.runs) > 0 {
		a.bytes -= answerBytes(&a.runs[0].rec)
		a.runs = append([]askedRun(nil), a.runs[1:]...)
	}
}

// find returns the record of a run. The error is errForgotten or journal.ErrClaimed.
func (a *Asked) find(id string) (journal.Record, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch run := a.of(id); {
	case run == nil:
		return journal.Record{}, errForgotten
	case run.claimed:
		return journal.Record{}, journal.ErrClaimed
	default:
		return run.rec, nil
	}
}

// of returns the entry of a run, nil if there is none. The caller holds a.mu.
func (a *Asked) of(id string) *askedRun {
	for i := range a.runs {
		if a.runs[i].rec.ID == id {
			return &a.runs[i]
		}
	}
	return nil
}

// claim takes the right to continue a run, as far as this process is concerned. The error
// is journal.ErrClaimed.
func (a *Asked) claim(id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	run := a.of(id)
	switch {
	case run == nil:
		return nil
	case run.claimed:
		return journal.ErrClaimed
	}
	run.claimed = true
	return nil
}

// release gives the claim back.
func (a *Asked) release(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if run := a.of(id); run != nil {
		run.claimed = false
	}
}

// forget drops the record of a claimed run, but remembers the claim.
func (a *Asked) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if run := a.of(id); run != nil && run.claimed {
		a.bytes -= answerBytes(&run.rec)
		run.rec = journal.Record{ID: id}
	}
}

// answerBytes returns about how much memory a record holds.
func answerBytes(rec *journal.Record) int {
	n := len(rec.Params) + len(rec.Definition.Code)
	for i := range rec.Calls {
		c := &rec.Calls[i]
		n += len(c.Request.Arguments) + len(c.Answer.Result) + len(c.Answer.RPCError) + len(c.Answer.Value)
		if c.Answer.Run != nil {
			n += answerBytes(c.Answer.Run)
		}
	}
	for _, in := range rec.Inputs {
		n += len(in.Params) + len(in.Answer)
	}
	for _, e := range rec.Logs {
		n += len(e.Text)
	}
	return n
}
