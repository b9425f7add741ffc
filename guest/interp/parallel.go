package interp

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/starlark"
)

// Functions that run in parallel are coroutines. Each runs until a call of a tool. Once all of them
// wait, their calls are made as one batch. When all answers have arrived, the functions continue in
// the order in which the script passed them. So the calls overlap, and the script stays
// deterministic: actions and their order depend on the answers and not on the times of arrival. The
// price is that each round takes as long as the slowest call.

const (
	// maxConcurrent limits how many functions of a call of parallel run at the same time. Each has
	// a separate stack.
	maxConcurrent = 128
	// maxParallelDepth limits how deep calls of parallel may be nested. Each level has MaxFrames
	// separate frames.
	maxParallelDepth = 8
)

// parallelBuiltin implements parallel(functions, errors="raise").
func parallelBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) > 1 { // parallel(f, g) is parallel([f, g])
		args = starlark.Tuple{args}
	}
	var given starlark.Iterable
	p := parallelCall{outer: thread, limit: maxConcurrent}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "functions", &given, "errors?", &p.errors); err != nil {
		return nil, err
	}
	if isLazy(given) {
		list, err := listOf(given)
		if err != nil {
			return nil, err
		}
		given = list
	}
	for f := range starlark.Elements(given) {
		callable, ok := f.(starlark.Callable)
		if !ok {
			return nil, fmt.Errorf("%s: function %d is a %s: write %s([lambda: server.tool({...}), ...]), with lambda in front of each call",
				b.Name(), len(p.calls)+1, f.Type(), b.Name())
		}
		p.calls = append(p.calls, functionCall{fn: callable})
	}
	return p.run(b.Name())
}

