package journal

import (
	"errors"
	"sync"
	"time"
)

// runLog writes down one run. All of its methods do nothing on a nil one.
type runLog struct {
	log  *Log
	id   string
	opts LogOptions // those when the run began
	root bool       // no other run has called it

	mu      sync.Mutex // guards what follows; held while it is written
	line    line
	pending bool // line has entries of the script's log that are not written yet
	absent  bool // the beginning could not be written
	lost    bool // something could not be written
	over    bool
}

// maxPending is how many bytes of a script's log wait for the next event.
const maxPending = 8 << 10

// lines are buffers for lines, to be used again.
var lines = sync.Pool{New: func() any { return new([]byte) }}

// maxKept is the largest buffer that is kept for the next run, in bytes.
const maxKept = 256 << 10

func newRunLog(l *Log, r *Run, opts LogOptions) *runLog {
	return &runLog{
		log: l, id: r.id, opts: opts, root: r.begin.Parent == nil,
		line: line{b: (*lines.Get().(*[]byte))[:0], redactor: opts.Redactor},
	}
}

func (d *runLog) begin(r *Run) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.line.begin(d.id, r.start, &r.begin, gaps{})
	err := d.write(false)
	d.absent = err != nil && !d.written(err)
	return err
}

// written tells whether what a write has failed with came after the writing.
func (d *runLog) written(err error) bool {
	var failed *syncError
	return errors.As(err, &failed)
}

// syncError says that lines are written, but perhaps not on the disk.
type syncError struct{ error }

func (e *syncError) Unwrap() error { return e.error }

func (d *runLog) call(c *CallRecord) {
	d.event(func() { d.line.call(d.id, c) })
}

func (d *runLog) answer(c *CallRecord) {
	d.event(func() { d.line.answer(d.id, c) })
}

func (d *runLog) undo(u *UndoRecord) {
	d.event(func() { d.line.undo(d.id, u) })
}

func (d *runLog) event(encode func()) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.absent || d.over {
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
	if d.absent || d.over {
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
		d.line.shut(']')
		d.line.finish()
	}
}

// end writes the run's end, and gives the buffer back.
func (d *runLog) end(duration time.Duration, o *Outcome) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return
	}
	d.over = true
	if !d.absent {
		d.closeEntries()
		d.line.end(d.id, duration, o, d.lost)
		d.write(d.root)
	}
	b := d.line.b[:0]
	d.line.b = nil
	if cap(b) <= maxKept {
		lines.Put(&b)
	}
}

// write writes what is in the buffer. Last tells that the run is over.
func (d *runLog) write(last bool) error {
	end, err := d.log.write(d.line.b)
	if d.line.b = d.line.b[:0]; cap(d.line.b) > maxKept {
		d.line.b = nil
	}
	if err != nil {
		d.lost = true
		return err
	}
	if d.opts.Sync == SyncAlways || d.opts.Sync == SyncRun && last {
		if err := d.log.flush(end); err != nil {
			return &syncError{err}
		}
	}
	return nil
}
