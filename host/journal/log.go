package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// Sync says when what was written is made to survive the end of the machine; the
// end of the process it survives in any case.
type Sync string

// The ways.
const (
	SyncNever  Sync = "never"  // when the system does so
	SyncRun    Sync = "run"    // before the result of a run is given out
	SyncAlways Sync = "always" // after each event
)

// The values of LogOptions that are not set.
const (
	DefaultMaxSize  = 64 << 20 // bytes
	DefaultMaxTotal = 1 << 30  // bytes
	DefaultMaxAge   = 30 * 24 * time.Hour
)

// retryAfter is how long a Log that could not be written to is left alone.
const retryAfter = 10 * time.Second

// LogOptions of a Log. They can be changed with Configure.
type LogOptions struct {
	// Required refuses runs that cannot be recorded.
	Required bool
	Sync     Sync // "": SyncNever
	// MaxSize is how large a file grows before the next is begun, and MaxTotal
	// how large all together, in bytes; 0 is the default. Of what is beyond that,
	// or older than MaxAge, the oldest files are removed.
	MaxSize, MaxTotal int64
	MaxAge            time.Duration
	Redactor          Redactor // nil: nothing is redacted
	// Trouble, when set, is told once that the journal cannot be written to, with
	// a *WriteError, and once that it can again, with nil. It may be called by
	// any goroutine that records something, and must not record anything.
	Trouble func(err error)
	Log     *slog.Logger     // nil is slog.Default()
	Now     func() time.Time // nil is time.Now
}

// WriteError says that the journal cannot be written to.
type WriteError struct {
	Dir string
	Err error
}

func (e *WriteError) Error() string {
	return fmt.Sprintf("the journal in %s cannot be written to: %v (make room there, or give it another directory: journal.dir)", e.Dir, e.Err)
}

// Unwrap is why.
func (e *WriteError) Unwrap() error { return e.Err }

// ErrClosed is what cannot be recorded because the Log is closed.
var ErrClosed = errors.New("the journal is closed")

// errStalled says that Close did not wait any longer.
var errStalled = errors.New("some of it has not been written, since a client that was to be told of trouble does not read")

// Log is the journal on disk: it writes down runs while they take place. It is
// safe for concurrent use, and so is the directory: each process writes to files
// of its own. A nil *Log keeps records in memory only.
//
// Nothing is done on disk before there is something to record. Each event is one
// write of a whole line, made by the goroutine that brings it about: it is in
// the file when OpenCall, Close and so on return, save the entries of a script's
// log, which are written along with the next event, and what ProxiedAsync is given.
//
// What cannot be written is lost, and told once (LogOptions.Trouble); after some
// seconds it is tried again. A run that has lost some of its events is
// Incomplete; one that has lost its beginning is not in the journal at all.
type Log struct {
	dir string

	mu     sync.Mutex // guards what follows
	opts   LogOptions
	closed bool
	files  files
	broken *WriteError // the last write failed
	retry  time.Time   // before that nothing is written

	async asyncQueue

	syncing sync.Mutex // one syncs at a time; taken before mu
	synced  position
}

// OpenLog makes a Log of a directory, which need not exist yet. The caller must
// Close it.
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
}

// options are those in force.
func (l *Log) options() LogOptions {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opts
}

// Dir is where the journal is.
func (l *Log) Dir() string { return l.dir }

// Open begins the record of a run, in memory and on disk. The error is a
// *WriteError or ErrClosed, and only given where the journal is required.
func (l *Log) Open(b Begin) (*Run, error) {
	if l == nil {
		return Open(b), nil
	}
	opts := l.options()
	r := open(b, opts.Now)
	r.disk = newRunLog(l, r, opts)
	if err := r.disk.begin(r); err != nil && opts.Required {
		r.disk.end(0, &Outcome{Error: abi.ErrResource, Message: err.Error()})
		return nil, err
	}
	return r, nil
}

// Close ends the writing. What is recorded later is kept in memory only.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	var err error
	if !l.async.close() {
		err = errStalled
	}
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

// write appends whole lines to the journal.
func (l *Log) write(lines []byte) (position, error) {
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
	end, err := l.files.append(lines, now)
	told := l.judge(err, now)
	broken := l.broken
	l.mu.Unlock()
	told()
	if broken != nil {
		return end, broken
	}
	return end, nil
}

// judge takes how a write went, and returns what is to be told of it once l.mu is
// free. The caller holds l.mu.
func (l *Log) judge(err error, now time.Time) (tell func()) {
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

// flush waits until all up to end is on the disk. Those who come while another
// is at it are served together.
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
	if upTo.number != end.number { // its file was synced when it was left
		return nil
	}
	if err := file.Sync(); err != nil {
		l.mu.Lock()
		if l.files.position().number != upTo.number { // it was left meanwhile, and closed
			l.mu.Unlock()
			return nil
		}
		told := l.judge(err, now)
		failed := l.broken
		l.mu.Unlock()
		told()
		return failed
	}
	l.synced = upTo
	return nil
}
