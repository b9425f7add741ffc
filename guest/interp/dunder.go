package interp

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Methods for operators. The first is the method of the left operand.
var binaryMethods = map[syntax.Token][2]string{
	syntax.PLUS:       {"__add__", "__radd__"},
	syntax.MINUS:      {"__sub__", "__rsub__"},
	syntax.STAR:       {"__mul__", "__rmul__"},
	syntax.SLASH:      {"__truediv__", "__rtruediv__"},
	syntax.SLASHSLASH: {"__floordiv__", "__rfloordiv__"},
	syntax.PERCENT:    {"__mod__", "__rmod__"},
	syntax.AMP:        {"__and__", "__rand__"},
	syntax.PIPE:       {"__or__", "__ror__"},
	syntax.CIRCUMFLEX: {"__xor__", "__rxor__"},
	syntax.LTLT:       {"__lshift__", "__rlshift__"},
	syntax.GTGT:       {"__rshift__", "__rrshift__"},
}

var comparisonMethods = map[syntax.Token][2]string{
	syntax.EQL: {"__eq__", "__eq__"},
	syntax.NEQ: {"__ne__", "__ne__"},
	syntax.LT:  {"__lt__", "__gt__"},
	syntax.GT:  {"__gt__", "__lt__"},
	syntax.LE:  {"__le__", "__ge__"},
	syntax.GE:  {"__ge__", "__le__"},
}

// methodFor returns the name of the method for an operator.
func methodFor(op syntax.Token, side starlark.Side) string {
	if side == starlark.Left {
		return binaryMethods[op][0]
	}
	return binaryMethods[op][1]
}

// notImplemented is the result of an operator's method that cannot handle the operand.
type notImplementedValue struct{ operandOnly }

func (notImplementedValue) String() string { return "NotImplemented" }

var notImplemented = notImplementedValue{}

func (i *instance) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	switch y := y.(type) { // a marked operand
	case inPlace:
		return i.Binary(op, y.operand, side)
	case operandMarker:
		return y.apply(i.self)
	}
	fn := i.method(methodFor(op, side))
	if fn == nil {
		x, y := i.plain(), plainMember(y)
		if x == nil {
			return nil, nil
		}
		if side == starlark.Right {
			x, y = y, x
		}
		return starlark.Binary(op, x, y)
	}
	v, err := i.call(fn, y)
	if v == notImplemented {
		return nil, nil
	}
	return v, err
}

// operandMarker is the right operand of an operator that stands for another operator.
type operandMarker interface {
	starlark.Value
	apply(x starlark.Value) (starlark.Value, error)
}

// Has is y in i.
func (i *instance) Has(y starlark.Value) (bool, error) {
	if fn := i.method("__contains__"); fn != nil {
		v, err := i.call(fn, y)
		return err == nil && bool(v.Truth()), err
	}
	if it, ok := i.self.(*iterable); ok {
		return containsValue(it, y)
	}
	return false, i.lacks("is not a container", "__contains__")
}

// containsValue looks for a value among the elements of another.
func containsValue(xs, y starlark.Value) (found bool, err error) {
	err = stdlib.Each(xs, func(x starlark.Value) error {
		same, err := starlark.Equal(x, y)
		if err == nil && same {
			found, err = true, errStop
		}
		return err
	})
	if err == errStop {
		err = nil
	}
	return found, err
}

func (i *instance) Unary(op syntax.Token) (starlark.Value, error) {
	name := map[syntax.Token]string{syntax.MINUS: "__neg__", syntax.PLUS: "__pos__", syntax.TILDE: "__invert__"}[op]
	fn := i.method(name)
	if fn == nil {
		return nil, nil
	}
	return i.call(fn)
}

// CompareSameType compares instances of classes of the same name.
func (i *instance) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	v, err := i.compare(op, y)
	if err != nil || v != nil {
		return v != nil && bool(v.Truth()), err
	}
	j := instanceOf(y)
	switch op {
	case syntax.EQL:
		return i == j, nil
	case syntax.NEQ:
		return i != j, nil
	}
	return false, stdlib.Errorf(stdlib.TypeError, "'%s' not supported between instances of '%s' and '%s'", op, i.class.name, y.Type())
}

// compare returns nil if the class does not define the comparison.
func (i *instance) compare(op syntax.Token, y starlark.Value) (starlark.Value, error) {
	methods := comparisonMethods[op]
	if v, err := i.tryMethod(methods[0], y); v != nil || err != nil {
		return v, err
	}
	if j := instanceOf(y); j != nil {
		if v, err := j.tryMethod(methods[1], i.self); v != nil || err != nil {
			return v, err
		}
	}
	if op == syntax.NEQ { // by default, the opposite of ==
		v, err := i.compare(syntax.EQL, y)
		if v == nil || err != nil {
			return nil, err
		}
		return !v.Truth(), nil
	}
	if d := i.class.data; d != nil {
		return d.compare(op, i, instanceOf(y))
	}
	if x := i.plain(); x != nil {
		y := plainMember(y)
		if _, ok := y.(starlark.Comparable); !ok && x.Type() != y.Type() {
			return nil, nil
		}
		result, err := starlark.Compare(op, x, y)
		return starlark.Bool(result), err
	}
	return nil, nil
}

func (i *instance) tryMethod(name string, y starlark.Value) (starlark.Value, error) {
	fn := i.method(name)
	if fn == nil {
		return nil, nil
	}
	v, err := i.call(fn, y)
	if v == notImplemented {
		return nil, nil
	}
	return v, err
}
