package interp

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/starlark"
)

// Functions that run in parallel are coroutines. Each runs until it calls a tool.
// Once all of them wait, their calls are made as one batch; when all answers are
// there, they go on in the order in which the script gave them. So the calls
// overlap, and the script stays deterministic: what it does and in which order
// depends on the answers, never on when they came. The price is that each round
// takes as long as its slowest call.

const (
	// maxTogether is how many functions of one parallel can be started at the same
	// time. Each has a stack of its own.
	maxTogether = 128
	// maxParallelDepth is how deep parallel may be nested. Each level has MaxFrames
	// frames of its own.
	maxParallelDepth = 8
)

// parallelBuiltin is parallel(functions, errors="raise").
func parallelBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) > 1 { // parallel(f, g) is parallel([f, g])
		args = starlark.Tuple{args}
	}
	var given starlark.Iterable
	g := gathering{outer: thread, limit: maxTogether}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "functions", &given, "errors?", &g.errors); err != nil {
		return nil, err
	}
	for f := range starlark.Elements(given) {
		callable, ok := f.(starlark.Callable)
		if !ok {
			return nil, fmt.Errorf("%s: function %d is a %s: write %s([lambda: server.tool({...}), ...]), with lambda in front of each call",
				b.Name(), len(g.calls)+1, f.Type(), b.Name())
		}
		g.calls = append(g.calls, pending{fn: callable})
	}
	return g.run(b.Name())
}

// parallelMapBuiltin is parallel_map(function, items, limit=8, errors="raise").
func parallelMapBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn starlark.Callable
	var items starlark.Iterable
	g := gathering{outer: thread, limit: 8}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "function", &fn, "items", &items, "limit?", &g.limit, "errors?", &g.errors); err != nil {
		return nil, err
	}
	if g.limit < 1 {
		return nil, fmt.Errorf("%s: limit is %d, must be 1 at least", b.Name(), g.limit)
	}
	g.limit = min(g.limit, maxTogether)
	if err := takesOne(b.Name(), fn); err != nil {
		return nil, err
	}
	for item := range starlark.Elements(items) {
		g.calls = append(g.calls, pending{fn: fn, args: starlark.Tuple{item}})
	}
	return g.run(b.Name())
}

