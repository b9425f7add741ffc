package interp

import (
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// The library formats values, in text % x and text.format(x), with a recursion
// that has no limit of depth: a list of lists of lists ... would overflow the
// stack, which ends the guest without a word on where. So what it is given to
// format are values that write themselves, as str writes them.

const formatMethod = "format"

// markFormat makes (markFormat | x) what stands right of a % instead of x.
type markFormat struct{ operandOnly }

func (markFormat) Binary(op syntax.Token, x starlark.Value, side starlark.Side) (starlark.Value, error) {
	switch x := x.(type) {
	case starlark.Tuple:
		return writtenTuple(x), nil
	case Object:
		return writtenObject{x}, nil
	}
	return asWritten(x), nil
}

// markMethod makes (markMethod | x.format) the attribute that scripts see.
type markMethod struct{ operandOnly }

func (markMethod) Binary(op syntax.Token, x starlark.Value, side starlark.Side) (starlark.Value, error) {
	return ownFormat(x), nil
}

// written is a container that the library takes for a value without parts.
type written struct{ starlark.Value }

func (w written) String() string { return repr(w.Value) }

func asWritten(v starlark.Value) starlark.Value {
	switch v.(type) {
	case *starlark.List, starlark.Tuple, *starlark.Set:
		return written{v}
	}
	return v
}

// writtenTuple is a tuple of such values; the same one if it can be.
func writtenTuple(t starlark.Tuple) starlark.Tuple {
	out := t
	for i, v := range t {
		w, ok := asWritten(v).(written)
		if !ok {
			continue
		}
		if &out[0] == &t[0] {
			out = append(starlark.Tuple(nil), t...)
		}
		out[i] = w
	}
	return out
}

// writtenObject is the right operand of "%(key)s" % x.
type writtenObject struct{ Object }

func (o writtenObject) Get(k starlark.Value) (starlark.Value, bool, error) {
	v, found, err := o.Object.Get(k)
	if found {
		v = asWritten(v)
	}
	return v, found, err
}

// ownFormat is ours for the library's method format of a string, and v for any
// other value.
func ownFormat(v starlark.Value) starlark.Value {
	if f, ok := v.(*starlark.Builtin); ok && f.Name() == formatMethod {
		if text, ok := f.Receiver().(starlark.String); ok {
			return starlark.NewBuiltin(formatMethod, format).BindReceiver(text)
		}
	}
	return v
}

func format(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	method, err := b.Receiver().(starlark.String).Attr(formatMethod)
	if err != nil {
		return nil, err
	}
	named := make([]starlark.Tuple, len(kwargs))
	for i, kv := range kwargs {
		named[i] = starlark.Tuple{kv[0], asWritten(kv[1])}
	}
	return method.(*starlark.Builtin).CallInternal(thread, writtenTuple(args), named)
}

// getattrBuiltin is getattr(...), which can get at the method too.
func getattrBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := starlark.Universe["getattr"].(*starlark.Builtin).CallInternal(thread, args, kwargs)
	if err != nil {
		return nil, err
	}
	return ownFormat(v), nil
}
