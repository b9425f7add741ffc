package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Sync is the time of syncs of the journal to disk, which protect against a crash of the machine. A
// crash of the process never harms the journal.
type Sync string

// The values of Sync.
const (
	SyncNever  Sync = "never"  // when the operating system does so
	SyncRun    Sync = "run"    // before the result of a run is returned
	SyncAlways Sync = "always" // after each event
)

// The defaults of LogOptions.
const (
	DefaultMaxSize  = 64 << 20 // bytes
	DefaultMaxTotal = 1 << 30  // bytes
	DefaultMaxAge   = 30 * 24 * time.Hour
)

// retryAfter is the pause of a Log between a failed write and the next attempt.
const retryAfter = 10 * time.Second

// LogOptions are the options of a Log. They can be changed with Configure.
type LogOptions struct {
	// Required refuses runs that cannot be recorded.
	Required bool
	Sync     Sync // "": SyncNever
	// MaxSize is the size in bytes at which a new file is begun, MaxTotal the size of all files
	// together; 0 means the default. The oldest files are removed above MaxTotal, and all files
	// older than MaxAge.
	MaxSize, MaxTotal int64
	MaxAge            time.Duration
	Redactor          Redactor // nil: nothing is redacted
	// Signer signs the record of a run at the end of the run; nil: no signatures. Without
	// SignRequired, a run without a signature in time is recorded unsigned.
	Signer       seal.Signer
	SignRequired bool
	// Fleet, if set, also keeps the records in the store of a fleet.
	Fleet Fleet
	// Trouble, if set, is called with a *WriteError when writes to the journal begin to fail, and
	// with nil when they succeed again. Any recording goroutine may call Trouble. Trouble must not
	// record anything itself.
	Trouble func(err error)
	Log     *slog.Logger     // nil is slog.Default()
	Now     func() time.Time // nil is time.Now

	signTime   time.Duration // how long a signature may take; 0: signTime
	signEvery  time.Duration // how long something stays unsigned; 0: signEvery
	undigested bool          // events have no digests; for a comparison
}

// Fleet keeps the records of a Log in a store shared with other replicas (package shared).
type Fleet interface {
	Others
	// Ready returns why the store cannot keep records now, or nil.
	Ready() error
	// Ended reports an ended run in the journal.
	Ended()
	// Kept waits until everything before a place in the journal is kept. The error is the reason
	// why a part may be missing, or the cause of ctx if ctx ends first.
	Kept(ctx context.Context, end Place) error
}

// FleetError is the error of a record that cannot be kept in the store of the fleet, as required.
type FleetError struct{ Err error }

func (e *FleetError) Error() string {
	return fmt.Sprintf("its record cannot be kept in the store of the fleet, as [journal] required demands: %v", e.Err)
}

// Unwrap returns the cause.
func (e *FleetError) Unwrap() error { return e.Err }

// WriteError is the error of a failed write to the journal.
type WriteError struct {
	Dir string
	Err error
}

func (e *WriteError) Error() string {
	return fmt.Sprintf("the journal in %s cannot be written to: %v (make room there, or set journal.dir to another directory)", e.Dir, e.Err)
}

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// ErrClosed means that a closed Log cannot record.
var ErrClosed = errors.New("the journal is closed")

// errStalled means that Close gave up waiting for queued calls.
var errStalled = errors.New("some calls have not been written, because a client that must be told of a failure does not read")

