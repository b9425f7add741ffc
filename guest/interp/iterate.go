package interp

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
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
