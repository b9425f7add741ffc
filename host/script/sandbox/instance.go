package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// instance is a run: a module instance and the host's state for the run. Only one goroutine uses an
// instance.
type instance struct {
	name    string
	limits  Limits
	account *Account // shared with other runs; nil: none, and memory costs nothing
	caller  Caller
	slot    *computeSlot // nil while the guest is warmed up, which needs no slot
	log     *slog.Logger
	script  abi.Request // the request to be served
	request []byte      // request or half of a request as JSON, for the guest
	repeats bool        // as in Run

	halves    bool      // the script is compiled and executed by two requests
	preparing bool      // the guest serves the first of them
	compiled  bool      // the script was compiled, maybe in an earlier instance
	keep      bool      // the state after compiling should be kept
	prepared  *prepared // the kept state after compiling, if any

	memory  memory     // nil before the start
	module  api.Module // as well
	vm      *vm        // memory and module, if started from a snapshot
	from    *snapshot  // the snapshot
	room    uint64     // the most linear memory, in bytes: limits.Memory and extra
	extra   uint64     // memory of the guest itself that limits.Memory does not cover
	intact  bool       // the guest has not run, or has returned
	serving bool       // the guest is initialised and serves the request

	charged    uint64 // bytes taken from the budget of all runs
	linear     uint64 // bytes of linear memory added to the account
	measuredAt uint64 // fuel used when the memory was last measured

	fuel      fuel
	answers   answers
	calls     int
	undoCalls int // calls registered for undo, including committed ones
	undoBytes int // size of the uncommitted ones
	logged    int // bytes charged against Limits.Logs
	logFull   bool

	logFullAdvice string // as in Run

	responded bool
	result    []byte
	scriptErr *abi.Error

	limit *LimitError // the first limit reached after which the guest could continue
	fault error       // why the host ended the instance, if so

	wasi wasiState
}

func newInstance(r Run, log *slog.Logger) *instance {
	limits := r.Limits.WithDefaults()
	r.Request.Memory = limits.Memory
	return &instance{
		name: r.Request.Name, limits: limits, room: limits.Memory, account: r.Account, caller: r.Caller, log: log,
		script: r.Request, repeats: r.Repeats, logFullAdvice: r.LogFullAdvice,
	}
}

func encodeRequest(req abi.Request) ([]byte, error) {
	request, err := encode(req)
	if err != nil {
		return nil, fmt.Errorf("sandbox: request for %q: %w", req.Name, err)
	}
	if len(request) > abi.MaxMessage {
		return nil, requestTooLarge(req.Name, len(request))
	}
	return request, nil
}

func requestTooLarge(name string, size int) error {
	return fmt.Errorf("sandbox: request for %q: %d bytes, more than %d", name, size, abi.MaxMessage)
}

// run starts the instance, lets the instance serve the request, and determines how the run ended.
func (i *instance) run(ctx context.Context, s *snapshot) (out Outcome, err error) {
	defer i.close()
	i.makeRoom(s.image.Size())
	if err := i.splitRequest(s.prepared != nil); err != nil {
		return out, err
	}
	begin := time.Now()
	err = i.start(ctx, s)
	started := time.Now()
	out.Instantiate = started.Sub(begin)
	if err == nil {
		err = i.serve(ctx)
		out.Duration = time.Since(started)
	}
	out.Calls, out.Fuel = i.calls, i.fuel.used()
	i.fuel.settle()
	if i.memory != nil {
		out.Memory = i.memory.Peak() - i.extra
	}
	err = i.classify(ctx, err)
	var limit *LimitError
	switch {
	case errors.As(err, &limit):
		out.Err = i.scriptErr
	case err != nil:
	case !i.responded:
		err = i.trap("it returned without a response")
	default:
		out.Result, out.Err = i.result, i.scriptErr
	}
	return out, err
}