// Log is the journal on disk. A Log writes runs while they take place. A Log is safe for concurrent
// use, and so is the directory: each process writes to its own files. A nil *Log keeps records in
// memory only.
//
// Log does nothing on disk before the first record. Each event is one write of a whole line, made
// by the goroutine that causes the event. The line is in the file when OpenCall, Close and so on
// return, with two exceptions: entries of a script's log are written with the next event, and
// ProxiedAsync writes later.
//
// An event with a failed write is lost. The loss is reported once (LogOptions.Trouble), and writing
// is tried again after some seconds. A run with lost events is Incomplete; a run with a lost
// beginning is not in the journal at all.
type Log struct {
	dir string

	mu     sync.Mutex // guards the fields up to marking
	opts   LogOptions
	closed bool
	files  files
	broken *WriteError // the error of the last write, or nil
	retry  time.Time   // no write is tried earlier

	cleared time.Time   // when old claims were last removed
	closing bool        // no more checkpoints are begun
	marking bool        // a checkpoint is being written
	later   *time.Timer // begins a due checkpoint after a pause in writing; nil: none is due

	marks sync.WaitGroup // checkpoints in progress

	async asyncQueue

	syncing sync.Mutex // held by the syncing goroutine; taken before mu
	synced  position
}

// OpenLog returns a Log for a directory, which need not exist yet. The caller must Close the Log.
func OpenLog(dir string, opts LogOptions) *Log {
	l := &Log{dir: dir, async: asyncQueue{wake: make(chan struct{}, 1)}}
	l.files.dir = dir
	l.Configure(opts)
	return l
}

// Configure changes the options.
func (l *Log) Configure(opts LogOptions) {
	if opts.Sync == "" {
		opts.Sync = SyncNever
	}
	if opts.MaxSize <= 0 {
		opts.MaxSize = DefaultMaxSize
	}
	if opts.MaxTotal <= 0 {
		opts.MaxTotal = DefaultMaxTotal
	}
	if opts.MaxAge <= 0 {
		opts.MaxAge = DefaultMaxAge
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opts = opts
	l.files.maxSize, l.files.maxTotal, l.files.maxAge = opts.MaxSize, opts.MaxTotal, opts.MaxAge
	l.files.durable, l.files.log = opts.Sync != SyncNever, opts.Log
	l.files.undigested = opts.undigested
}

// options returns the current options.
func (l *Log) options() LogOptions {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opts
}

// Dir returns the directory of the journal.
func (l *Log) Dir() string { return l.dir }

// Open begins the record of a run, in memory and on disk. Open fails only if the journal is
// required, with a *WriteError, a *FleetError or ErrClosed.
func (l *Log) Open(b Begin) (*Run, error) {
	if l == nil {
		return Open(b), nil
	}
	opts := l.options()
	if opts.Required && opts.Fleet != nil {
		if err := awaitFleet(opts.Fleet); err != nil {
			return nil, &FleetError{err}
		}
	}
	r := open(b, opts.Now)
	r.disk = newRunLog(l, r, opts)
	if err := r.disk.begin(r); err != nil && opts.Required {
		r.disk.end(0, &Outcome{Error: abi.ErrResource, Message: err.Error()})
		return nil, err
	}
	return r, nil
}

// How long a run waits for a required store of the fleet, and the interval of the checks.
const (
	maxFleetWait = 3 * time.Second
	fleetPoll    = 20 * time.Millisecond
)

// awaitFleet waits a little until the store of a fleet is usable. The error is the reason why not.
func awaitFleet(f Fleet) error {
	end, again := time.NewTimer(maxFleetWait), time.NewTicker(fleetPoll)
	defer end.Stop()
	defer again.Stop()
	for {
		err := f.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-end.C:
			return err
		}
	}
}

// Close ends writing to disk. Later records are kept in memory only.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	var err error
	if !l.async.close() {
		err = errStalled
	}
	l.checkpointLast()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.opts.Sync != SyncNever && l.broken == nil {
		err = errors.Join(err, l.files.sync())
	}
	if err = errors.Join(err, l.files.close()); err != nil {
		return fmt.Errorf("journal in %s: %w", l.dir, err)
	}
	return nil
}

