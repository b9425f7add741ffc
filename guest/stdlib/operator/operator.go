// Package operator is Python's module operator.
package operator

import (
	"math"
	"math/big"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// binary are operators of the language.
var binary = map[string]syntax.Token{
	"add": syntax.PLUS, "sub": syntax.MINUS, "mul": syntax.STAR, "truediv": syntax.SLASH, "floordiv": syntax.SLASHSLASH,
	"mod": syntax.PERCENT, "and_": syntax.AMP, "or_": syntax.PIPE, "xor": syntax.CIRCUMFLEX, "lshift": syntax.LTLT, "rshift": syntax.GTGT,
	"concat": syntax.PLUS, "iadd": syntax.PLUS, "isub": syntax.MINUS, "imul": syntax.STAR, "iand": syntax.AMP, "ior": syntax.PIPE,
}

var comparisons = map[string]syntax.Token{
	"lt": syntax.LT, "le": syntax.LE, "eq": syntax.EQL, "ne": syntax.NEQ, "gt": syntax.GT, "ge": syntax.GE,
}

// Module returns the module operator.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{
		"pow": power, "neg": unary(syntax.MINUS), "pos": unary(syntax.PLUS), "invert": unary(syntax.TILDE), "inv": unary(syntax.TILDE),
		"abs": absolute, "index": index, "not_": not, "truth": truth, "is_": is, "is_not": is,
		"contains": contains, "countOf": countOf, "indexOf": indexOf, "getitem": getItem, "setitem": setItem,
		"itemgetter": itemGetter, "attrgetter": attrGetter, "methodcaller": methodCaller, "length_hint": lengthHint,
	})
	for name, op := range binary {
		members[name] = stdlib.NewFunc(name, func(c *stdlib.Call) (starlark.Value, error) {
			x, y, err := two(c)
			if err != nil {
				return nil, err
			}
			return stdlib.Binary(op, number(x), number(y))
		})
	}
	for name, op := range comparisons {
		members[name] = stdlib.NewFunc(name, func(c *stdlib.Call) (starlark.Value, error) {
			x, y, err := two(c)
			if err != nil {
				return nil, err
			}
			ok, err := stdlib.Compare(op, x, y)
			return starlark.Bool(ok), err
		})
	}
	return &stdlib.Module{Name: "operator", Members: members}
}

func two(c *stdlib.Call) (x, y starlark.Value, err error) {
	err = c.Unpack("a", &x, "b", &y, "/", nil)
	return x, y, err
}

func one(c *stdlib.Call) (v starlark.Value, err error) {
	err = c.Unpack("a", &v, "/", nil)
	return v, err
}

// number returns True and False as numbers.
func number(v starlark.Value) starlark.Value {
	if b, ok := v.(starlark.Bool); ok {
		n, _ := stdlib.Integer(b)
		return n
	}
	return v
}

func unary(op syntax.Token) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		v, err := one(c)
		if err != nil {
			return nil, err
		}
		out, err := starlark.Unary(op, number(v))
		if err != nil {
			return nil, stdlib.Errorf(stdlib.TypeError, "bad operand type for unary %s: '%s'", op, stdlib.TypeName(v))
		}
		return out, nil
	}
}

func absolute(c *stdlib.Call) (starlark.Value, error) {
	v, err := one(c)
	if err != nil {
		return nil, err
	}
	switch v := number(v).(type) {
	case starlark.Int:
		if v.Sign() < 0 {
			return starlark.MakeInt(0).Sub(v), nil
		}
		return v, nil
	case starlark.Float:
		return starlark.Float(math.Abs(float64(v))), nil
	}
	negative, err := stdlib.Less(v, starlark.MakeInt(0))
	if err != nil {
		return nil, stdlib.Errorf(stdlib.TypeError, "bad operand type for abs(): '%s'", stdlib.TypeName(v))
	}
	if negative {
		return starlark.Unary(syntax.MINUS, v)
	}
	return v, nil
}

// maxPower is a limit on the number of bits of a power.
const maxPower = 1 << 24