// start makes a module instance in the state of the snapshot, or in the state after compiling the
// script.
func (i *instance) start(ctx context.Context, s *snapshot) error {
	if s.image.Size() > i.room {
		i.fault = i.memoryLimit()
		return i.fault
	}
	if i.halves {
		i.prepared, i.keep = s.prepared.get(keyOf(i.script), i.repeats)
	}
	base := s.image.Base()
	if i.prepared != nil {
		base += uint64(i.prepared.changes.bytes())
	}
	if err := i.reserve(base); err != nil {
		return err
	}
	v := s.pool.take(i.room, i.prepared)
	if v == nil {
		i.memory = s.image.Open(i.room)
		var err error
		if v, err = s.newVM(context.WithValue(ctx, instanceKey{}, i), i.memory); err != nil {
			return err
		}
		if i.prepared != nil && !v.restore(s, i.prepared) {
			i.module = v.module
			i.fault = &hostError{abi.ExportRun, "the memory of a new instance cannot be prepared"}
			return i.fault
		}
	}
	i.vm, i.memory, i.module = v, v.memory, v.module
	i.memory.OnGrow(i.grow)
	i.linear = s.image.Size() - i.extra
	i.account.addMemory(int64(i.linear))
	i.from, i.serving, i.intact = s, true, true
	i.wasi = s.wasi
	i.fuel.start(v.fuel, int64(i.limits.Fuel), i.account)
	if i.prepared != nil {
		i.compiled = true
		i.wasi = i.prepared.wasi
		i.fuel.charge(int(i.prepared.fuel))
	}
	return nil
}

// call calls an export of the guest; exports have no parameters and at most one result.
func (i *instance) call(ctx context.Context, export string) (uint64, error) {
	var stack [1]uint64
	function := (api.Function)(nil)
	if i.vm != nil && export == abi.ExportRun {
		function = i.vm.run
	} else {
		function = i.module.ExportedFunction(export)
	}
	i.intact = false
	i.watch()
	defer i.unwatch()
	err := function.CallWithStack(context.WithValue(ctx, instanceKey{}, i), stack[:])
	i.intact = err == nil
	return stack[0], err
}

// watch and unwatch enclose all work of the guest; see restorable.
func (i *instance) watch() {
	if m, ok := i.memory.(restorable); ok {
		m.Watch()
	}
}

func (i *instance) unwatch() {
	if m, ok := i.memory.(restorable); ok {
		m.Unwatch()
	}
}

// close frees an instance in any state, or keeps the vm for a later run.
func (i *instance) close() {
	if i.vm != nil && i.intact {
		i.settleMemory()
		i.from.pool.give(i.vm, i.prepared)
		i.vm, i.module, i.memory = nil, nil, nil
		return
	}
	if i.module != nil {
		if err := i.module.Close(context.Background()); err != nil {
			i.log.Warn("sandbox: closing an instance", "tool", i.name, "error", err)
		}
	}
	if i.memory != nil {
		i.memory.Release()
	}
	i.settleMemory()
}

// classify returns why a call into the guest ended; callErr is wazero's error. The order is the
// order of Sandbox.Run; nil means that the guest returned.
func (i *instance) classify(ctx context.Context, callErr error) error {
	var own *hostError
	switch {
	case ctx.Err() != nil:
		return stopped(ctx, i.name)
	case errors.As(i.fault, &own):
		return i.fault
	case isLimit(i.fault):
		return i.fault
	case callErr != nil && i.isOutOfMemory():
		return i.memoryLimit()
	case callErr != nil && i.isRecursion(callErr):
		return i.recursionLimit()
	case i.limit != nil:
		return i.limit
	case i.fault != nil:
		return i.fault
	case callErr != nil:
		return i.trap(innermost(callErr).Error())
	}
	return nil
}

func isLimit(err error) bool {
	var limit *LimitError
	return errors.As(err, &limit)
}

// isOutOfMemory reports whether the guest ended for lack of memory: either the memory could not
// grow, or the guest's runtime found the memory too small.
func (i *instance) isOutOfMemory() bool {
	return i.memory != nil && i.memory.Refused() || i.wasi.fatal() == "out of memory"
}