// writeAt appends whole lines to the journal; ends and before are as for files.append.
func (l *Log) writeAt(lines []byte, ends []ending, before func(Place) error) (position, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return position{}, ErrClosed
	}
	now := l.opts.Now()
	if l.broken != nil && now.Before(l.retry) {
		defer l.mu.Unlock()
		return position{}, l.broken
	}
	end, err := l.files.append(lines, ends, now, before)
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		defer l.mu.Unlock()
		return position{}, refused.error
	}
	report := l.setWriteResult(err, now)
	broken := l.broken
	l.mu.Unlock()
	report()
	if broken != nil {
		return end, broken
	}
	l.checkpointSoon()
	return end, nil
}

// setWriteResult notes the result of a write. It returns a function that reports a change. The
// caller holds l.mu, and calls the function after releasing l.mu.
func (l *Log) setWriteResult(err error, now time.Time) (report func()) {
	was, opts := l.broken, l.opts
	switch {
	case err == nil && was == nil:
		return func() {}
	case err == nil:
		l.broken = nil
		return func() {
			opts.Log.Info("the journal can be written to again", "dir", l.dir)
			if opts.Trouble != nil {
				opts.Trouble(nil)
			}
		}
	}
	l.broken, l.retry = &WriteError{l.dir, err}, now.Add(retryAfter)
	if was != nil {
		return func() {}
	}
	failed := l.broken
	return func() {
		consequence := "runs go unrecorded until it can"
		if opts.Required {
			consequence = "runs are refused until it can"
		}
		opts.Log.Error("the journal cannot be written to: "+consequence, "dir", l.dir, "err", err)
		if opts.Trouble != nil {
			opts.Trouble(failed)
		}
	}
}

// flush waits until everything up to end is on disk. Callers during a sync share the next sync.
func (l *Log) flush(end position) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if !l.synced.before(end) {
		return nil
	}
	l.mu.Lock()
	if l.closed || l.broken != nil {
		defer l.mu.Unlock()
		if l.broken != nil {
			return l.broken
		}
		return ErrClosed
	}
	now, upTo, file := l.opts.Now(), l.files.position(), l.files.file
	l.mu.Unlock()
	if upTo.number != end.number { // the file was synced before it was closed
		return nil
	}
	if err := file.Sync(); err != nil {
		l.mu.Lock()
		if l.files.position().number != upTo.number { // the file was closed in the meantime
			l.mu.Unlock()
			return nil
		}
		report := l.setWriteResult(err, now)
		failed := l.broken
		l.mu.Unlock()
		report()
		return failed
	}
	l.synced = upTo
	return nil
}

// maxQueued is how many proxied calls can wait to be written.
const maxQueued = 256

// maxGather bounds the bytes gathered for one write.
const maxGather = 256 << 10

// asyncQueue holds unwritten proxied calls. A goroutine writes all waiting calls with one write.
type asyncQueue struct {
	wake chan struct{} // holds a token while the goroutine may have work

	mu      sync.Mutex // guards the fields below; a leaf
	waiting []queuedCall
	ended   chan struct{} // closed when the goroutine has ended; nil before the start
	closed  bool
}

// queuedCall is a proxied call and the function to call after the write.
type queuedCall struct {
	call Proxied
	then func()
}

// ProxiedAsync is [Log.Proxied] for callers that must not wait. Another goroutine calls then after
// the write of the call, or after a failed write; then must not block. ProxiedAsync does nothing
// and returns false if too many calls are waiting, or if the Log is closed or nil.
func (l *Log) ProxiedAsync(p Proxied, then func()) bool {
	if l == nil {
		return false
	}
	s := &l.async
	s.mu.Lock()
	if s.closed || len(s.waiting) >= maxQueued {
		s.mu.Unlock()
		return false
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
		go l.writeQueued(s.ended)
	}
	s.waiting = append(s.waiting, queuedCall{p, then})
	first := len(s.waiting) == 1
	s.mu.Unlock()
	if first {
		s.signal()
	}
	return true
}

func (s *asyncQueue) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // the goroutine is awake already
	}
}

