package interp

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Object is the dict of scripts: a Starlark dict with string keys as attributes. Every dict seen by
// a script is an Object, because the library compares values of the same type name by asserting the
// library's type: comparing a bare *starlark.Dict with an Object would panic. Dicts are made by
// dict displays, comprehensions and **kwargs (rewrite.go wraps these), by the dict function, and
// from JSON.
//
// An Object is a struct with a single pointer, so an interface holds it without allocation.
type Object struct{ *starlark.Dict }

var (
	_ starlark.IterableMapping = Object{}
	_ starlark.HasSetKey       = Object{}
	_ starlark.HasSetField     = Object{}
	_ starlark.HasBinary       = Object{}
	_ starlark.Comparable      = Object{}
	_ starlark.Container       = Object{}
	_ starlark.Sequence        = Object{}
)

func newObject(size int) Object { return Object{starlark.NewDict(size)} }

func (o Object) String() string { return repr(o) }

// Underlying returns the library's dict.
func (o Object) Underlying() *starlark.Dict { return o.Dict }

// isDictMethod reports whether name is a method of dicts. A switch is fast enough for each access
// to an attribute.
func isDictMethod(name string) bool {
	switch name {
	case "clear", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values":
		return true
	}
	return false
}

// Attr returns the method of the name, or else the value of the key.
func (o Object) Attr(name string) (starlark.Value, error) {
	v, found, err := o.Dict.Get(boxed(name))
	switch {
	case err != nil:
		return nil, err
	case isDictMethod(name):
		method, err := o.Dict.Attr(name)
		switch name {
		case "pop":
			method = popMethod.BindReceiver(o)
		case "popitem":
			method = popItemMethod.BindReceiver(o)
		case "update":
			method = updateMethod.BindReceiver(o)
		}
		if err != nil || !found {
			return method, err
		}
		return hidingMethod{method.(*starlark.Builtin)}, nil
	case found:
		return v, nil
	case name == "copy": // a key "copy" wins: earlier versions had no method copy
		return copyMethod.BindReceiver(o), nil
	}
	return nil, &missingKey{o, starlark.String(name), true}
}

// boxedNames has names of attributes as values. Making a value of a string allocates
// memory, and scripts use the same few names again and again.
var boxedNames [64]atomic.Pointer[starlark.Value]

// boxed returns a name as a value.
func boxed(name string) starlark.Value {
	if name == "" {
		return starlark.String("")
	}
	slot := &boxedNames[(uint(len(name))*7+uint(name[0])*3+uint(name[len(name)-1]))%uint(len(boxedNames))]
	if v := slot.Load(); v != nil && (*v).(starlark.String) == starlark.String(name) {
		return *v
	}
	v := starlark.Value(starlark.String(name))
	slot.Store(&v)
	return v
}

// popItemMethod is d.popitem(): the last item, as in Python.
var popItemMethod = starlark.NewBuiltin("popitem", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 0); err != nil {
		return nil, err
	}
	o := b.Receiver().(Object)
	keys := o.Keys()
	if len(keys) == 0 {
		return nil, stdlib.Errorf(stdlib.KeyError, "popitem: empty dict")
	}
	last := keys[len(keys)-1]
	v, _, err := o.Dict.Delete(last)
	return starlark.Tuple{last, v}, err
})

// updateMethod is d.update(pairs, **values), and of iterators.
var updateMethod = starlark.NewBuiltin("update", func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	o := b.Receiver().(Object)
	method, err := o.Dict.Attr(b.Name())
	if err != nil {
		return nil, err
	}
	if len(args) == 1 {
		if d, ok := args[0].(stdlib.DictLike); ok {
			args = starlark.Tuple{d.Underlying()}
		} else if isLazy(args[0]) {
			list, err := listOf(args[0])
			if err != nil {
				return nil, err
			}
			args = starlark.Tuple{list}
		}
	}
	return method.(*starlark.Builtin).CallInternal(thread, args, kwargs)
})

// copyMethod is d.copy().
var copyMethod = starlark.NewBuiltin("copy", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 0); err != nil {
		return nil, err
	}
	o := b.Receiver().(Object)
	out := newObject(o.Len())
	for k, v := range o.Entries() {
		if err := out.Dict.SetKey(k, v); err != nil {
			return nil, err
		}
	}
	return out, nil
})

// popMethod is d.pop(key, default), with the key in the error.
var popMethod = starlark.NewBuiltin("pop", func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	o := b.Receiver().(Object)
	method, err := o.Dict.Attr(b.Name())
	if err != nil {
		return nil, err
	}
	v, err := method.(*starlark.Builtin).CallInternal(thread, args, kwargs)
	if err != nil && len(args) == 1 && len(kwargs) == 0 {
		if _, found, unhashable := o.Dict.Get(args[0]); !found && unhashable == nil {
			return nil, fmt.Errorf("%s: %w (%s(key, None) gives None for one that is not there)", b.Name(), &missingKey{o, args[0], false}, b.Name())
		}
	}
	return v, err
})

func (o Object) AttrNames() []string {
	names := o.Dict.AttrNames()
	for k := range o.Entries() {
		if s, ok := k.(starlark.String); ok && isIdentifier(string(s)) && !isDictMethod(string(s)) {
			names = append(names, string(s))
		}
	}
	return names
}

