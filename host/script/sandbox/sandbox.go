// Package sandbox runs scripts. Each run gets a WebAssembly instance of its own, with hard limits,
// whose only way to the outside is its [Caller]. Only this package imports wazero. Start with
// [Sandbox]: New compiles the guest in the background, and Run serves a request in an instance that
// starts from a snapshot.
//
// Everything from a guest is treated as hostile: pointers and lengths are checked, messages are
// limited and validated, and calls are counted.
package sandbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

// Sandbox holds the compiled guest. Its methods are safe for concurrent use.
type Sandbox struct {
	log   *slog.Logger
	slots *slots
	total *budget.Budget // of memory; nil: no limit
	stop  context.CancelFunc
	begin func() // starts the goroutine that loads the guest, once
	ready chan struct{}
	// trimmed is closed after ready, when memory that only the start needs is freed.
	trimmed chan struct{}
	// base and err are set before ready is closed. Each run starts from base.
	base *snapshot
	err  error
	// borrowed reports that the guest belongs to another Sandbox, which closes it.
	borrowed bool

	mu     sync.Mutex
	closed bool
	runs   sync.WaitGroup // Add under mu while not closed
	active int            // number of runs
}

// New makes a Sandbox and returns at once. A goroutine compiles the guest; Close waits
// for it.
func New(opts Options) *Sandbox {
	s := NewIdle(opts)
	s.begin()
	return s
}

// NewIdle is New for a process that may run no script: the goroutine is started by the first
// call of Run or of a method that says whether the guest is ready.
func NewIdle(opts Options) *Sandbox {
	ctx, stop := context.WithCancel(context.Background())
	s := &Sandbox{
		log: opts.Log, slots: newSlots(opts.MaxConcurrent, opts.MaxQueued), total: opts.Budget, stop: stop,
		ready: make(chan struct{}), trimmed: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.begin = sync.OnceFunc(func() { go s.load(ctx, opts) })
	return s
}

// NewClosed makes a Sandbox for a process that runs no script. No guest is loaded, and runs
// fail with [ErrClosed]. Of opts, only Budget and Log are used.
func NewClosed(opts Options) *Sandbox {
	over := make(chan struct{})
	close(over)
	return &Sandbox{
		log: opts.Log, slots: newSlots(opts.MaxConcurrent, opts.MaxQueued), total: opts.Budget, stop: func() {}, begin: func() {},
		ready: over, trimmed: over, err: ErrClosed, closed: true,
	}
}

// loading has a token while a guest is loaded: one at a time in the process, so that the
// native code that was not there before belongs to it (see mapCode), and is not freed by
// another Sandbox.
var loading = make(chan struct{}, 1)

// load sets base and err.
func (s *Sandbox) load(ctx context.Context, opts Options) {
	defer close(s.trimmed)
	select {
	case loading <- struct{}{}:
		defer func() { <-loading }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		s.err = ErrClosed
		close(s.ready)
		return
	}
	before := codeRegions()
	s.base, s.err = load(ctx, opts, s.log)
	close(s.ready)
	if s.err == nil && opts.Guest == nil {
		s.base.trim(ctx, before, s.log)
	}
}

// Share makes a Sandbox that runs the same guest, without compiling it again, and has
// its own slots and budget. It waits for the guest. Both must be closed, s last.
// CacheDir and Guest of opts are ignored.
func (s *Sandbox) Share(opts Options) (*Sandbox, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	other := &Sandbox{
		log: opts.Log, slots: newSlots(opts.MaxConcurrent, opts.MaxQueued), total: opts.Budget, stop: func() {}, begin: func() {},
		ready: s.ready, trimmed: s.trimmed, base: s.base, borrowed: true,
	}
	if other.log == nil {
		other.log = s.log
	}
	return other, nil
}

// Budget returns the budget for the memory of all runs; nil is no limit.
func (s *Sandbox) Budget() *budget.Budget { return s.total }

// Ready returns a channel that is closed once the guest is compiled or has failed to compile.
func (s *Sandbox) Ready() <-chan struct{} {
	s.begin()
	return s.ready
}

// Err waits for Ready. If there is no usable guest, it returns an error that wraps
// [ErrGuest].
func (s *Sandbox) Err() error {
	<-s.Ready()
	return s.err
}

// Prepared returns how many bytes of memory the states take that are kept after scripts
// were compiled. They have a limit. It waits for Ready.
func (s *Sandbox) Prepared() int {
	if s.Err() != nil || s.base.prepared == nil {
		return 0
	}
	return s.base.prepared.size()
}

// Run serves one request in an instance of its own, once the guest is compiled and
// there is a slot. It runs on the caller's goroutine and calls r.Caller there. At most
// Options.MaxConcurrent runs compute at the same time, in the order in which they
// asked for a slot. A run that waits for r.Caller holds no slot.
//
// The error is nil when the script ended by itself, with a result or with an error of
// its own (Outcome.Err). Otherwise it is the first of these that applies: the error of
// the context (wrapping ctx.Err and context.Cause), an error of the host, a
// [*LimitError], or a [*TrapError]; or, if nothing was run, [ErrClosed], an error
// wrapping [ErrGuest], or a *LimitError of [LimitQueue]. The Outcome's figures are
// always set.
func (s *Sandbox) Run(ctx context.Context, r Run) (Outcome, error) {
	if err := s.enter(); err != nil {
		return Outcome{}, err
	}
	defer s.exit()

	if err := s.slots.admit(r.Request.Name); err != nil {
		return Outcome{}, err
	}
	defer s.slots.leave()

	var figures Outcome
	start := time.Now()
	select {
	case <-s.Ready():
		figures.CompileWait = time.Since(start)
	case <-ctx.Done():
		figures.CompileWait = time.Since(start)
		return figures, stopped(ctx, r.Request.Name)
	}
	if s.err != nil {
		return figures, s.err
	}
	if r.Account == nil {
		r.Account = NewAccount(r.Limits, nil)
	}
	ctx, end := r.Account.begin(ctx, s.total)
	defer end()
	slot := &computeSlot{slots: s.slots, ctx: ctx}
	defer slot.release()
	if !slot.acquire() {
		figures.Queued = slot.queued
		return figures, stopped(ctx, r.Request.Name)
	}
	i := newInstance(r, s.log)
	i.slot = slot
	out, err := i.run(ctx, s.base)
	out.CompileWait, out.Queued = figures.CompileWait, slot.queued
	return out, err
}

func (s *Sandbox) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.runs.Add(1)
	s.active++
	return nil
}

func (s *Sandbox) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	s.runs.Done()
}

// Active returns how many runs have begun and not ended, waiting ones included.
func (s *Sandbox) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// Close makes further runs fail with [ErrClosed], stops the compilation, waits for it
// and for active runs, and frees the guest. It does not end runs; their contexts do.
// Calling Close again only waits.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()

	s.stop()
	s.begin() // what has not begun ends at once
	<-s.trimmed
	s.runs.Wait()
	if !first || s.base == nil || s.borrowed {
		return nil
	}
	if err := s.base.close(); err != nil {
		return fmt.Errorf("sandbox: closing the guest: %w", err)
	}
	return nil
}
