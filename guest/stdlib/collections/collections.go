// Package collections is Python's module collections: deque, namedtuple, Counter, defaultdict and
// OrderedDict. Begin with [Module].
package collections

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// Module returns the module collections.
func Module() *stdlib.Module {
	return &stdlib.Module{Name: "collections", Members: starlark.StringDict{
		"deque":       class("collections.deque", newDeque, is[*deque]),
		"Counter":     class("collections.Counter", newCounter, is[*counter]),
		"defaultdict": class("collections.defaultdict", newDefaultDict, is[*defaultDict]),
		"OrderedDict": orderedDictClass,
		"namedtuple":  stdlib.NewFunc("namedtuple", namedTuple),
	}}
}

func is[T starlark.Value](v starlark.Value) bool {
	_, ok := v.(T)
	return ok
}

// class returns the class of the values made by a function.
func class(name string, f stdlib.Func, is func(starlark.Value) bool) *stdlib.Class {
	return &stdlib.Class{
		Named: name,
		New: func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			return f(&stdlib.Call{Thread: thread, Name: name, Args: args, Kwargs: kwargs})
		},
		Is: is,
	}
}
