// Package sandbox runs composite tools: each run gets a WebAssembly instance
// of its own, with hard limits, that can reach nothing but its [Caller]. It is
// the only importer of wazero.
//
//	sandbox.go    Sandbox: compile in the background, run, close
//	run.go        what goes into a run and what comes out
//	compute.go    work of the host's own for a run
//	slots.go      which runs compute, and which wait for their turn
//	account.go    what a run and those that it calls use together
//	total.go      the memory of all runs
//	errors.go     how a run can fail, and in which order that is decided
//	program.go    a compiled guest that links with the host
//	snapshot.go   an instance of it that is initialised and warmed up, as data
//	warmup.go     what it is warmed up with
//	instance.go   one run: its state, start, end and classification
//	fuel.go       how much a run may compute, handed out in slices
//	functions.go  the host's side of package abi
//	answers.go    how the answers of tools are handed to the guest
//	wasi.go       the few WASI functions the Go runtime needs, without a world
//	memory.go     linear memory with a limit (memory_unix.go: outside
//	              the heap, memory_other.go: within)
//	image.go      memory that starts with a content (image_linux.go: copy on
//	              write, image_other.go: a copy)
//	check.go      JSON from the guest
//	cache.go      the folder of compiled guests (cache_*.go: who may own it)
//	guest.go      the embedded guest; guestbuild/ builds it, rewrite/ meters it
//
// Everything a guest hands over is taken to be hostile: its pointers and
// lengths are checked, its messages bounded and validated, its calls counted.
package sandbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
)

// Sandbox holds the compiled guest. Its methods are safe for concurrent use.
type Sandbox struct {
	log   *slog.Logger
	slots *slots
	total *budget.Budget // of memory; nil: it has no bound
	stop  context.CancelFunc
	ready chan struct{}
	// base and err are set before ready is closed. base is what every run
	// starts from.
	base *snapshot
	err  error
	// borrowed says that the guest is another Sandbox's, which closes it.
	borrowed bool

	mu     sync.Mutex
	closed bool
	runs   sync.WaitGroup // Add under mu while not closed
}

// New returns at once; the guest is compiled by a goroutine that Close waits
// for.
func New(opts Options) *Sandbox {
	ctx, stop := context.WithCancel(context.Background())
	s := &Sandbox{
		log: opts.Log, slots: newSlots(opts.MaxConcurrent, opts.MaxQueued), total: opts.Budget, stop: stop, ready: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	go func() {
		defer close(s.ready)
		s.base, s.err = load(ctx, opts, s.log)
	}()
	return s
}

// Share makes a Sandbox that runs the same guest, which need not be compiled
// again, with slots and a budget of its own. It waits for the guest. Both have to
// be closed, s later. Of opts, CacheDir and Guest do not count.
func (s *Sandbox) Share(opts Options) (*Sandbox, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	other := &Sandbox{
		log: opts.Log, slots: newSlots(opts.MaxConcurrent, opts.MaxQueued), total: opts.Budget, stop: func() {},
		ready: s.ready, base: s.base, borrowed: true,
	}
	if other.log == nil {
		other.log = s.log
	}
	return other, nil
}

// Budget is what the memory of all runs is taken from; nil: it has no bound.
func (s *Sandbox) Budget() *budget.Budget { return s.total }

// Ready is closed once the guest is compiled or has failed to compile.
func (s *Sandbox) Ready() <-chan struct{} { return s.ready }

// Err waits for Ready and says why there is no usable guest, wrapping
// [ErrGuest]; nil when there is one.
func (s *Sandbox) Err() error {
	<-s.ready
	return s.err
}

// Run serves one request in an instance of its own, once the guest is compiled
// and it is its turn. It works on the caller's goroutine, and so do the calls to
// r.Caller. Runs compute in the order in which they were made, as many at a time
// as Options.MaxConcurrent says; one that waits for r.Caller lets others go on.
//
// The error is nil when the script ended by itself, be it with a result or
// with an error of its own (Outcome.Err). Otherwise it is, in this order: the
// context's (wrapping ctx.Err and context.Cause), an error of the host's own,
// a [*LimitError], or a [*TrapError]; or, when nothing was run, [ErrClosed], an
// error wrapping [ErrGuest], or a *LimitError of [LimitQueue]. The Outcome's
// figures are filled in any case.
func (s *Sandbox) Run(ctx context.Context, r Run) (Outcome, error) {
	if err := s.enter(); err != nil {
		return Outcome{}, err
	}
	defer s.runs.Done()

	if err := s.slots.admit(r.Request.Name); err != nil {
		return Outcome{}, err
	}
	defer s.slots.leave()

	var figures Outcome
	start := time.Now()
	select {
	case <-s.ready:
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
	i, err := newInstance(r, s.log)
	if err != nil {
		return figures, err
	}
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
	return nil
}

// Close makes further runs fail with [ErrClosed], waits for those under way
// (their contexts end them, not Close) and for the compile, which it stops, and
// frees the guest. Closing again does nothing but wait.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()

	s.stop()
	<-s.ready
	s.runs.Wait()
	if !first || s.base == nil || s.borrowed {
		return nil
	}
	if err := s.base.close(); err != nil {
		return fmt.Errorf("sandbox: closing the guest: %w", err)
	}
	return nil
}