// isRecursion reports whether the guest ran out of call stack: the guest's own, which the Go
// runtime reports before a trap, or the native one.
func (i *instance) isRecursion(callErr error) bool {
	// wazero returns a stack overflow unchanged and wraps every other error with a stack trace. The
	// error value is internal to wazero.
	if errors.Unwrap(callErr) == nil && callErr.Error() == "stack overflow" {
		return true
	}
	return i.wasi.fatal() == "stack overflow"
}

func (i *instance) trap(reason string) *TrapError {
	return &TrapError{Reason: reason, Stderr: i.wasi.firstLine()}
}

func (i *instance) memoryLimit() *LimitError {
	return &LimitError{
		Limit: LimitMemory, Value: i.limits.Memory,
		Message: fmt.Sprintf("script %q: more than %s of memory needed", i.name, formatBytes(i.limits.Memory)),
	}
}

func (i *instance) fuelLimit() *LimitError {
	if i.fuel.shared {
		return &LimitError{
			Limit: LimitFuel, Value: uint64(i.account.allFuel),
			Message: fmt.Sprintf("script %q: with the scripts that call it, or that it calls, more than %d units of fuel needed", i.name, i.account.allFuel),
		}
	}
	return &LimitError{
		Limit: LimitFuel, Value: i.limits.Fuel,
		Message: fmt.Sprintf("script %q: more than %d units of fuel needed (does it loop without end?)", i.name, i.limits.Fuel),
	}
}

func (i *instance) recursionLimit() *LimitError {
	return &LimitError{Limit: LimitRecursion,
		Message: fmt.Sprintf("script %q: functions call each other too deep (use a loop)", i.name)}
}

// innermost returns the innermost error of a chain, without wazero's stack trace of the
// guest.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// A request to run a script is served in two halves, if the guest can: first the guest compiles the
// script (abi.OpPrepare), then the guest executes the program (abi.OpExecute). The state between
// them can be kept for later runs of the same script (snapshot.go).

// splitRequest decides how the request is served, and encodes the part that is needed in any case.
func (i *instance) splitRequest(halves bool) (err error) {
	req := i.script
	i.halves = halves && req.Op == abi.OpRun
	if i.halves {
		req.Op, req.Code, req.Servers, req.AgentTools = abi.OpExecute, "", nil, nil
		if len(i.script.Code) > abi.MaxMessage {
			return requestTooLarge(i.name, len(i.script.Code))
		}
	}
	i.request, err = encodeRequest(req)
	return err
}

// serve lets the guest serve the request. The instance has been started, from the state after the
// first half if that state was kept.
func (i *instance) serve(ctx context.Context) error {
	if i.halves && !i.compiled {
		if err := i.compile(ctx); err != nil || i.responded {
			return err
		}
	}
	_, err := i.call(ctx, abi.ExportRun)
	return err
}

// compile lets the guest compile the script. On failure, the guest has responded with the error.
//
// The guest only gets the servers that the code mentions, so that others cost nothing. An error may
// suggest any server, so after an error the guest gets all of them.
func (i *instance) compile(ctx context.Context) error {
	execute := i.request
	servers := mentioned(i.script.Code, i.script.Servers)
	ok, err := i.prepare(ctx, servers)
	if err == nil && !ok && len(servers) < len(i.script.Servers) {
		i.responded, i.scriptErr = false, nil
		ok, err = i.prepare(ctx, i.script.Servers)
	}
	if err != nil || !ok {
		return err
	}
	if i.keep {
		if i.prepared = i.capture(); i.prepared != nil {
			i.from.prepared.put(keyOf(i.script), i.prepared)
		}
	}
	i.request, i.responded, i.result = execute, false, nil
	return nil
}

