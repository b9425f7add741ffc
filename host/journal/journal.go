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
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
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

// runLog writes the events of a run. The methods of a nil *runLog do nothing.
type runLog struct {
	log  *Log
	id   string
	opts LogOptions // the options when the run began
	root bool       // not called by another run

	guest string

	mu        sync.Mutex // guards the fields below; held during writes
	line      line
	upTo      digests // the chain of the run's events as far as they were written
	pending   bool    // line holds log entries not written yet
	beginLost bool    // the begin event could not be written
	lost      bool    // some event could not be written
	endLost   bool    // the last event could not be written
	ended     bool
	endsAt    Place // the end of the last line, after the write
	seal      *seal.Seal
	unsigned  error // the reason for a missing seal; nil with a seal, or if no seal is needed
}

// maxPending is how many bytes of a script's log wait for the next event.
const maxPending = 8 << 10

// lines is a pool of buffers for lines.
var lines = sync.Pool{New: func() any { return new([]byte) }}

// maxReused is the size in bytes of the largest reused buffer.
const maxReused = 256 << 10

func newRunLog(l *Log, r *Run, opts LogOptions) *runLog {
	d := &runLog{
		log: l, id: r.id, opts: opts, root: r.begin.Parent == nil, guest: r.begin.Guest,
		line: line{b: (*lines.Get().(*[]byte))[:0], redactor: opts.Redactor},
	}
	if !opts.undigested {
		d.line.chain = &digests{}
	}
	return d
}

func (d *runLog) begin(r *Run) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.line.begin(d.id, r.start, &r.begin, gaps{})
	err := d.write(false)
	d.beginLost = err != nil && !d.written(err)
	return err
}

// written reports whether the lines were written in spite of err.
func (d *runLog) written(err error) bool {
	var failed *syncError
	return errors.As(err, &failed)
}

// syncError is the error of written lines that could not be synced to disk.
type syncError struct{ error }

func (e *syncError) Unwrap() error { return e.error }

// calls writes the first events of calls, all small ones with a single write.
func (d *runLog) calls(list []CallRecord) {
	for len(list) > 0 {
		rest := list
		d.event(func() {
			for ; len(rest) > 0 && len(d.line.b) < maxGather; rest = rest[1:] {
				d.line.call(d.id, &rest[0])
			}
		})
		if len(rest) == len(list) {
			return // no further writes
		}
		list = rest
	}
}

func (d *runLog) answer(c *CallRecord) {
	d.event(func() { d.line.answer(d.id, c) })
}

func (d *runLog) undo(u *UndoRecord) {
	d.event(func() { d.line.undo(d.id, u) })
}

func (d *runLog) input(in *InputRecord) {
	d.event(func() { d.line.input(d.id, in) })
}

func (d *runLog) event(encode func()) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.beginLost || d.ended {
		return
	}
	d.closeEntries()
	encode()
	d.write(false)
}

// entry takes an entry of the script's log.
func (d *runLog) entry(e *Entry) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.beginLost || d.ended {
		return
	}
	if !d.pending {
		d.pending = true
		d.line.start(eventLog, d.id)
		d.line.open("entries", '[')
	}
	d.line.entry(e)
	if len(d.line.b) > maxPending {
		d.closeEntries()
		d.write(false)
	}
}

func (d *runLog) closeEntries() {
	if d.pending {
		d.pending = false
		d.line.close(']')
		d.line.finish()
	}
}

// end writes the last event of the run, and releases the buffer.
func (d *runLog) end(duration time.Duration, o *Outcome) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	d.ended = true
	if !d.beginLost {
		d.closeEntries()
		d.line.end(d.id, duration, o, d.lost)
		d.close(o)
		if err := d.write(d.root); err != nil && !d.written(err) {
			d.endLost = true
		}
		if d.root && d.opts.Fleet != nil {
			d.opts.Fleet.Ended()
		}
	}
	b := d.line.b[:0]
	d.line.b = nil
	if cap(b) <= maxReused {
		lines.Put(&b)
	}
}

// errIncomplete means that the journal lacks a part of a run.
var errIncomplete = errors.New("some of the run could not be written to the journal")

