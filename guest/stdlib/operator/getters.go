package operator

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

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