// stallTime is how long Close waits for calls to be written.
const stallTime = 2 * time.Second

// close refuses further calls and waits until the queued calls are written. It returns false after
// stallTime, because a callback blocks.
func (s *asyncQueue) close() bool {
	s.mu.Lock()
	s.closed = true
	ended := s.ended
	s.mu.Unlock()
	if ended == nil {
		return true
	}
	s.signal()
	stalled := time.NewTimer(stallTime)
	defer stalled.Stop()
	select {
	case <-ended:
		return true
	case <-stalled.C:
		return false
	}
}

// take waits for calls and returns all queued calls; after close, take returns none when the queue
// is empty. take reuses the memory of the previous batch.
func (s *asyncQueue) take(previous []queuedCall) []queuedCall {
	clear(previous)
	for {
		s.mu.Lock()
		batch, closed := s.waiting, s.closed
		if len(batch) > 0 {
			s.waiting = previous[:0]
		}
		s.mu.Unlock()
		if len(batch) > 0 || closed {
			return batch
		}
		<-s.wake
		runtime.Gosched() // calls about to end join this batch
	}
}

func (l *Log) writeQueued(ended chan<- struct{}) {
	defer close(ended)
	var batch []queuedCall
	var buffer []byte
	for {
		if batch = l.async.take(batch); len(batch) == 0 {
			return
		}
		for done := 0; done < len(batch); {
			done, buffer = l.writeBatch(batch, done, buffer)
		}
	}
}

// writeBatch writes calls from all[first] on, as many as fit into one write, and returns the index
// after the last. buffer and reuse are reused memory.
func (l *Log) writeBatch(all []queuedCall, first int, buffer []byte) (done int, reuse []byte) {
	opts := l.options()
	line := line{b: buffer[:0], redactor: opts.Redactor}
	for done = first; done < len(all) && len(line.b) < maxGather; done++ {
		line.proxied(&all[done].call)
	}
	end, err := l.writeAt(line.b, line.ends, nil)
	if err == nil && opts.Sync == SyncAlways {
		l.flush(end) // which reports failures
	}
	for _, t := range all[first:done] {
		t.then()
	}
	if cap(line.b) > 2*maxGather {
		return done, nil
	}
	return done, line.b
}

// Place is where a line is in a journal.
type Place struct {
	File   string // name of the file
	Offset int64  // of the line, in bytes
}

// refusedError is the error with which a caller refused a write.
type refusedError struct{ error }

// AppendLine writes a line, an event that ends with a newline, for callers with an index of their
// events. before is called with the line's place before the write, and must not use the Log. If
// before returns an error, AppendLine returns the error and writes nothing. written is true if the
// line is in the file and merely could not be synced to disk.
func (l *Log) AppendLine(line []byte, before func(Place) error) (written bool, err error) {
	end, err := l.writeAt(line, nil, before)
	if err != nil {
		return false, err
	}
	if l.options().Sync == SyncAlways {
		err = l.flush(end)
	}
	return true, err
}

// ReadLine reads a line with the given size in bytes, including the newline, of the journal in a
// directory. The error is fs.ErrNotExist if the file was removed, and io.EOF or io.ErrUnexpectedEOF
// if the file is shorter.
func ReadLine(dir string, at Place, size int) ([]byte, error) {
	if _, ok := parseName(at.File); !ok {
		return nil, fmt.Errorf("%q is no file of a journal", at.File)
	}
	f, err := regular.Open(filepath.Join(dir, at.File))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case at.Offset < 0 || size < 0 || at.Offset+int64(size) > info.Size():
		return nil, io.ErrUnexpectedEOF
	}
	line := make([]byte, size)
	_, err = f.ReadAt(line, at.Offset)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return line, err
}

// Syncs reports whether lines are synced to disk one by one.
func (l *Log) Syncs() bool { return l.options().Sync == SyncAlways }
