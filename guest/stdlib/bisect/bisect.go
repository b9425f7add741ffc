// Package bisect is Python's module bisect.
package bisect

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// Module returns the module bisect.
func Module() *stdlib.Module {
	return &stdlib.Module{Name: "bisect", Members: stdlib.Funcs(map[string]stdlib.Func{
		"bisect": find, "bisect_left": find, "bisect_right": find,
		"insort": insert, "insort_left": insert, "insort_right": insert,
	})}
}

type arguments struct {
	list    starlark.Indexable
	x, key  starlark.Value
	low, hi int
}

func unpack(c *stdlib.Call) (a arguments, err error) {
	var list, high starlark.Value
	if err := c.Unpack("a", &list, "x", &a.x, "lo?", &a.low, "hi??", &high, "*", nil, "key??", &a.key); err != nil {
		return a, err
	}
	var ok bool
	if a.list, ok = list.(starlark.Indexable); !ok {
		return a, stdlib.Errorf(stdlib.TypeError, "object of type '%s' has no len()", stdlib.TypeName(list))
	}
	if a.low < 0 {
		return a, stdlib.Errorf(stdlib.ValueError, "lo must be non-negative")
	}
	a.hi = a.list.Len()
	if high != nil {
		a.hi, err = stdlib.Int(high)
	}
	return a, err
}

// place returns the place of x, before or after equal elements.
func (a arguments) place(c *stdlib.Call, x starlark.Value) (int, error) {
	left := strings.HasSuffix(c.Name, "left")
	low, high := a.low, a.hi
	for low < high {
		mid := int(uint(low+high) / 2)
		if mid >= a.list.Len() {
			return 0, stdlib.Errorf(stdlib.IndexError, "list index out of range")
		}
		v := a.list.Index(mid)
		if a.key != nil {
			var err error
			if v, err = c.Call(a.key, v); err != nil {
				return 0, err
			}
		}
		var less bool
		var err error
		if left {
			less, err = stdlib.Less(v, x)
		} else {
			less, err = stdlib.Less(x, v)
			less = !less
		}
		if err != nil {
			return 0, err
		}
		if less {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, nil
}

func find(c *stdlib.Call) (starlark.Value, error) {
	a, err := unpack(c)
	if err != nil {
		return nil, err
	}
	i, err := a.place(c, a.x)
	return starlark.MakeInt(i), err
}

func insert(c *stdlib.Call) (starlark.Value, error) {
	a, err := unpack(c)
	if err != nil {
		return nil, err
	}
	x := a.x
	if a.key != nil {
		if x, err = c.Call(a.key, x); err != nil {
			return nil, err
		}
	}
	i, err := a.place(c, x)
	if err != nil {
		return nil, err
	}
	_, err = c.CallMethod(a.list, "insert", starlark.MakeInt(i), a.x)
	return starlark.None, err
}