func power(c *stdlib.Call) (starlark.Value, error) {
	x, y, err := two(c)
	if err != nil {
		return nil, err
	}
	a, okA := stdlib.Integer(x)
	b, okB := stdlib.Integer(y)
	if okA && okB && b.Sign() >= 0 {
		n, exp := a.BigInt(), b.BigInt()
		if n.CmpAbs(big.NewInt(1)) > 0 && (!exp.IsInt64() || exp.Int64() > maxPower || int64(n.BitLen())*exp.Int64() > maxPower) {
			return nil, stdlib.Errorf(stdlib.OverflowError, "pow(): the result is too large")
		}
		if n.CmpAbs(big.NewInt(1)) <= 0 {
			exp = new(big.Int).And(exp, big.NewInt(1))
			if b.Sign() > 0 {
				exp.Add(exp, big.NewInt(2)) // 0, 1 and -1 depend only on an even or odd exponent
			}
		}
		return starlark.MakeBigInt(new(big.Int).Exp(n, exp, nil)), nil
	}
	f, err := stdlib.Float(x)
	if err != nil {
		return nil, stdlib.Errorf(stdlib.TypeError, "unsupported operand type(s) for ** or pow(): '%s' and '%s'", stdlib.TypeName(x), stdlib.TypeName(y))
	}
	g, err := stdlib.Float(y)
	if err != nil {
		return nil, stdlib.Errorf(stdlib.TypeError, "unsupported operand type(s) for ** or pow(): '%s' and '%s'", stdlib.TypeName(x), stdlib.TypeName(y))
	}
	out := math.Pow(f, g)
	switch {
	case f == 0 && g < 0:
		return nil, stdlib.Errorf(stdlib.ZeroDivisionError, "0.0 cannot be raised to a negative power")
	case math.IsInf(out, 0) && !math.IsInf(f, 0) && !math.IsInf(g, 0):
		return nil, stdlib.Errorf(stdlib.OverflowError, "(34, 'Numerical result out of range')")
	case math.IsNaN(out) && !math.IsNaN(f) && !math.IsNaN(g):
		return nil, stdlib.Errorf(stdlib.ValueError, "pow(): a negative number to a fraction is complex, which is not supported")
	}
	return starlark.Float(out), nil
}

func index(c *stdlib.Call) (starlark.Value, error) {
	v, err := one(c)
	if err != nil {
		return nil, err
	}
	n, ok := stdlib.Integer(v)
	if !ok {
		return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object cannot be interpreted as an integer", stdlib.TypeName(v))
	}
	return n, nil
}

func not(c *stdlib.Call) (starlark.Value, error) {
	v, err := one(c)
	if err != nil {
		return nil, err
	}
	return !v.Truth(), nil
}

func truth(c *stdlib.Call) (starlark.Value, error) {
	v, err := one(c)
	if err != nil {
		return nil, err
	}
	return v.Truth(), nil
}

// is compares: values have no identity here.
func is(c *stdlib.Call) (starlark.Value, error) {
	x, y, err := two(c)
	if err != nil {
		return nil, err
	}
	same, err := stdlib.Equal(x, y)
	return starlark.Bool(same == (c.Name == "is_")), err
}

func contains(c *stdlib.Call) (starlark.Value, error) {
	x, y, err := two(c)
	if err != nil {
		return nil, err
	}
	return stdlib.Binary(syntax.IN, y, x)
}

func countOf(c *stdlib.Call) (starlark.Value, error) {
	x, y, err := two(c)
	if err != nil {
		return nil, err
	}
	n := 0
	err = stdlib.Each(x, func(v starlark.Value) error {
		same, err := stdlib.Equal(v, y)
		if same {
			n++
		}
		return err
	})
	return starlark.MakeInt(n), err
}

func indexOf(c *stdlib.Call) (starlark.Value, error) {
	x, y, err := two(c)
	if err != nil {
		return nil, err
	}
	next, err := c.Source(x)
	if err != nil {
		return nil, err
	}
	for i := 0; ; i++ {
		v, err := next()
		if err != nil {
			return nil, err
		}
		if v == nil {
			return nil, stdlib.Errorf(stdlib.ValueError, "sequence.index(x): x not in sequence")
		}
		if same, err := stdlib.Equal(v, y); same || err != nil {
			return starlark.MakeInt(i), err
		}
	}
}

func lengthHint(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	otherwise := 0
	if err := c.Unpack("obj", &v, "default?", &otherwise, "/", nil); err != nil {
		return nil, err
	}
	if n := starlark.Len(v); n >= 0 {
		otherwise = n
	}
	return starlark.MakeInt(otherwise), nil
}

// Item is x[k].
func Item(c *stdlib.Call, x, k starlark.Value) (starlark.Value, error) {
	switch x := x.(type) {
	case starlark.Mapping:
		v, found, err := x.Get(k)
		if err == nil && !found {
			err = stdlib.Errorf(stdlib.KeyError, "%s", c.Env().Repr(k))
		}
		return v, err
	case starlark.Indexable:
		i, err := position(x, k)
		if err != nil {
			return nil, err
		}
		return x.Index(i), nil
	}
	return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object is not subscriptable", stdlib.TypeName(x))
}

