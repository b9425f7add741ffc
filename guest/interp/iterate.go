package interp

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// asIterable returns an iterable for a function of the library: a value with fallible iteration
// becomes a list.
func asIterable(v starlark.Value) (starlark.Value, error) {
	if isLazy(v) {
		return listOf(v)
	}
	return v, nil
}

// listOf returns the elements of a value as a list.
func listOf(v starlark.Value) (*starlark.List, error) {
	var out []starlark.Value
	err := each(v, func(x starlark.Value) error {
		out = append(out, x)
		return nil
	})
	return starlark.NewList(out), err
}

// libraryOver calls the library's function of the same name, with lists in place of iterators.
func libraryOver(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	for i, a := range args {
		if !isLazy(a) {
			continue
		}
		list, err := listOf(a)
		if err != nil {
			return nil, err
		}
		args = slices.Clone(args)
		args[i] = list
	}
	return library(thread, b, args, kwargs)
}

// isLazy reports whether the elements of a value are only made when they are asked
// for.
func isLazy(v starlark.Value) bool {
	switch v := v.(type) {
	case *generator, *stdlib.Iterator, *iterable:
		return true
	case *class:
		return v.enum == nil // fails
	}
	return false
}

// truthBuiltin implements any(xs) or all(xs). It stops as soon as the result is known.
func truthBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) != 1 || !isLazy(args[0]) {
		return library(thread, b, args, kwargs)
	}
	found := b.Name() == "any"
	result := !found
	err := each(args[0], func(x starlark.Value) error {
		if bool(x.Truth()) == found {
			result = found
			return errStop
		}
		return nil
	})
	return starlark.Bool(result), err
}

// iterBuiltin implements iter(xs), or iter(f, end): the results of f(), until end.
func iterBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 2 && len(kwargs) == 0 {
		if _, ok := args[0].(starlark.Callable); !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "iter: got %s, want a function", args[0].Type())
		}
		done := false
		return stdlib.NewIterator("callable_iterator", func() (starlark.Value, error) {
			if done {
				return nil, nil
			}
			v, err := runOf(thread).callback(args[0], nil)
			if err != nil {
				return nil, err
			}
			if done, err = starlark.Equal(v, args[1]); done || err != nil {
				return nil, err
			}
			return v, nil
		}), nil
	}
	v, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	return iteratorOf(v)
}

func iteratorOf(v starlark.Value) (starlark.Value, error) {
	switch v := v.(type) {
	case *generator, *stdlib.Iterator:
		return v, nil
	case *starlark.List: // the list may change meanwhile
		i := 0
		return stdlib.NewIterator("list_iterator", func() (starlark.Value, error) {
			if i >= v.Len() {
				return nil, nil
			}
			i++
			return v.Index(i - 1), nil
		}), nil
	case *iterable:
		if fn := v.method("__iter__"); fn != nil {
			return v.call(fn)
		}
	case Object, *starlark.Set:
		list, err := listOf(v)
		if err != nil {
			return nil, err
		}
		return iteratorOf(list)
	}
	it, err := stdlib.Iterate(v)
	if err != nil {
		return nil, err
	}
	return stdlib.NewIterator("iterator", func() (starlark.Value, error) {
		var x starlark.Value
		if !it.Next(&x) {
			it.Done()
			return nil, stdlib.ErrOf(it)
		}
		return x, nil
	}), nil
}

// nextBuiltin implements next(it, default).
func nextBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var it, fallback starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &it, &fallback); err != nil {
		return nil, err
	}
	var v starlark.Value
	var err error
	switch it := it.(type) {
	case *generator:
		v, err = it.take()
	case *stdlib.Iterator:
		v, err = it.Take()
	case *instance, *iterable:
		v, err = instanceOf(it).nextIterator().Take()
	default:
		return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object is not an iterator (write next(iter(x)))", it.Type())
	}
	if v == nil && err == nil && fallback != nil {
		return fallback, nil
	}
	return orStopIteration(v, err)
}

// iterators returns the iterators of several values.
func iterators(values []starlark.Value) ([]starlark.Iterator, error) {
	var all []starlark.Iterator
	for _, v := range values {
		it, err := iteratorOf(v)
		if err != nil {
			return nil, err
		}
		i, err := stdlib.Iterate(it)
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	return all, nil
}

// mapBuiltin implements map(function, xs, ...).
func mapBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) < 2 || len(kwargs) > 0 {
		return nil, stdlib.Errorf(stdlib.TypeError, "map takes a function and one or more sequences")
	}
	its, err := iterators(args[1:])
	if err != nil {
		return nil, err
	}
	return stdlib.NewIterator("map", func() (starlark.Value, error) {
		row, err := nextRow(its)
		if row == nil || err != nil {
			return nil, err
		}
		return starlark.Call(runOf(thread).current, args[0], row, nil)
	}), nil
}

// nextRow returns the next elements of iterators; nil if any of them has ended.
func nextRow(its []starlark.Iterator) (starlark.Tuple, error) {
	row := make(starlark.Tuple, len(its))
	for i, it := range its {
		if !it.Next(&row[i]) {
			return nil, stdlib.ErrOf(it)
		}
	}
	return row, nil
}

