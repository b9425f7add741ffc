package interp

import (
	"errors"
	"fmt"
	"iter"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// errStop ends an iteration without an error.
var errStop = errors.New("no more elements are wanted")

// A generator runs a function with yield, as far as elements are asked for. A generator is a
// coroutine on a separate thread; for a consumer of all elements, the function runs on the
// consumer's stack instead, which is cheaper.
type generator struct {
	run    *run
	fn     starlark.Value
	args   starlark.Tuple
	kind   string
	thread *starlark.Thread // nil before the start
	emit   func(starlark.Value) bool
	next   func() (starlark.Value, bool)
	stop   func()
	sent   starlark.Value
	result starlark.Value // the result of the function
	done   bool
	err    error
}

var (
	_ starlark.HasBinary = (*generator)(nil)
	_ starlark.Iterable  = (*generator)(nil)
	_ starlark.HasAttrs  = (*generator)(nil)
)

func (g *generator) String() string        { return fmt.Sprintf("<%s object>", g.kind) }
func (g *generator) Type() string          { return g.kind }
func (*generator) Freeze()                 {}
func (*generator) Truth() starlark.Bool    { return true }
func (g *generator) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable type: %s", g.kind) }

// generateBuiltin implements ·generate(function, arguments...) and ·genexpr(function, iterable).
func generateBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	if b.Name() == parse.GenExpr {
		if _, ok := args[1].(starlark.Iterable); !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "%s value is not iterable", args[1].Type())
		}
	}
	return &generator{run: runOf(thread), kind: "generator", fn: args[0], args: args[1:]}, nil
}

// Binary is g | x, which yields x, and g & xs, which yields all of xs: the function has the
// generator as a parameter.
func (g *generator) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	if g.run.current != g.thread || side != starlark.Left {
		if op == syntax.IN && side == starlark.Right {
			found, err := containsValue(g, y)
			return starlark.Bool(found), err
		}
		return nil, nil
	}
	switch op {
	case syntax.PIPE:
		if !g.emit(y) {
			return nil, errStop
		}
		sent := g.sent
		g.sent = starlark.None
		return sent, nil
	case syntax.AMP:
		return g.delegate(y)
	}
	return nil, nil
}

// delegate is yield from. The value is the result of the generator.
func (g *generator) delegate(xs starlark.Value) (starlark.Value, error) {
	err := each(xs, func(x starlark.Value) error {
		if !g.emit(x) {
			return errStop
		}
		return nil
	})
	if inner, ok := xs.(*generator); ok && err == nil && inner.result != nil {
		return inner.result, nil
	}
	return starlark.None, err
}

// start makes the thread of the function.
func (g *generator) start() {
	outer := g.run.current
	g.thread = g.run.newThread()
	g.thread.SetLocal(baseKey, frames(outer)+1)
	for _, key := range []string{taskKey, handledErrorKey} {
		if v := outer.Local(key); v != nil {
			g.thread.SetLocal(key, v)
		}
	}
	g.sent = starlark.None
}

// body runs the function to the end.
func (g *generator) body() {
	args := append(starlark.Tuple{g}, g.args...)
	result, err := starlark.Call(g.thread, g.fn, args, nil)
	g.done = true
	if err != nil && !errors.Is(err, errStop) {
		g.err = &taskError{err}
		return
	}
	g.result = result
}

// take returns the next element, nil after the last element.
func (g *generator) take() (starlark.Value, error) {
	if g.done {
		return nil, nil
	}
	if g.thread != nil && g.run.current == g.thread || g.thread != nil && g.next == nil {
		return nil, stdlib.Errorf(stdlib.ValueError, "generator already executing")
	}
	if g.thread == nil {
		if err := g.run.enterGenerator(g); err != nil {
			return nil, err
		}
		g.start()
		g.next, g.stop = iter.Pull(func(yield func(starlark.Value) bool) {
			g.emit = yield
			g.body()
		})
	}
	g.run.resumedBy(g.thread, g.run.current)
	outer := g.run.enter(g.thread)
	v, ok := g.next()
	g.run.enter(outer)
	if ok {
		return v, nil
	}
	err := g.err
	g.err = nil
	return nil, err
}

