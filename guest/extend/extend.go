// Package extend is where package interp adds to the types of the interpreter that
// the guest is built with: the changed library (package patch) sets AddMethod and calls
// the others. Values are those of go.starlark.net/starlark, which this package
// cannot name, because the library imports it. With the unchanged library nothing
// happens.
package extend

// AddMethod adds a method, a *starlark.Builtin, to the values of a type: bool, bytes,
// float, int, list, set, string or tuple. It is nil in the unchanged library.
var AddMethod func(kind, name string, method any)

// Binary is asked for x op y before the library gives up. op is a syntax.Token. A z of
// nil without an error means that there is no such operation.
var Binary func(op int, x, y any) (z any, err error)

// Compare is asked for comparisons of values of different types. ok is false if they
// have no order.
var Compare func(op int, x, y any, depth int) (result, ok bool, err error)

// Fallible is implemented by iterators that can fail. After Next has returned false, Err
// says why.
type Fallible interface{ Err() error }

// ErrOf returns the error that has ended an iteration, if any.
func ErrOf(iterator any) error {
	if f, ok := iterator.(Fallible); ok {
		return f.Err()
	}
	return nil
}

// LazyDict returns a dict, a *starlark.Dict, that has n members and makes their values
// when they are needed. shape and values say to source which they are. It is nil in the
// unchanged library.
var LazyDict func(n int, source LazySource, shape, values uint32) any

// LazySource makes the members of lazy dicts. Their keys are strings.
type LazySource interface {
	// Find returns the index of a key, -1 if there is no such key.
	Find(shape uint32, key string) int
	// Keys returns all keys, as a *[]starlark.Value that nobody changes.
	Keys(shape uint32) any
	// Make stores the value of member i at v, a *starlark.Value.
	Make(values uint32, i int, v any)
}