// takesOne refuses a function of the script that cannot be called with one argument.
// Otherwise each call would fail with an error that does not say why.
func takesOne(name string, fn starlark.Callable) error {
	f, ok := fn.(*starlark.Function)
	if !ok {
		return nil
	}
	positional := f.NumParams() - f.NumKwonlyParams()
	for _, rest := range []bool{f.HasVarargs(), f.HasKwargs()} {
		if rest {
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
		return fmt.Errorf("%s: the function is given one argument, an item, and takes none: write lambda item: f()", name)
	case len(needed) < 2:
		return nil
	}
	return fmt.Errorf("%s: the function is given one argument, an item, and wants %d (%s): if the items are pairs, write lambda item: ... with item[0] and item[1]",
		name, len(needed), strings.Join(needed, ", "))
}

// pending is a call that a task waits to make.
type pending struct {
	fn   starlark.Callable
	args starlark.Tuple
}

// gathering is one call of parallel or parallel_map in progress.
type gathering struct {
	outer  *starlark.Thread
	calls  []pending
	limit  int    // of started tasks at the same time
	errors string // "raise" or "collect"

	results []starlark.Value
	failed  error // that of the first function in order that failed
	failure int   // its index
	begun   int
	active  []*task // in order
}

const taskKey = "task"

// taskOf returns the task that a thread belongs to; nil for the script itself.
func taskOf(thread *starlark.Thread) *task {
	t, _ := thread.Local(taskKey).(*task)
	return t
}

func (g *gathering) run(name string) (starlark.Value, error) {
	if g.errors == "" {
		g.errors = "raise"
	}
	if g.errors != "raise" && g.errors != "collect" {
		return nil, fmt.Errorf("%s: errors is %q, must be \"raise\" (the first one) or \"collect\" (they stand in the list)", name, g.errors)
	}
	r := runOf(g.outer)
	if outer := taskOf(g.outer); outer != nil && outer.depth >= maxParallelDepth {
		fatal := &fatalError{limit: abi.LimitRecursion,
			message: fmt.Sprintf("%s within %s deeper than %d, a fixed limit", name, name, maxParallelDepth)}
		r.setFatal(fatal)
		return nil, fatal
	}
	g.results = make([]starlark.Value, len(g.calls))
	defer g.abandon()
	for {
		if err := g.begin(); err != nil {
			return nil, err
		}
		if len(g.active) == 0 {
			break
		}
		if err := g.round(r); err != nil {
			return nil, err
		}
	}
	if g.failed != nil {
		return nil, g.failed
	}
	return starlark.NewList(g.results), nil
}

// begin starts functions until the limit is reached. It starts no more once one has
// failed, unless errors are collected.
func (g *gathering) begin() error {
	for len(g.active) < g.limit && g.begun < len(g.calls) && g.failed == nil {
		t := newTask(g.outer, g.begun, g.calls[g.begun])
		g.begun++
		g.active = append(g.active, t)
		if err := g.goOn(t); err != nil {
			return err
		}
	}
	return nil
}

// round makes the calls for which all tasks wait, and resumes the tasks.
func (g *gathering) round(r *run) error {
	var batch []abi.ToolCall
	for _, t := range g.active {
		batch = append(batch, t.calls...)
	}
	answers, err := r.callTools(g.outer, batch)
	for _, t := range append([]*task(nil), g.active...) {
		if t.err = err; err == nil {
			t.answers, answers = answers[:len(t.calls)], answers[len(t.calls):]
		}
		if err := g.goOn(t); err != nil {
			return err
		}
	}
	return nil
}

// goOn resumes a task until it calls tools again or ends. An error ends the whole
// script.
func (g *gathering) goOn(t *task) error {
	var waits bool
	if t.calls, waits = t.next(); waits {
		return nil
	}
	for i, a := range g.active {
		if a == t {
			g.active = append(g.active[:i], g.active[i+1:]...)
			break
		}
	}
	switch {
	case t.failure == nil:
		g.results[t.index] = t.result
	case runOf(g.outer).uncatchable(t.failure):
		return &taskError{t.failure}
	case g.errors == "collect":
		g.results[t.index] = errorOf(t.failure)
	case g.failed == nil || t.index < g.failure:
		g.failed, g.failure = &taskError{t.failure}, t.index
	}
	return nil
}

// abandon ends the remaining tasks when the script cannot go on.
func (g *gathering) abandon() {
	for _, t := range g.active {
		t.stop()
	}
}

// A task is a function that runs beside others.
type task struct {
	index int
	depth int // of parallel in parallel, from 1
	next  func() ([]abi.ToolCall, bool)
	stop  func()
	wait  func([]abi.ToolCall) bool // within the task

	calls   []abi.ToolCall // that it waits to make
	answers []abi.Answer   // to the calls
	err     error          // why there are no answers

	result  starlark.Value
	failure error
}

func newTask(outer *starlark.Thread, index int, call pending) *task {
	t := &task{index: index, depth: 1}
	if above := taskOf(outer); above != nil {
		t.depth = above.depth + 1
	}
	r := runOf(outer)
	thread := r.newThread()
	thread.SetLocal(taskKey, t)
	thread.SetLocal(inHandKey, outer.Local(inHandKey))
	t.next, t.stop = iter.Pull(func(wait func([]abi.ToolCall) bool) {
		t.wait = wait
		t.result, t.failure = starlark.Call(thread, call.fn, call.args, nil)
	})
	return t
}

// errAbandoned is what a task gets instead of answers when the script has ended
// elsewhere.
var errAbandoned = errors.New("the script has ended")

func (t *task) callTools(calls []abi.ToolCall) ([]abi.Answer, error) {
	if !t.wait(calls) {
		return nil, errAbandoned
	}
	return t.answers, t.err
}

// taskError is the failure of a task, as an error in the script that waits for it.
type taskError struct{ error }

func (e *taskError) Unwrap() error { return e.error }

// framesOf returns the stack of an error: that of the script and then those of tasks.
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

// atCall returns the stack of an error, without the function if its parameters did
// not fit the arguments: that is a mistake of the call, and none of the function's
// code has run.
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
	for _, said := range []string{"missing ", "accepts ", "got an unexpected keyword argument ", "got multiple values for "} {
		if strings.HasPrefix(rest, said) {
			return stack[:len(stack)-1]
		}
	}
	return stack
}

// isErrorBuiltin is is_error(x): whether x is an Error or ToolError.
func isErrorBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	_, is := v.(*errorValue)
	return starlark.Bool(is), nil
}
