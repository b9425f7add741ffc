// Package copy is Python's module copy.
package copy

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// maxDepth is the nesting limit of a deep copy.
const maxDepth = 1000

// Module returns the module copy.
func Module() *stdlib.Module {
	return &stdlib.Module{Name: "copy", Members: stdlib.Funcs(map[string]stdlib.Func{"copy": shallow, "deepcopy": deep})}
}

func shallow(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	if err := c.Unpack("x", &v); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case *starlark.List:
		elems, err := c.Elements(v)
		return starlark.NewList(elems), err
	case *starlark.Set:
		return v.Union(starlark.Tuple(nil).Iterate())
	case stdlib.DictLike:
		return like(c, v)
	}
	if has, ok := v.(starlark.HasAttrs); ok && v.Type() == "deque" {
		return c.CallMethod(has, "copy")
	}
	return v, nil
}

// like returns a copy of a dict of any kind.
func like(c *stdlib.Call, d stdlib.DictLike) (starlark.Value, error) {
	if own, ok := d.(stdlib.Dict); ok {
		if method, err := own.(starlark.HasAttrs).Attr("copy"); err == nil && method != nil {
			if _, special := d.(stdlib.Representer); special {
				return c.Call(method)
			}
		}
	}
	out := c.Env().NewDict(d.Underlying().Len())
	for k, v := range d.Underlying().Entries() {
		if err := out.Underlying().SetKey(k, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func deep(c *stdlib.Call) (starlark.Value, error) {
	var v, memo starlark.Value
	if err := c.Unpack("x", &v, "memo?", &memo); err != nil {
		return nil, err
	}
	d := copier{call: c, done: map[any]starlark.Value{}}
	return d.copy(v)
}

// copier copies a value once, however often and wherever the value occurs.
type copier struct {
	call  *stdlib.Call
	done  map[any]starlark.Value
	depth int
}

func (d *copier) copy(v starlark.Value) (starlark.Value, error) {
	if d.depth++; d.depth > maxDepth {
		return nil, stdlib.Errorf(stdlib.RecursionError, "the value is nested deeper than %d levels", maxDepth)
	}
	defer func() { d.depth-- }()
	switch v := v.(type) {
	case *starlark.List:
		if made, ok := d.done[v]; ok {
			return made, nil
		}
		out := starlark.NewList(make([]starlark.Value, 0, v.Len()))
		d.done[v] = out
		for i := range v.Len() {
			x, err := d.copy(v.Index(i))
			if err == nil {
				err = out.Append(x)
			}
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	case starlark.Tuple:
		return d.tuple(v)
	case *starlark.Set: // elements of a set cannot change
		if made, ok := d.done[v]; ok {
			return made, nil
		}
		out, err := v.Union(starlark.Tuple(nil).Iterate())
		d.done[v] = out
		return out, err
	case stdlib.DictLike:
		return d.dict(v)
	case stdlib.Copier:
		return v.CopyWith(d.copy)
	}
	return v, nil
}

func (d *copier) tuple(t starlark.Tuple) (starlark.Value, error) {
	out := make(starlark.Tuple, len(t))
	for i, v := range t {
		x, err := d.copy(v)
		if err != nil {
			return nil, err
		}
		out[i] = x
	}
	return out, nil
}

func (d *copier) dict(v stdlib.DictLike) (starlark.Value, error) {
	id := v.Underlying()
	if made, ok := d.done[id]; ok {
		return made, nil
	}
	out, err := like(d.call, v)
	if err != nil {
		return nil, err
	}
	d.done[id] = out
	to := out.(stdlib.DictLike).Underlying()
	for k, x := range id.Entries() {
		if x, err = d.copy(x); err != nil {
			return nil, err
		}
		if err := to.SetKey(k, x); err != nil {
			return nil, err
		}
	}
	return out, nil
}
