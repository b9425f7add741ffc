package durable

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/lease"
)

// Run is a run, with the runs of saved tools that it calls, that this process makes. It is safe
// for concurrent use. The methods of a nil Run do nothing.
type Run struct {
	runs   *Runs
	id     string
	secret []byte        // of the log, for keys; nil if the log has none
	used   time.Duration // before this process took it
	from   time.Time     // when it did
	lease  *lease.Lease

	account string       // whose room the log takes
	bytes   atomic.Int64 // of the log, as they are counted
	gone    atomic.Bool  // the log is no longer whole

	stopKeeping context.CancelFunc
	renewing    sync.Mutex // held while the lease is renewed, and when it is given back; taken first
	over        bool       // it is not renewed any more; guarded by renewing

	flushing sync.Mutex    // held while the log is flushed; taken before writing
	flushed  atomic.Uint64 // number of the last event that is on disk

	writing sync.Mutex // held while an event is appended, and for lines; taken before mu
	lines   journal.Lines
	events  []event // that are appended after lines
	at      store.Position

	left  context.Context // ends when another process goes on with the run
	leave context.CancelCauseFunc

	mu     sync.Mutex // a leaf
	held   held       // without what Used and flushed say
	ended  error      // why the run must end here; nil: it need not
	cancel context.CancelCauseFunc
	waited func() time.Duration // of people, see journal.Outcome.Waited
	limit  time.Duration        // how long the run may take
	// undoing are the runs in the tree that undo what they did.
	undoing map[string]bool
}

func (s *Runs) newRun(id string, l *lease.Lease, is held) *Run {
	r := &Run{runs: s, id: id, lease: l, used: is.Used, held: is, from: s.opts.Now(), limit: beginTime}
	r.account, r.undoing = is.Account, map[string]bool{}
	r.bytes.Store(max(is.Bytes, runRoom))
	r.left, r.leave = context.WithCancelCause(context.Background())
	ctx, stop := context.WithCancel(s.ctx)
	r.stopKeeping = stop
	s.mu.Lock()
	s.ours[id] = r
	closed := s.closed
	if !closed && !s.opts.Manual {
		s.keepers.Go(func() { r.keep(ctx) })
	}
	s.mu.Unlock()
	if closed {
		r.end(ErrSuspended)
	}
	return r
}

func (s *Runs) forget(r *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ours[r.id] == r {
		delete(s.ours, r.id)
	}
}

// ID returns the id of the run.
func (r *Run) ID() string { return r.id }

// OnEnd sets what ends the run when this process must leave it, or somebody has cancelled it.
// It is called with the cause at once if that has happened already. waited returns the time
// that people took to decide, which is not counted as used. limit is the time limit of the
// run, until which it waits for the Store.
func (r *Run) OnEnd(cancel context.CancelCauseFunc, waited func() time.Duration, limit time.Duration) {
	r.mu.Lock()
	r.cancel, r.waited, r.limit = cancel, waited, limit
	cause := r.ended
	r.mu.Unlock()
	if cause != nil {
		cancel(cause)
	}
}

// end ends the run in this process.
func (r *Run) end(cause error) {
	r.mu.Lock()
	if r.ended == nil || errors.Is(cause, ErrLost) {
		r.ended = cause
	}
	cancel := r.cancel
	r.mu.Unlock()
	if errors.Is(cause, ErrLost) || errors.Is(cause, ErrSuspended) {
		r.leave(cause)
	}
	if cancel != nil {
		cancel(cause)
	}
}

// Suspend leaves the run to other processes.
func (r *Run) Suspend() { r.end(ErrSuspended) }

// Left returns a context that ends, with ErrLost or ErrSuspended as its cause, when this
// process must leave the run to others.
func (r *Run) Left() context.Context { return r.left }

// lose leaves the run; why is nil if another process goes on with it.
func (r *Run) lose(why error) {
	err := fmt.Errorf("run %s: %w", r.id, ErrLost)
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	r.end(err)
}