// parallelMapBuiltin implements parallel_map(function, items, limit=8, errors="raise").
func parallelMapBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn starlark.Callable
	var items starlark.Iterable
	p := parallelCall{outer: thread, limit: 8}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "function", &fn, "items", &items, "limit?", &p.limit, "errors?", &p.errors); err != nil {
		return nil, err
	}
	if p.limit < 1 {
		return nil, fmt.Errorf("%s: limit is %d, must be at least 1", b.Name(), p.limit)
	}
	p.limit = min(p.limit, maxConcurrent)
	if err := checkTakesOne(b.Name(), fn); err != nil {
		return nil, err
	}
	err := each(items, func(item starlark.Value) error {
		p.calls = append(p.calls, functionCall{fn: fn, args: starlark.Tuple{item}})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p.run(b.Name())
}

// checkTakesOne returns an error for a function of the script not callable with a single argument.
// Otherwise each call would fail with an error without the reason.
func checkTakesOne(name string, fn starlark.Callable) error {
	f, ok := fn.(*starlark.Function)
	if !ok {
		return nil
	}
	positional := f.NumParams() - f.NumKwonlyParams()
	for _, collects := range []bool{f.HasVarargs(), f.HasKwargs()} {
		if collects {
			positional--
		}
	}
	var needed []string
	for i := range positional {
		param, _ := f.Param(i)
		if f.ParamDefault(i) == nil {
			needed = append(needed, param)
		}
	}
	switch {
	case positional == 0 && !f.HasVarargs():
		return fmt.Errorf("%s: the function gets one argument, an item, but takes none: write lambda item: f()", name)
	case len(needed) < 2:
		return nil
	}
	return fmt.Errorf("%s: the function gets one argument, an item, but needs %d (%s): if the items are pairs, write lambda item: ... with item[0] and item[1]",
		name, len(needed), strings.Join(needed, ", "))
}

// functionCall is a function with arguments.
type functionCall struct {
	fn   starlark.Callable
	args starlark.Tuple
}

// parallelCall is the state of a call of parallel or parallel_map.
type parallelCall struct {
	outer  *starlark.Thread
	calls  []functionCall
	limit  int    // of active tasks
	errors string // "raise" or "collect"

	results []starlark.Value
	// failed is the error of the failed function with the lowest index.
	failed      error
	failedIndex int
	started     int
	active      []*task // in order
}

const taskKey = "task"

// taskOf returns the task of a thread; nil for the script itself.
func taskOf(thread *starlark.Thread) *task {
	t, _ := thread.Local(taskKey).(*task)
	return t
}

func (p *parallelCall) run(name string) (starlark.Value, error) {
	if p.errors == "" {
		p.errors = "raise"
	}
	if p.errors != "raise" && p.errors != "collect" {
		return nil, fmt.Errorf("%s: errors is %q, must be \"raise\" (raise the first error) or \"collect\" (put errors into the list)", name, p.errors)
	}
	r := runOf(p.outer)
	if outer := taskOf(p.outer); outer != nil && outer.depth >= maxParallelDepth {
		fatal := &fatalError{limit: abi.LimitRecursion,
			message: fmt.Sprintf("%s within %s deeper than %d, a fixed limit", name, name, maxParallelDepth)}
		r.setFatal(fatal)
		return nil, fatal
	}
	p.results = make([]starlark.Value, len(p.calls))
	defer p.abandon()
	for {
		if err := p.start(); err != nil {
			return nil, err
		}
		if len(p.active) == 0 {
			break
		}
		if err := p.round(r); err != nil {
			return nil, err
		}
	}
	if p.failed != nil {
		return nil, p.failed
	}
	return starlark.NewList(p.results), nil
}

// start starts functions until the limit is reached. After a failure no further function starts,
// unless errors are collected.
func (p *parallelCall) start() error {
	for len(p.active) < p.limit && p.started < len(p.calls) && p.failed == nil {
		t := newTask(p.outer, p.started, p.calls[p.started])
		if p.errors == "collect" {
			runOf(p.outer).guard(t.thread) // for all of the task
		}
		p.started++
		p.active = append(p.active, t)
		if err := p.resume(t); err != nil {
			return err
		}
	}
	return nil
}

// round makes the calls for which all tasks wait, and resumes the tasks.
func (p *parallelCall) round(r *run) error {
	var batch []abi.ToolCall
	for _, t := range p.active {
		batch = append(batch, t.calls...)
	}
	answers, err := r.callTools(p.outer, batch)
	for _, t := range append([]*task(nil), p.active...) {
		if t.err = err; err == nil {
			t.answers, answers = answers[:len(t.calls)], answers[len(t.calls):]
		}
		if err := p.resume(t); err != nil {
			return err
		}
	}
	return nil
}

// resume resumes a task until the next call of tools or the end. An error ends the whole script.
func (p *parallelCall) resume(t *task) error {
	var waiting bool
	runOf(p.outer).resumedBy(t.thread, p.outer)
	outer := runOf(p.outer).enter(t.thread)
	t.calls, waiting = t.next()
	runOf(p.outer).enter(outer)
	if waiting {
		return nil
	}
	for i, a := range p.active {
		if a == t {
			p.active = append(p.active[:i], p.active[i+1:]...)
			break
		}
	}
	switch {
	case t.failure == nil:
		p.results[t.index] = t.result
	case runOf(p.outer).uncatchable(t.failure):
		return &taskError{t.failure}
	case p.errors == "collect":
		p.results[t.index] = errorOf(t.failure)
	case p.failed == nil || t.index < p.failedIndex:
		p.failed, p.failedIndex = &taskError{t.failure}, t.index
	}
	return nil
}

// abandon ends the remaining tasks when the script cannot go on.
func (p *parallelCall) abandon() {
	for _, t := range p.active {
		t.stop()
	}
}

// A task is a function running concurrently with other functions.
type task struct {
	index  int
	depth  int // of parallel in parallel, from 1
	thread *starlark.Thread
	next   func() ([]abi.ToolCall, bool)
	stop   func()
	wait   func([]abi.ToolCall) bool // within the task

	calls   []abi.ToolCall // whose answers the task waits for
	answers []abi.Answer   // to the calls
	err     error          // why no answers came

	result  starlark.Value
	failure error
}

func newTask(outer *starlark.Thread, index int, call functionCall) *task {
	t := &task{index: index, depth: 1}
	if above := taskOf(outer); above != nil {
		t.depth = above.depth + 1
	}
	r := runOf(outer)
	thread := r.newThread()
	t.thread = thread
	thread.SetLocal(taskKey, t)
	thread.SetLocal(handledErrorKey, outer.Local(handledErrorKey))
	t.next, t.stop = iter.Pull(func(wait func([]abi.ToolCall) bool) {
		t.wait = wait
		t.result, t.failure = starlark.Call(thread, call.fn, call.args, nil)
	})
	return t
}

// errAbandoned is returned to a task instead of answers when the script has ended
// elsewhere.
var errAbandoned = errors.New("the script has ended")

func (t *task) callTools(calls []abi.ToolCall) ([]abi.Answer, error) {
	r := runOf(t.thread)
	current := r.current // the task's thread, or the thread of a generator in the task
	goesOn := t.wait(calls)
	r.enter(current)
	if !goesOn {
		return nil, errAbandoned
	}
	return t.answers, t.err
}

// taskError is the error of a task, in the waiting script.
type taskError struct{ error }

func (e *taskError) Unwrap() error { return e.error }

// framesOf returns the stack of an error: the script's stack and then the stacks of tasks.
func framesOf(err error) (stack starlark.CallStack) {
	var eval *starlark.EvalError
	for errors.As(err, &eval) {
		stack = append(stack, atCall(eval)...)
		var inner *taskError
		if !errors.As(eval.Unwrap(), &inner) {
			break
		}
		err = inner.error
	}
	return stack
}

// atCall returns the stack of an error, without the function if its parameters did not fit the
// arguments: the mistake is in the call, and none of the function's code has run.
func atCall(eval *starlark.EvalError) starlark.CallStack {
	stack := eval.CallStack
	var own *raised
	if len(stack) == 0 || errors.As(eval, &own) {
		return stack
	}
	last := stack[len(stack)-1]
	rest, ok := strings.CutPrefix(eval.Msg, "function "+last.Name+" ")
	if !ok || isBuiltin(last) {
		return stack
	}
	for _, problem := range []string{"missing ", "accepts ", "got an unexpected keyword argument ", "got multiple values for "} {
		if strings.HasPrefix(rest, problem) {
			return stack[:len(stack)-1]
		}
	}
	return stack
}

// isErrorBuiltin implements is_error(x): whether x is an Error or ToolError.
func isErrorBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	mustLook(v)
	_, is := v.(*errorValue)
	return starlark.Bool(is), nil
}
