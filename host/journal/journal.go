// Package journal records composite runs: the request, every call of the script with the whole
// answer, the log, and the outcome. A run is a pure function of code, params, limits and recorded
// answers. Results, receipts and logs of a run are built from its Record alone; no other record of
// a run exists.
//
// Each run has a Record in memory. A Log also writes the record to disk, event by event;
// docs/journal.md has the format. Begin with Run for writing, Log for the files, Record and Reader
// for reading, and Tail and Follow for new events.
package journal

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// Run is the record of a run in progress. The methods are safe for concurrent use. Byte slices
// passed to a Run are kept, not copied, and must not be changed afterwards.
type Run struct {
	id    string
	begin Begin
	start time.Time
	now   func() time.Time // the clock of the record and of the files
	disk  *runLog          // nil: the record is in memory only

	mu      sync.Mutex
	calls   []*Call
	undos   []UndoRecord
	logs    []Entry
	inputs  []InputRecord
	flow    []FlowRecord
	end     time.Time
	outcome Outcome
}

// Open begins the record of a run.
func Open(b Begin) *Run { return open(b, time.Now) }

// open is Open with a clock.
func open(b Begin, now func() time.Time) *Run {
	start := now()
	return &Run{id: NewID(start), begin: b, start: start, now: now}
}

// since returns the time since the run began.
func (r *Run) since() time.Duration { return r.now().Sub(r.start) }

// ID returns the id of the run.
func (r *Run) ID() string { return r.id }

// Start returns when the run began.
func (r *Run) Start() time.Time { return r.start }

// OnDisk reports whether the beginning of the run has been written to disk.
func (r *Run) OnDisk() bool {
	if r.disk == nil {
		return false
	}
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	return !r.disk.beginLost
}

// Sync waits until all of the run is on disk, for any LogOptions.Sync. The error means that a part
// is not on disk. Sync does nothing for a run in memory only.
func (r *Run) Sync() error { return r.disk.sync() }

// Kept waits until the ended run is in the store of the fleet. Kept does nothing without a fleet.
// The error is the reason why the run may be missing there, or the cause of ctx if ctx ends first.
func (r *Run) Kept(ctx context.Context) error { return r.disk.kept(ctx) }

// IsRequired reports whether the result of the run may only be given when Kept has returned no
// error.
func (r *Run) IsRequired() bool {
	return r.disk != nil && r.disk.opts.Required && r.disk.opts.Fleet != nil
}

// Log adds an entry to the run's log. After Close, Log does nothing.
func (r *Run) Log(level abi.LogLevel, text string) {
	e := Entry{At: r.since(), Level: level, Text: text}
	r.mu.Lock()
	ended := !r.end.IsZero()
	if !ended {
		r.logs = append(r.logs, e)
	}
	r.mu.Unlock()
	if !ended {
		r.disk.entry(&e)
	}
}

// Call is the record of a call in progress.
type Call struct {
	run *Run
	rec CallRecord // guarded by run.mu
}

// OpenCall begins the record of a call of the script. server and tool are the real names. Calls are
// numbered in the order in which they are opened.
func (r *Run) OpenCall(request abi.ToolCall, server, tool string) *Call {
	return r.OpenCalls([]Opened{{request, server, tool}})[0]
}

// Opened is a starting call: as written by the script, and with the real names.
type Opened struct {
	Request      abi.ToolCall
	Server, Tool string
}

// OpenCalls is OpenCall for concurrent calls, in the script's order. Their records are written
// together.
func (r *Run) OpenCalls(list []Opened) []*Call {
	recs := make([]CallRecord, len(list))
	for i, o := range list {
		recs[i] = CallRecord{Request: o.Request, Server: o.Server, Tool: o.Tool}
	}
	return r.open(recs)
}

// OpenUndo is OpenCall for a compensation.
func (r *Run) OpenUndo(request abi.ToolCall, server, tool string) *Call {
	return r.open([]CallRecord{{Request: request, Server: server, Tool: tool, Undo: true}})[0]
}

// Undo records a compensation registered by the script.
func (r *Run) Undo(u UndoRecord) {
	r.mu.Lock()
	ended := !r.end.IsZero()
	if !ended {
		r.undos = append(r.undos, u)
	}
	r.mu.Unlock()
	if !ended {
		r.disk.undo(&u)
	}
}

// Input records a question of a server to the client.
func (r *Run) Input(in InputRecord) {
	r.mu.Lock()
	ended := !r.end.IsZero()
	if !ended {
		r.inputs = append(r.inputs, in)
	}
	r.mu.Unlock()
	if !ended {
		r.disk.input(&in)
	}
}

// open opens calls, and sets Seq and Start of their records.
func (r *Run) open(recs []CallRecord) []*Call {
	start := r.since()
	calls := make([]*Call, len(recs))
	r.mu.Lock()
	for i := range recs {
		recs[i].Start, recs[i].Seq = start, len(r.calls)+1
		calls[i] = &Call{run: r, rec: recs[i]}
		r.calls = append(r.calls, calls[i])
	}
	r.mu.Unlock()
	r.disk.calls(recs)
	return calls
}

// Record returns the record of the call so far.
func (c *Call) Record() CallRecord {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	return c.rec
}

// Seq returns the number of the call, from 1.
func (c *Call) Seq() int { return c.rec.Seq }

// Begin sets the start of the call to the current time, for calls with a delay between opening and
// sending.
func (c *Call) Begin() {
	at := c.run.since()
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.rec.Start = at
}

// Progress counts a progress notification of the call. After the end of the call, Progress does
// nothing.
func (c *Call) Progress() {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	if !c.rec.Done && c.run.end.IsZero() {
		c.rec.Progress++
	}
}

// Close ends the call with an answer. A second Close, or a Close after the end of the run, does
// nothing: the script cannot have seen this answer.
func (c *Call) Close(a Answer) {
	at := c.run.since()
	c.run.mu.Lock()
	late := c.rec.Done || !c.run.end.IsZero()
	if !late {
		c.rec.Done, c.rec.Duration, c.rec.Answer = true, at-c.rec.Start, a
	}
	rec := c.rec
	c.run.mu.Unlock()
	if !late {
		c.run.disk.answer(&rec)
	}
}

// Close ends the run. Only the first Close counts.
func (r *Run) Close(o Outcome) {
	now := r.now()
	r.mu.Lock()
	again := !r.end.IsZero()
	if !again {
		r.end, r.outcome = now, o
	}
	r.mu.Unlock()
	if !again {
		r.disk.end(now.Sub(r.start), &o)
	}
}

// Record returns the record so far. The caller owns the record but not the byte slices in the
// record.
func (r *Run) Record() Record {
	rec := r.record()
	if rec.Done {
		rec.Head, rec.Seal = r.disk.sealed()
	}
	return rec
}

func (r *Run) record() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := Record{
		ID: r.id, Start: r.start, Begin: r.begin,
		Undos: slices.Clone(r.undos), Logs: slices.Clone(r.logs), Inputs: slices.Clone(r.inputs), Flow: slices.Clone(r.flow),
		Done: !r.end.IsZero(), Outcome: r.outcome,
	}
	if rec.Done {
		rec.Duration = r.end.Sub(r.start)
	}
	for _, c := range r.calls {
		rec.Calls = append(rec.Calls, c.rec)
	}
	return rec
}
