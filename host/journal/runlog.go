package journal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
)

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