// Used returns how long the run has taken, in this process and those before.
func (r *Run) Used() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	waited := time.Duration(0)
	if r.waited != nil {
		waited = r.waited()
	}
	return max(0, r.used+r.runs.opts.Now().Sub(r.from)-waited)
}

// Keep adds events to the log when something else is written. Only the order matters for them:
// they are needed to go on behind what follows.
func (r *Run) Keep(add func(*journal.Lines)) {
	if r == nil {
		return
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	add(&r.lines)
}

// Key returns the idempotency key of a call. It is the same whichever process makes the call,
// and however often. A server cannot find out from it how many calls came before.
func (r *Run) Key(run string, seq int) string {
	call := fmt.Appendf(nil, "mcp-metatool call 1\n%s\n%s\n%d\n", r.id, run, seq)
	var sum [sha256.Size]byte
	if r.secret == nil { // the keys of a run that a version before began must not change
		sum = sha256.Sum256(call)
	} else {
		mac := hmac.New(sha256.New, r.secret)
		mac.Write(call)
		mac.Sum(sum[:0])
	}
	return hex.EncodeToString(sum[:16])
}

// Intend writes that a call is about to be sent: of a server's tool with raw arguments, by the
// run with that id in the tree. When it returns nil, that is on disk.
func (r *Run) Intend(ctx context.Context, run string, seq int, server, tool string, arguments []byte) error {
	if r == nil {
		return nil
	}
	if err := r.admitted(run); err != nil {
		return err
	}
	digest := sha256.Sum256(arguments)
	err := r.commit(ctx, event{
		Kind: kindIntent, Run: run, Call: seq, Tool: server + "." + tool,
		Digest: hex.EncodeToString(digest[:]), Key: r.Key(run, seq),
	})
	if err != nil {
		return err
	}
	ctx, cancel := r.patience(ctx)
	defer cancel()
	return r.await(ctx) // the Store may have been away
}

// Answer writes the answer to a call.
func (r *Run) Answer(ctx context.Context, run string, c *journal.CallRecord) error {
	if r == nil {
		return nil
	}
	r.writing.Lock()
	r.lines.Answer(run, c)
	err := r.append(ctx)
	r.writing.Unlock()
	if isGone(err) {
		err = r.cut(ctx, err)
	}
	return err
}

// Undoing writes that a run in the tree has failed, and which compensations are to be made, in
// that order.
func (r *Run) Undoing(ctx context.Context, run string, u Undoing) error {
	if r == nil {
		return nil
	}
	r.undoes(run)
	return r.commit(ctx, event{Kind: kindUndoing, Run: run, Undoing: &u})
}

// Resumed writes that the journal has a new record of the run, with that id.
func (r *Run) Resumed(ctx context.Context, record string) error {
	r.mu.Lock()
	r.held.Record = record
	r.mu.Unlock()
	if err := r.commit(ctx, event{Kind: kindRecord, Run: r.id, Record: record}); err != nil {
		return err
	}
	ctx, cancel := r.patience(ctx)
	defer cancel()
	if err := r.renew(ctx); err != nil { // otherwise nobody finds the run by its record
		return fmt.Errorf("run %s: its lease cannot be renewed: %w", r.id, err)
	}
	return nil
}

// commit appends an event of our own behind what was kept. When it returns nil, it is on disk.
func (r *Run) commit(ctx context.Context, e event) error {
	r.writing.Lock()
	r.note(e)
	err := r.append(ctx)
	number := r.at.Number
	r.writing.Unlock()
	switch {
	case isGone(err):
		return r.cut(ctx, err)
	case err != nil:
		return err
	}
	return r.flush(ctx, number)
}

// flush returns when the event with that number is on disk. Calls that are made at the same time
// share a flush.
func (r *Run) flush(ctx context.Context, number uint64) error {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	if r.flushed.Load() >= number || r.gone.Load() {
		return nil
	}
	r.writing.Lock()
	upTo := r.at.Number
	r.writing.Unlock()
	if err := r.runs.opts.Store.Flush(context.WithoutCancel(ctx), r.id); err != nil {
		r.lose(err)
		return fmt.Errorf("run %s: its log cannot be written: %w", r.id, err)
	}
	r.flushed.Store(upTo)
	return nil
}

// note adds an event of our own. The caller holds r.writing, or is the only one that knows r.
func (r *Run) note(e event) { r.events = append(r.events, e) }

// append appends what was added. The error is ErrLost if another process goes on with the run, and
// says so to isGone if what the log had is not there. The caller holds r.writing.
func (r *Run) append(ctx context.Context) error {
	if err := r.lost(); err != nil {
		return err
	}
	r.note(event{Kind: kindUsed, Run: r.id, Used: r.Used()})
	data := r.lines.Take()
	for _, e := range r.events {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		data = append(append(data, text...), '\n')
	}
	r.events = r.events[:0]
	if r.gone.Load() {
		return nil
	}
	ctx, cancel := r.patience(ctx)
	defer cancel()
	at, err := r.insist(ctx, store.Entry{
		After: r.at, Fence: r.lease.Fence(), ID: store.NewID(), Data: r.runs.seal(r.id, r.at.Number+1, data),
	})
	if err != nil {
		if !isGone(err) {
			r.lose(err) // what the log has is not known, so another process must read it
		}
		return fmt.Errorf("run %s: its log cannot be written: %w", r.id, lostIfFenced(err))
	}
	r.at = at
	r.bytes.Add(int64(len(data)) + eventRoom)
	return nil
}

// insist appends an event. While the Store is away or full, or does not know whether it has the
// event, it is asked again.
func (r *Run) insist(ctx context.Context, e store.Entry) (store.Position, error) {
	for said := false; ; {
		at, err := r.runs.opts.Store.Append(ctx, r.id, e)
		again := errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrFull)
		if err == nil || !again {
			return at, err
		}
		if !said {
			r.runs.opts.Log.Warn("a durable run waits for the store", "run", r.id, "err", err)
			said = true
		}
		if !r.runs.opts.pause(ctx) {
			return store.Position{}, err
		}
	}
}