// position returns an index, possibly counted from the end.
func position(x starlark.Indexable, k starlark.Value) (int, error) {
	n, ok := stdlib.Integer(k)
	if !ok {
		return 0, stdlib.Errorf(stdlib.TypeError, "%s indices must be integers or slices, not %s", stdlib.TypeName(x), stdlib.TypeName(k))
	}
	i, ok := n.Int64()
	if i < 0 {
		i += int64(x.Len())
	}
	if !ok || i < 0 || i >= int64(x.Len()) {
		return 0, stdlib.Errorf(stdlib.IndexError, "%s index out of range", stdlib.TypeName(x))
	}
	return int(i), nil
}

func getItem(c *stdlib.Call) (starlark.Value, error) {
	x, k, err := two(c)
	if err != nil {
		return nil, err
	}
	return Item(c, x, k)
}

func setItem(c *stdlib.Call) (starlark.Value, error) {
	var x, k, v starlark.Value
	if err := c.Unpack("a", &x, "b", &k, "c", &v, "/", nil); err != nil {
		return nil, err
	}
	switch x := x.(type) {
	case starlark.HasSetKey:
		return starlark.None, x.SetKey(k, v)
	case starlark.HasSetIndex:
		i, err := position(x, k)
		if err != nil {
			return nil, err
		}
		return starlark.None, x.SetIndex(i, v)
	}
	return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object does not support item assignment", stdlib.TypeName(x))
}

// getter returns a function for a single item, or a tuple of several.
func getter(c *stdlib.Call, get func(c *stdlib.Call, x, what starlark.Value) (starlark.Value, error)) (starlark.Value, error) {
	if len(c.Args) == 0 || len(c.Kwargs) > 0 {
		return nil, stdlib.Errorf(stdlib.TypeError, "%s expected at least 1 argument, got %d", c.Name, len(c.Args))
	}
	wanted := c.Args
	return stdlib.NewFunc(c.Name, func(c *stdlib.Call) (starlark.Value, error) {
		x, err := one(c)
		if err != nil {
			return nil, err
		}
		if len(wanted) == 1 {
			return get(c, x, wanted[0])
		}
		out := make(starlark.Tuple, len(wanted))
		for i, w := range wanted {
			if out[i], err = get(c, x, w); err != nil {
				return nil, err
			}
		}
		return out, nil
	}), nil
}

func itemGetter(c *stdlib.Call) (starlark.Value, error) { return getter(c, Item) }

func attrGetter(c *stdlib.Call) (starlark.Value, error) {
	for _, a := range c.Args {
		if _, ok := starlark.AsString(a); !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "attribute name must be a string")
		}
	}
	return getter(c, func(c *stdlib.Call, x, path starlark.Value) (starlark.Value, error) {
		text, _ := starlark.AsString(path)
		for _, name := range strings.Split(text, ".") {
			var v starlark.Value
			if has, ok := x.(starlark.HasAttrs); ok {
				var err error
				if v, err = has.Attr(name); err != nil {
					return nil, err
				}
			}
			if v == nil {
				return nil, stdlib.Errorf(stdlib.AttributeError, "'%s' object has no attribute '%s'", stdlib.TypeName(x), name)
			}
			x = v
		}
		return x, nil
	})
}

func methodCaller(c *stdlib.Call) (starlark.Value, error) {
	if len(c.Args) == 0 {
		return nil, stdlib.Errorf(stdlib.TypeError, "methodcaller needs at least one argument, the method name")
	}
	name, ok := starlark.AsString(c.Args[0])
	if !ok {
		return nil, stdlib.Errorf(stdlib.TypeError, "method name must be a string")
	}
	args, kwargs := c.Args[1:], c.Kwargs
	return stdlib.NewFunc("methodcaller", func(c *stdlib.Call) (starlark.Value, error) {
		x, err := one(c)
		if err != nil {
			return nil, err
		}
		if has, ok := x.(starlark.HasAttrs); ok {
			method, err := has.Attr(name)
			if err != nil {
				return nil, err
			}
			if method != nil {
				return starlark.Call(c.Thread, method, args, kwargs)
			}
		}
		return nil, stdlib.Errorf(stdlib.AttributeError, "'%s' object has no attribute '%s'", stdlib.TypeName(x), name)
	}), nil
}