// SetField is x.name = v.
func (o Object) SetField(name string, v starlark.Value) error {
	if isDictMethod(name) {
		return fmt.Errorf("cannot assign to .%s, a method of dicts (write x[%q] = ... for the key of that name)", name, name)
	}
	return o.SetKey(starlark.String(name), v)
}

// SetKey is x[k] = v.
func (o Object) SetKey(k, v starlark.Value) error {
	err := o.Dict.SetKey(k, v)
	if err == nil {
		return nil
	}
	if _, unhashable := k.Hash(); unhashable != nil {
		return err
	}
	if strings.HasSuffix(err.Error(), " during iteration") {
		return fmt.Errorf("%w (no dict or set can change while it is looped over: loop over a copy, list(x))", err)
	}
	return fmt.Errorf("%w (params and what is in it cannot change: change a copy, dict(params))", err)
}

// Get is x[k]. Contrary to the interface, it returns an error for a missing key. The interpreter
// passes the error on, which names the nearest key.
func (o Object) Get(k starlark.Value) (starlark.Value, bool, error) {
	v, found, err := o.Dict.Get(k)
	if err == nil && !found {
		return nil, false, &missingKey{o, k, false}
	}
	return v, found, err
}

// Has is k in x. The result is false for an unhashable key.
func (o Object) Has(k starlark.Value) (bool, error) {
	_, found, _ := o.Dict.Get(k)
	return found, nil
}

// CompareSameType also accepts a bare dict, for values never seen by scripts.
func (o Object) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	switch y := y.(type) {
	case Object:
		return o.Dict.CompareSameType(op, y.Dict, depth)
	case *starlark.Dict:
		return o.Dict.CompareSameType(op, y, depth)
	case stdlib.DictLike:
		return o.Dict.CompareSameType(op, y.Underlying(), depth)
	}
	return false, fmt.Errorf("%s %s %s not implemented", o.Type(), op, y.Type())
}

// Binary is x | y, and x |= y where rewrite.go marked y.
func (o Object) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	if op != syntax.PIPE || side != starlark.Left {
		return nil, nil
	}
	switch y := y.(type) {
	case Object:
		return Object{o.Dict.Union(y.Dict)}, nil
	case inPlace:
		other, ok := y.operand.(Object)
		if !ok {
			return nil, nil
		}
		for k, v := range other.Entries() {
			if err := o.SetKey(k, v); err != nil {
				return nil, err
			}
		}
		return o, nil
	}
	return nil, nil
}

// missingKey is the error for a missing key of a dict. The text is only made on demand, because
// most of these errors are never shown.
type missingKey struct {
	dict      Object
	key       starlark.Value
	attribute bool
}

func (e *missingKey) Error() string {
	var keys []string
	for k := range e.dict.Entries() {
		if s, ok := k.(starlark.String); ok {
			keys = append(keys, string(s))
		}
	}
	name, ok := starlark.AsString(e.key)
	hint := ""
	if resultMembers[name] {
		hint = "; " + answerHint
	}
	switch {
	case e.attribute && methodHint("dict", name) != "":
		// A key may have been meant as well as a method.
		has := strings.TrimSuffix(suggest(name, keys, keys), ")")
		return fmt.Sprintf("dict has no key or method .%s%s; for a method, %s)", name, has, methodHint("dict", name))
	case e.attribute:
		methods := e.dict.Dict.AttrNames()
		return fmt.Sprintf("dict has no key or method .%s%s%s", name, suggest(name, append(methods, keys...), keys), hint)
	case ok:
		return fmt.Sprintf("dict has no key %s%s%s", e.key, suggest(name, keys, keys), hint)
	}
	return "dict has no key " + repr(e.key)
}

// hidingMethod is a method of a dict with a key of the same name. It can be called like any other
// method. If the script meant the key (for x in answer.items: ...), the error of the interpreter
// contains the name of this type, which names the remedy.
type hidingMethod struct{ *starlark.Builtin }

func (m hidingMethod) Type() string {
	return fmt.Sprintf(`builtin_function_or_method (a dict's .%s is a method; write ["%s"] for the key)`, m.Name(), m.Name())
}

// The operands below occur only in expressions made by rewrite.go. An operator on a value of our
// own is the cheapest way to run Go code from a script: calling a built-in function would push a
// frame.

// wrapDict makes (wrapDict | d) the Object of a bare dict d.
type wrapDict struct{ operandOnly }

func (wrapDict) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	if d, ok := y.(*starlark.Dict); ok {
		return Object{d}, nil
	}
	return y, nil // a **kwargs parameter wrapped before
}

// markInPlace makes (markInPlace | y) the right operand of x |= y.
type markInPlace struct{ operandOnly }

func (markInPlace) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	return inPlace{operand: y}, nil
}

// inPlace is the right operand of x |= y. It changes a dict in place, as x |= y means; for any
// other left operand the result is the same as with y itself.
type inPlace struct {
	operandOnly
	operand starlark.Value
}

func (p inPlace) Binary(op syntax.Token, x starlark.Value, side starlark.Side) (starlark.Value, error) {
	return starlark.Binary(op, x, p.operand)
}

// operandOnly implements the methods of starlark.Value never seen by scripts.
type operandOnly struct{}

func (operandOnly) String() string        { return "operand" }
func (operandOnly) Type() string          { return "operand" }
func (operandOnly) Freeze()               {}
func (operandOnly) Truth() starlark.Bool  { return true }
func (operandOnly) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable type: operand") }