// How long a run waits for the Store in any case, before it has begun, and when this process
// ends.
const (
	leastTime = 2 * time.Second
	beginTime = 30 * time.Second
	lastTime  = 500 * time.Millisecond
)

// patience returns a context for writing the log, which a client that gives up must not end:
// it ends when the time of the run is over, or the run is left.
func (r *Run) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	r.mu.Lock()
	limit := r.limit
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(leastTime, limit-r.Used()))
	stop := context.AfterFunc(r.left, func() {
		if errors.Is(context.Cause(r.left), ErrLost) {
			cancel()
			return
		}
		timer := time.AfterFunc(lastTime, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() { stop(); cancel() }
}

// ignoreLost returns nil for an error that says that somebody else has a lease.
func ignoreLost(err error) error {
	if errors.Is(err, lease.ErrLost) {
		return nil
	}
	return err
}

// lostIfFenced adds ErrLost to errors that say that somebody else writes.
func lostIfFenced(err error) error {
	var fenced *store.FencedError
	var conflict *store.ConflictError
	if errors.As(err, &fenced) || errors.As(err, &conflict) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// Close removes the log and the lease of a run that has ended. Its record must be in the
// journal.
func (r *Run) Close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	s := r.runs
	s.forget(r)
	r.stopRenewing()
	r.writing.Lock()
	defer r.writing.Unlock()
	r.note(event{Kind: kindOver, Run: r.id})
	if err := r.append(ctx); err != nil && !isGone(err) { // it makes sure that the run is ours
		return err
	}
	// A lease without a log is that of a run whose log was removed by somebody else. So while
	// the lease is there, or is that of another process, the log stays: it says that the run is
	// over, and whoever takes it removes both.
	if err := errors.Join(s.removeCancel(ctx, r.id), r.lease.Remove(ctx)); err != nil {
		return err
	}
	return s.opts.Store.Drop(ctx, r.id)
}

// Leave gives a run back that has not ended.
func (r *Run) Leave(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.runs.forget(r)
	r.stopRenewing()
	return ignoreLost(r.lease.Release(ctx))
}