// prepare makes an abi.OpPrepare and reports whether the guest succeeded.
func (i *instance) prepare(ctx context.Context, servers []string) (ok bool, err error) {
	s := i.script
	i.request, err = encodeRequest(abi.Request{
		Op: abi.OpPrepare, Name: s.Name, Code: s.Code, Servers: servers, AgentTools: s.AgentTools, Memory: s.Memory,
	})
	if err != nil {
		i.fault = &hostError{abi.FuncRequestRead, err.Error()}
		return false, i.fault
	}
	i.preparing = true
	_, err = i.call(ctx, abi.ExportRun)
	i.preparing = false
	if err == nil && !i.responded {
		i.fault = i.trap("it returned without a response")
		return false, i.fault
	}
	return err == nil && i.scriptErr == nil, err
}

const (
	// fuelSlice is the number of units in a slice: about a third of a millisecond of work, after
	// which the host checks the context. The host's garbage collector may have to wait for a guest
	// for as long.
	fuelSlice = 1 << 20
	// maxFuel keeps sums of fuel far from overflow.
	maxFuel = math.MaxInt64 / 4
)

// fuel is the remaining fuel of an instance. The guest counts down a global and calls the host
// below zero.
type fuel struct {
	counter api.MutableGlobal // the rest of the slice; nil before the start
	budget  int64
	left    int64    // of the budget, not yet in the counter
	account *Account // slices are also taken from account; nil: no account
	shared  bool     // the account ran out, not the budget
}

// fuelCounter returns the counter of an instance. compile has checked that the counter exists.
func fuelCounter(m api.Module) api.MutableGlobal {
	return m.ExportedGlobal(abi.ExportFuel).(api.MutableGlobal)
}

// start gives the first slice of a budget to an instance with counter.
func (f *fuel) start(counter api.MutableGlobal, budget int64, account *Account) {
	counter.Set(0)
	*f = fuel{counter: counter, budget: budget, left: budget, account: account}
	f.refill()
}

// refill adds the next slice, less the overdraft of the last slice, and reports whether the fuel
// was enough.
func (f *fuel) refill() bool {
	over := -int64(f.counter.Get()) // far from overflow: see charge
	if over > f.left {
		f.account.takeFuel(f.left)
		f.left = 0
		f.counter.Set(0)
		return false
	}
	slice := min(fuelSlice, f.left-over)
	taken := f.account.takeFuel(over + slice)
	if taken < over || taken == over && slice > 0 {
		f.left -= taken
		f.counter.Set(0)
		f.shared = true
		return false
	}
	f.left -= taken
	f.counter.Set(uint64(taken - over))
	return true
}

// settle returns the rest of the last slice to the account, or takes the overdraft from the
// account.
func (f *fuel) settle() {
	if f.counter == nil {
		return
	}
	if rest := int64(f.counter.Get()); rest > 0 {
		f.account.returnFuel(rest)
	} else {
		f.account.takeFuel(-rest)
	}
}

// charge takes units for work of the host for the guest. If the counter is overdrawn, the guest
// notices at the next check.
func (f *fuel) charge(units int) {
	if f.counter != nil {
		f.counter.Set(uint64(max(int64(f.counter.Get())-int64(units), -maxFuel)))
	}
}

// used returns the fuel used so far, at most the budget.
func (f *fuel) used() uint64 {
	if f.counter == nil {
		return 0
	}
	return uint64(min(f.budget, f.budget-f.left-int64(f.counter.Get())))
}

// fuelOut is called by the guest when the slice is used up.
func fuelOut(ctx context.Context, i *instance, _ []uint64) {
	if m, ok := i.memory.(restorable); ok {
		m.Forget() // a long run has a thread that others can use
	}
	// A guest in a tight loop holds a thread. Without Gosched, goroutines of other runs would wait
	// about 10 ms for Go's own preemption.
	runtime.Gosched()
	i.yieldSlot() // may wait until the context ends, so comes before the check of the context
	switch {
	case i.fuel.counter == nil:
		i.end(i.trap("it runs before it is started (it has a start function)"))
	case ctx.Err() != nil:
		i.end(stopped(ctx, i.name))
	case !i.fuel.refill():
		i.end(i.fuelLimit())
	}
}