// filterBuiltin implements filter(function, xs).
func filterBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn, xs starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &fn, &xs); err != nil {
		return nil, err
	}
	its, err := iterators([]starlark.Value{xs})
	if err != nil {
		return nil, err
	}
	return stdlib.NewIterator("filter", func() (starlark.Value, error) {
		for {
			row, err := nextRow(its)
			if row == nil || err != nil {
				return nil, err
			}
			keep := row[0]
			if fn != starlark.None {
				if keep, err = starlark.Call(runOf(thread).current, fn, row, nil); err != nil {
					return nil, err
				}
			}
			if keep.Truth() {
				return row[0], nil
			}
		}
	}), nil
}

// zipBuiltin implements zip(xs, ..., strict=False). For iterators the result is lazy.
func zipBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	strict := false
	if err := starlark.UnpackArgs(b.Name(), nil, kwargs, "strict?", &strict); err != nil {
		return nil, err
	}
	if !strict && !slices.ContainsFunc(args, isLazy) {
		return library(thread, b, args, nil)
	}
	its, err := iterators(args)
	if err != nil {
		return nil, err
	}
	lazy := stdlib.NewIterator("zip", func() (starlark.Value, error) {
		row := make(starlark.Tuple, len(its))
		for i, it := range its {
			if it.Next(&row[i]) {
				continue
			}
			if err := stdlib.ErrOf(it); err != nil || !strict {
				return nil, err
			}
			return nil, uneven(its, i)
		}
		if len(row) == 0 {
			return nil, nil
		}
		return row, nil
	})
	if strict {
		return listOf(lazy)
	}
	return lazy, nil
}

// uneven returns the error of a strict zip after the end of argument i, unless all arguments have
// ended.
func uneven(its []starlark.Iterator, i int) error {
	var x starlark.Value
	if i > 0 {
		return stdlib.Errorf(stdlib.ValueError, "zip() argument %d is shorter than argument 1", i+1)
	}
	for j, it := range its[1:] {
		if it.Next(&x) {
			return stdlib.Errorf(stdlib.ValueError, "zip() argument %d is longer than argument 1", j+2)
		}
	}
	return nil
}

// enumerateBuiltin implements enumerate(iterable, start=0). For an iterator the result is lazy.
func enumerateBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	lazy := len(args) > 0 && isLazy(args[0])
	if len(kwargs) == 0 && !lazy {
		return library(thread, b, args, nil)
	}
	var xs starlark.Iterable
	start := 0
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "iterable", &xs, "start?", &start); err != nil {
		return nil, err
	}
	if !lazy {
		return library(thread, b, starlark.Tuple{xs, starlark.MakeInt(start)}, nil)
	}
	its, err := iterators([]starlark.Value{xs})
	if err != nil {
		return nil, err
	}
	return stdlib.NewIterator("enumerate", func() (starlark.Value, error) {
		row, err := nextRow(its)
		if row == nil || err != nil {
			return nil, err
		}
		start++
		return starlark.Tuple{starlark.MakeInt(start - 1), row[0]}, nil
	}), nil
}

// sortedBuiltin implements sorted(xs, key=None, reverse=False).
func sortedBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	for i, kv := range kwargs {
		if kv[0] != starlark.String("reverse") {
			continue
		}
		if n, ok := kv[1].(starlark.Int); ok { // reverse=1
			kwargs = slices.Clone(kwargs)
			kwargs[i] = starlark.Tuple{kv[0], n.Truth()}
		}
	}
	if len(args) == 1 && hasInstances(args[0]) && !hasKey(kwargs) {
		return sortInstances(args[0], kwargs)
	}
	for i := range args {
		list, err := asIterable(args[i])
		if err != nil {
			return nil, err
		}
		args[i] = list
	}
	return starlark.Universe["sorted"].(*starlark.Builtin).CallInternal(thread, args, kwargs)
}

func hasKey(kwargs []starlark.Tuple) bool {
	return slices.ContainsFunc(kwargs, func(kv starlark.Tuple) bool {
		return kv[0] == starlark.String("key") && kv[1] != starlark.None
	})
}

func hasInstances(v starlark.Value) bool {
	xs, ok := v.(*starlark.List)
	return ok && xs.Len() > 0 && instanceOf(xs.Index(0)) != nil
}

// sortInstances sorts values of classes, with fallible comparison.
func sortInstances(v starlark.Value, kwargs []starlark.Tuple) (starlark.Value, error) {
	reverse := false
	var key starlark.Value
	if err := starlark.UnpackArgs("sorted", nil, kwargs, "reverse?", &reverse, "key?", &key); err != nil {
		return nil, err
	}
	elems := listElems(v.(*starlark.List))
	var failure error
	slices.SortStableFunc(elems, func(x, y starlark.Value) int {
		if failure != nil {
			return 0
		}
		if reverse {
			x, y = y, x
		}
		less, err := starlark.Compare(syntax.LT, x, y)
		if err == nil && less {
			return -1
		}
		if err == nil {
			less, err = starlark.Compare(syntax.LT, y, x)
		}
		if err != nil {
			failure = err
			return 0
		}
		if less {
			return 1
		}
		return 0
	})
	if failure != nil {
		return nil, failure
	}
	return starlark.NewList(elems), nil
}

// reversedBuiltin implements reversed(xs), a list.
func reversedBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 1 {
		if i := instanceOf(args[0]); i != nil {
			if fn := i.method("__reversed__"); fn != nil {
				return i.call(fn)
			}
		}
	}
	return libraryOver(thread, b, args, kwargs)
}

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
