package stdlib

import (
	"fmt"
	"sync/atomic"

	"go.starlark.net/starlark"
)

// Iterator is an iterator as in Python: a loop uses the iterator up, next() takes an element, and
// elements are made on demand.
type Iterator struct {
	kind string
	next func() (starlark.Value, error)
	done bool
	// attrs are the attributes, nil for none.
	attrs func(name string) (starlark.Value, error)
	names []string
}

var (
	_ starlark.Iterable = (*Iterator)(nil)
	_ starlark.HasAttrs = (*Iterator)(nil)
)

// WithAttrs gives an iterator attributes.
func (it *Iterator) WithAttrs(names []string, attrs func(name string) (starlark.Value, error)) *Iterator {
	it.names, it.attrs = names, attrs
	return it
}

// AttrNames returns the names of the attributes.
func (it *Iterator) AttrNames() []string { return it.names }

// Attr returns an attribute, nil for an unknown name.
func (it *Iterator) Attr(name string) (starlark.Value, error) {
	if it.attrs == nil {
		return nil, nil
	}
	return it.attrs(name)
}

// NewIterator returns an iterator. next returns nil after the last element; it may call functions
// of the script on the thread of the function that made the iterator. kind is the name of the type.
func NewIterator(kind string, next func() (starlark.Value, error)) *Iterator {
	return &Iterator{kind: kind, next: next}
}

func (it *Iterator) String() string        { return fmt.Sprintf("<%s object>", it.kind) }
func (it *Iterator) Type() string          { return it.kind }
func (it *Iterator) Freeze()               {}
func (it *Iterator) Truth() starlark.Bool  { return true }
func (it *Iterator) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable type: %s", it.kind) }

// maxNesting is how deep iterators may go over other iterators. Each level takes stack of the
// guest, which has a single run; natively all runs share the stack.
const maxNesting = 1000

var nesting atomic.Int64

// Take returns the next element, or nil after the last element and after an error.
func (it *Iterator) Take() (starlark.Value, error) {
	if it.done {
		return nil, nil
	}
	defer nesting.Add(-1)
	if nesting.Add(1) > maxNesting {
		return nil, Errorf("RecursionError", "iterators over iterators are nested more than %d deep", maxNesting)
	}
	v, err := it.next()
	if v == nil || err != nil {
		it.done, it.next = true, nil
		return nil, err
	}
	return v, nil
}

// Iterate returns the iterator in the form of the library. The end may be an error: see Err.
func (it *Iterator) Iterate() starlark.Iterator { return &libraryIterator{it: it} }

type libraryIterator struct {
	it  *Iterator
	err error
}

func (l *libraryIterator) Next(p *starlark.Value) bool {
	v, err := l.it.Take()
	if err != nil {
		l.err = err
	}
	if v == nil || err != nil {
		return false
	}
	*p = v
	return true
}

func (l *libraryIterator) Done() {}

// Err returns the error at the end of the iteration, if any.
func (l *libraryIterator) Err() error { return l.err }

// Fallible is implemented by iterators with elements computed by a script. After Next has returned
// false, Err says why.
type Fallible interface {
	starlark.Iterator
	Err() error
}

// Each calls f with every element of a value until f returns an error.
func Each(v starlark.Value, f func(starlark.Value) error) error {
	it, err := Iterate(v)
	if err != nil {
		return err
	}
	defer it.Done()
	var x starlark.Value
	for it.Next(&x) {
		if err := f(x); err != nil {
			return err
		}
	}
	return ErrOf(it)
}

// Iterate returns an iterator over a value, or a TypeError. After the end, ErrOf returns the
// failure, if any.
func Iterate(v starlark.Value) (starlark.Iterator, error) {
	it := starlark.Iterate(v)
	if it == nil {
		return nil, Errorf(TypeError, "'%s' object is not iterable", v.Type())
	}
	return it, nil
}

// ErrOf returns the error at the end of an iteration, if any.
func ErrOf(it starlark.Iterator) error {
	if f, ok := it.(Fallible); ok {
		return f.Err()
	}
	return nil
}

// Source returns a function for taking the elements of a value one by one, and nil after the last.
// Unlike an iterator of the library, the function can be dropped at any time, and a list may change
// meanwhile, as in Python.
func (c *Call) Source(v starlark.Value) (func() (starlark.Value, error), error) {
	i := 0
	switch v := v.(type) {
	case *Iterator:
		return v.Take, nil
	case *starlark.List:
		return func() (starlark.Value, error) {
			if i >= v.Len() {
				return nil, nil
			}
			i++
			return v.Index(i - 1), nil
		}, nil
	case starlark.String, *starlark.Set, starlark.Mapping:
		all, err := c.Elements(v)
		return func() (starlark.Value, error) {
			if i >= len(all) {
				return nil, nil
			}
			i++
			return all[i-1], nil
		}, err
	}
	it, err := Iterate(v)
	return func() (starlark.Value, error) {
		var x starlark.Value
		if it == nil {
			return nil, nil
		}
		if it.Next(&x) {
			return x, nil
		}
		it.Done()
		err := ErrOf(it)
		it = nil
		return nil, err
	}, err
}