// sync waits until all of the run is on disk.
func (d *runLog) sync() error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	lost := d.lost || d.beginLost
	d.mu.Unlock()
	if lost {
		return errIncomplete
	}
	d.log.mu.Lock()
	end := d.log.files.position()
	d.log.mu.Unlock()
	return d.log.flush(end)
}

// kept waits until the run is in the store of the fleet.
func (d *runLog) kept(ctx context.Context) error {
	if d == nil || d.opts.Fleet == nil {
		return nil
	}
	d.mu.Lock()
	lost, end := d.lost || d.beginLost, d.endsAt
	d.mu.Unlock()
	if lost {
		return errIncomplete
	}
	if err := d.opts.Fleet.Ready(); err != nil && !d.opts.Required {
		return err
	}
	return d.opts.Fleet.Kept(ctx, end)
}

// write writes the buffer. last is set at the end of the run.
func (d *runLog) write(last bool) error {
	end, err := d.log.writeAt(d.line.b, d.line.ends, func(at Place) error {
		d.endsAt = at
		return nil
	})
	d.line.reset()
	if err != nil {
		d.lost = true
		if d.line.chain != nil { // unwritten lines are not in the chain
			*d.line.chain = d.upTo
		}
		return err
	}
	d.endsAt.Offset = end.size
	if d.line.chain != nil {
		d.upTo = *d.line.chain
	}
	if d.opts.Sync == SyncAlways || d.opts.Sync == SyncRun && last {
		if err := d.log.flush(end); err != nil {
			return &syncError{err}
		}
	}
	return nil
}

// signTime is how long the end of a run waits for the signature, perhaps made by an external
// program.
const signTime = 5 * time.Second

// UnsignedError is the error of a run without a required signature.
type UnsignedError struct{ Err error }

func (e *UnsignedError) Error() string {
	return "its record could not be signed, as sign = \"required\" in [journal] demands: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *UnsignedError) Unwrap() error { return e.Err }

var errNotOnDisk = errors.New("it is not in the journal")

// close signs a run with the last event in the buffer, if requested by a client. The caller holds
// d.mu.
func (d *runLog) close(o *Outcome) {
	c := d.line.chain
	if c == nil || !d.root {
		return
	}
	if d.opts.Signer != nil {
		ended := Record{Done: true, Outcome: *o}
		d.seal, d.unsigned = d.log.sign(&d.opts, cmp.Or(d.opts.signTime, signTime), seal.Statement{
			Run: d.id, Head: c.head, Events: c.events, Outcome: ended.OutcomeName(), Guest: d.guest,
		})
		if d.unsigned != nil {
			d.opts.Log.Error("a run is not signed", "run", d.id, "err", d.unsigned)
		} else {
			d.line.seal(d.seal)
		}
	}
	d.line.ended(c.head, d.seal)
}

// sign signs a run or call that ends now.
func (l *Log) sign(opts *LogOptions, limit time.Duration, s seal.Statement) (*seal.Seal, error) {
	// A run is signed even after the end of the request.
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, errors.New("the signature was not made within "+limit.String()))
	defer cancel()
	l.mu.Lock()
	s.After = l.files.chain
	l.mu.Unlock()
	if s.After.Number == 0 {
		s.After = seal.Link{}
	}
	s.Time = opts.Now()
	made, err := opts.Signer.Sign(ctx, s)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.After.Chain == l.files.chain.Chain && s.After.Number > l.files.signed {
		l.files.signed, l.files.marked = s.After.Number, s.Time
	}
	return made, nil
}

// sealed returns the digest of the last event of an ended run, and the seal, if written.
func (d *runLog) sealed() (head string, s *seal.Seal) {
	if d == nil {
		return "", nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.line.chain == nil || !d.ended || d.beginLost || d.endLost {
		return "", nil
	}
	return d.upTo.head.String(), d.seal
}

// Unsigned returns an [*UnsignedError] if the result of an ended run must be withheld, since the
// record is not signed.
func (r *Run) Unsigned() error {
	d := r.disk
	if d == nil || !d.opts.SignRequired || !d.root {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.unsigned != nil:
		return &UnsignedError{d.unsigned}
	case d.beginLost || d.endLost || d.seal == nil:
		return &UnsignedError{errNotOnDisk}
	}
	return nil
}