// push runs a fresh generator to the end on the consumer's stack.
func (g *generator) push(f func(starlark.Value) error) error {
	if err := g.run.enterGenerator(g); err != nil {
		return err
	}
	g.start()
	g.run.resumedBy(g.thread, g.run.current)
	var failure error
	outer := g.run.enter(g.thread)
	g.emit = func(v starlark.Value) bool {
		inner := g.run.enter(outer)
		failure = f(v)
		g.run.enter(inner)
		return failure == nil
	}
	g.body()
	g.run.enter(outer)
	if failure != nil {
		return failure
	}
	err := g.err
	g.err = nil
	return err
}

// enter makes a thread the running thread, and returns the previous one.
func (r *run) enter(thread *starlark.Thread) (before *starlark.Thread) {
	before, r.current = r.current, thread
	return before
}

// enterGenerator keeps a generator until the end of the run, which stops the generator.
func (r *run) enterGenerator(g *generator) error {
	if frames(r.current) > MaxFrames {
		r.stop(r.current, abi.LimitRecursion, deepMessage)
		return r.fatal
	}
	r.generators = append(r.generators, g)
	return nil
}

// stopGenerators ends the remaining coroutines.
func (r *run) stopGenerators() {
	for _, g := range r.generators {
		if g.stop != nil {
			g.emit = func(starlark.Value) bool { return false }
			g.stop()
		}
	}
}

// baseKey is the key of the number of frames below the first frame of a thread.
const baseKey = "frames below"

// frames returns how deep calls are nested, on a thread and the threads waiting for it.
func frames(thread *starlark.Thread) int {
	base, _ := thread.Local(baseKey).(int)
	return base + thread.CallStackDepth()
}

// Iterate goes on where the last iteration has stopped.
func (g *generator) Iterate() starlark.Iterator { return &generatorIterator{g: g} }

type generatorIterator struct {
	g   *generator
	err error
}

func (i *generatorIterator) Next(p *starlark.Value) bool {
	v, err := i.g.take()
	if err != nil {
		i.err = err
	}
	if v == nil || err != nil {
		return false
	}
	*p = v
	return true
}

func (i *generatorIterator) Done() {}

func (i *generatorIterator) Err() error { return i.err }

// each calls f with the elements of a value until f returns an error. errStop is no error.
func each(xs starlark.Value, f func(starlark.Value) error) error {
	var err error
	if g, ok := xs.(*generator); ok && g.thread == nil && !g.done {
		err = g.push(f)
	} else {
		err = stdlib.Each(xs, f)
	}
	if err == errStop {
		return nil
	}
	return err
}

var generatorAttrs = []string{"close", "send"}

func (g *generator) AttrNames() []string { return generatorAttrs }

// Attr is g.close and g.send.
func (g *generator) Attr(name string) (starlark.Value, error) {
	switch name {
	case "close", "__next__", "send":
		return generatorMethods[name].BindReceiver(g), nil
	}
	return nil, nil
}

var generatorMethods = map[string]*starlark.Builtin{
	"close":    starlark.NewBuiltin("close", generatorClose),
	"__next__": starlark.NewBuiltin("__next__", generatorSend),
	"send":     starlark.NewBuiltin("send", generatorSend),
}

func generatorClose(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	g := b.Receiver().(*generator)
	if g.stop != nil && !g.done && g.run.current != g.thread {
		outer := g.run.enter(g.thread)
		g.stop()
		g.run.enter(outer)
	}
	g.done = true
	return starlark.None, nil
}

func generatorSend(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	g := b.Receiver().(*generator)
	var v starlark.Value = starlark.None
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 0, &v); err != nil {
		return nil, err
	}
	if g.thread == nil && v != starlark.None {
		return nil, stdlib.Errorf(stdlib.TypeError, "can't send a value to a generator that has not started")
	}
	if g.thread != nil {
		g.sent = v
	}
	return orStopIteration(g.take())
}

// orStopIteration turns the end of an iteration into a StopIteration.
func orStopIteration(v starlark.Value, err error) (starlark.Value, error) {
	if v == nil && err == nil {
		return nil, stdlib.Errorf(stdlib.StopIteration, "there are no more elements (next(it, None) gives None then)")
	}
	return v, err
}
