package sandbox

import (
	"context"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"github.com/tetratelabs/wazero/api"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// vm is a module instance of a snapshot with the handles for a run. Finding the handles takes
// longer than a short script.
type vm struct {
	module api.Module
	memory memory
	state  []api.MutableGlobal // the globals of program.state
	fuel   api.MutableGlobal
	run    api.Function // with the native stack on which the guest runs
	// holds is the state of the unused vm; nil: the state of the snapshot.
	holds *prepared
}

// newVM makes a module instance with memory from the image, in the state of the
// snapshot.
func (s *snapshot) newVM(ctx context.Context, mem memory) (*vm, error) {
	m, err := s.program.instantiate(ctx, mem)
	if err != nil {
		return nil, err
	}
	v := &vm{
		module: m, memory: mem, run: m.ExportedFunction(abi.ExportRun), fuel: fuelCounter(m),
	}
	for _, name := range s.program.state {
		v.state = append(v.state, m.ExportedGlobal(name).(api.MutableGlobal))
	}
	v.setState(s.globals)
	return v, nil
}

func (v *vm) setState(globals []uint64) {
	for n, g := range v.state {
		g.Set(globals[n])
	}
}

// restore brings v to a state of the snapshot: p, or the start state if p is nil. After false, the
// state of v is unknown.
func (v *vm) restore(s *snapshot, p *prepared) bool {
	globals := s.globals
	var c changes
	if p != nil {
		globals, c = p.globals, p.changes
	}
	if m, ok := v.memory.(restorable); !ok || !m.Restore(c) {
		return false
	}
	v.setState(globals)
	v.holds = p
	return true
}

// close frees a vm that is not used again.
func (v *vm) close() error {
	err := v.module.Close(context.Background())
	v.memory.Release()
	return err
}

// restorable is memory whose content can be restored while a module instance keeps the memory.
type restorable interface {
	memory
	// Restore brings the content back to the image, with some changes. Restore returns false if the
	// memory has grown, because module instances cannot shrink memory.
	Restore(c changes) bool
	// Changes returns the difference between the content and the image. ok is false if the
	// difference is unknown or more than limit bytes, or if the memory has grown.
	Changes(limit int) (c changes, ok bool)
	// Fits reports whether Reopen would succeed.
	Fits(limit uint64) bool
	// Reopen prepares restored memory for another run, in which the memory may grow to limit bytes.
	// Reopen returns false if limit bytes have no room.
	Reopen(limit uint64) bool
	// Watch must be called before a guest runs, so that a later Restore or Changes does not miss
	// the guest's writes. Unwatch is called on the same goroutine when the guest has stopped, or
	// waits. Between the two the goroutine keeps its thread.
	Watch()
	Unwatch()
	// Forget ends watching while the guest goes on. Then restoring takes longer.
	Forget()
	// Quick reports whether Restore takes only some microseconds.
	Quick() bool
}

const (
	// idlePerCPU limits the instances and the mappings that are kept for later runs.
	idlePerCPU = 4
	// maxStack is the size, in bytes, of the largest kept native stack. A deep recursion makes a
	// stack grow to megabytes.
	maxStack = 256 << 10
)

// pool keeps module instances of a snapshot for later runs, in the start state or in the state
// after compiling the script of their last run: their memory and globals, which a run can change,
// are restored first (program.reusable). Only instances whose guest has returned are kept. After
// any other end an instance is closed, so that nothing depends on unfinished work.
//
// Another goroutine restores the state, so that the run need not wait, unless restoring takes only
// some microseconds.
type pool struct {
	snapshot *snapshot
	log      *slog.Logger
	// restoring limits the goroutines that restore: their memory no longer counts as the memory of
	// a run.
	restoring chan struct{}

	mu      sync.Mutex
	rest    sync.Cond // pending is 0
	pending int       // number of instances being restored by other goroutines
	idle    []*vm     // the most recently used last
	// taken counts the runs with an instance from the pool, made the runs with a new one.
	taken, made int
}

func newPool(s *snapshot, log *slog.Logger) *pool {
	p := &pool{snapshot: s, log: log, restoring: make(chan struct{}, runtime.GOMAXPROCS(0))}
	p.rest.L = &p.mu
	return p
}

// take returns an instance in the wanted state (nil: the start state) whose memory may grow to
// limit bytes; nil for none.
func (p *pool) take(limit uint64, wanted *prepared) *vm {
	v := p.choose(limit, wanted)
	if v == nil {
		return nil
	}
	if v.memory.(restorable).Reopen(limit) && (v.holds == wanted || v.restore(p.snapshot, wanted)) {
		return v
	}
	p.drop(v)
	return nil
}

// choose removes an instance from the kept ones: preferably in the wanted state, else in the start
// state, else the least recently used one.
func (p *pool) choose(limit uint64, wanted *prepared) *vm {
	p.mu.Lock()
	defer p.mu.Unlock()
	best, rank := -1, 0
	for n := len(p.idle) - 1; n >= 0 && rank < 3; n-- {
		v := p.idle[n]
		switch {
		case !v.memory.(restorable).Fits(limit):
		case v.holds == wanted:
			best, rank = n, 3
		case v.holds == nil && rank < 2:
			best, rank = n, 2
		case rank < 2:
			best, rank = n, 1
		}
	}
	if best < 0 {
		p.made++
		return nil
	}
	v := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	p.taken++
	return v
}

// give takes an instance whose guest has returned, or has not run, and keeps the instance in a
// state for a later run, or closes an instance that cannot be used again.
func (p *pool) give(v *vm, state *prepared) {
	m, ok := v.memory.(restorable)
	if !ok || !p.snapshot.program.reusable {
		p.drop(v)
		return
	}
	if m.Quick() {
		p.restore(v, state)
		return
	}
	select {
	case p.restoring <- struct{}{}:
		p.mu.Lock()
		p.pending++
		p.mu.Unlock()
		go func() {
			p.restore(v, state)
			<-p.restoring
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.pending--; p.pending == 0 {
				p.rest.Broadcast()
			}
		}()
	default:
		p.restore(v, state)
	}
}

// restore brings an instance to a state and keeps the instance. If too many are kept, restore
// closes the least recently used one, which may be too small for the current limits.
func (p *pool) restore(v *vm, state *prepared) {
	if !v.restore(p.snapshot, state) {
		p.drop(v)
		return
	}
	if size, ok := nativeStack(v.run); !ok || size > maxStack {
		v.run = v.module.ExportedFunction(abi.ExportRun)
	}
	var gone *vm
	p.mu.Lock()
	if p.idle = append(p.idle, v); len(p.idle) > idlePerCPU*runtime.GOMAXPROCS(0) {
		gone = p.idle[0]
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	p.mu.Unlock()
	if gone != nil {
		p.drop(gone)
	}
}

// drop closes an instance.
func (p *pool) drop(v *vm) {
	if err := v.close(); err != nil {
		p.log.Warn("sandbox: closing an instance", "error", err)
	}
}

// settle waits until all returned instances are restored.
func (p *pool) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.pending > 0 {
		p.rest.Wait()
	}
}

// close closes all instances. None may be in use.
func (p *pool) close() {
	p.settle()
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, v := range idle {
		p.drop(v)
	}
}

// nativeStack returns the size in bytes of the stack on which f runs, a private slice of wazero on
// the host's heap. The size is unknown for a version of wazero with another layout.
func nativeStack(f api.Function) (size int, ok bool) {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return 0, false
	}
	stack := v.Elem().FieldByName("stack")
	if stack.Kind() != reflect.Slice || stack.Type().Elem().Kind() != reflect.Uint8 {
		return 0, false
	}
	return stack.Len(), true
}
