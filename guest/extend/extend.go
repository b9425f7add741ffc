// Package extend is where package interp adds to the types of the guest's interpreter: the changed
// library (package patch) sets AddMethod and calls the other hooks. Values belong to
// go.starlark.net/starlark, which this package cannot name, because the library imports this
// package. The unchanged library uses none of the hooks.
package extend

// AddMethod adds a method, a *starlark.Builtin, to the values of a type: bool, bytes, float, int,
// list, set, string or tuple. AddMethod is nil in the unchanged library.
var AddMethod func(kind, name string, method any)

// Binary is asked for x op y before the library gives up. op is a syntax.Token. A z of nil without
// an error means that the operation does not exist.
var Binary func(op int, x, y any) (z any, err error)

// Compare is asked for comparisons of values of different types. ok is false if they
// have no order.
var Compare func(op int, x, y any, depth int) (result, ok bool, err error)

// Fallible is implemented by fallible iterators. After Next has returned false, Err says why.
type Fallible interface{ Err() error }

// ErrOf returns the error at the end of an iteration, if any.
func ErrOf(iterator any) error {
	if f, ok := iterator.(Fallible); ok {
		return f.Err()
	}
	return nil
}

// LazyDict returns a dict, a *starlark.Dict, with n members whose values are made on demand. shape
// and values identify the members to source. LazyDict is nil in the unchanged library.
var LazyDict func(n int, source LazySource, shape, values uint32) any

// LazySource makes the members of lazy dicts. Their keys are strings.
type LazySource interface {
	// Find returns the index of a key, -1 for an unknown key.
	Find(shape uint32, key string) int
	// Keys returns all keys, as a *[]starlark.Value that is never changed.
	Keys(shape uint32) any
	// Make stores the value of member i at v, a *starlark.Value.
	Make(values uint32, i int, v any)
}
