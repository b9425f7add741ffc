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
