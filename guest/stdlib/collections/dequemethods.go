package collections

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

func (d *deque) AttrNames() []string {
	return []string{"append", "appendleft", "clear", "copy", "count", "extend", "extendleft", "index", "insert", "maxlen", "pop", "popleft", "remove", "reverse", "rotate"}
}

func (d *deque) Attr(name string) (starlark.Value, error) {
	if name == "maxlen" {
		if d.most < 0 {
			return starlark.None, nil
		}
		return starlark.MakeInt(d.most), nil
	}
	if m := stdlib.Method(d, name, dequeMethods); m != nil {
		return m, nil
	}
	return nil, nil
}

// dequeMethod is a method without arguments.
func dequeMethod(f func(d *deque) (starlark.Value, error)) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		if err := c.Unpack(); err != nil {
			return nil, err
		}
		return f(c.Receiver.(*deque))
	}
}

// dequeTakes is a method with a single argument.
func dequeTakes(f func(c *stdlib.Call, d *deque, v starlark.Value) (starlark.Value, error)) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		var v starlark.Value
		if err := c.Unpack("value", &v, "/", nil); err != nil {
			return nil, err
		}
		return f(c, c.Receiver.(*deque), v)
	}
}

// take is pop or popleft.
func take(from func(*deque) starlark.Value) stdlib.Func {
	return dequeMethod(func(d *deque) (starlark.Value, error) {
		if d.length == 0 {
			return nil, stdlib.Errorf(stdlib.IndexError, "pop from an empty deque")
		}
		if err := d.change(); err != nil {
			return nil, err
		}
		return from(d), nil
	})
}

// extend adds the elements of a value, which may be the deque itself.
func extend(push func(*deque, starlark.Value) error) stdlib.Func {
	return dequeTakes(func(c *stdlib.Call, d *deque, v starlark.Value) (starlark.Value, error) {
		if v == starlark.Value(d) {
			v = starlark.Tuple(d.slice())
		}
		return starlark.None, stdlib.Each(v, func(x starlark.Value) error { return push(d, x) })
	})
}

var dequeMethods = map[string]stdlib.Func{
	"append": dequeTakes(func(c *stdlib.Call, d *deque, v starlark.Value) (starlark.Value, error) {
		return starlark.None, d.push(v)
	}),
	"appendleft": dequeTakes(func(c *stdlib.Call, d *deque, v starlark.Value) (starlark.Value, error) {
		return starlark.None, d.pushLeft(v)
	}),
	"extend":     extend((*deque).push),
	"extendleft": extend((*deque).pushLeft),
	"pop":        take((*deque).takeRight),
	"popleft":    take((*deque).takeLeft),
	"clear": dequeMethod(func(d *deque) (starlark.Value, error) {
		err := d.change()
		if err == nil {
			d.replace(nil)
		}
		return starlark.None, err
	}),
	"copy": dequeMethod(func(d *deque) (starlark.Value, error) { return d.copy(), nil }),
	"reverse": dequeMethod(func(d *deque) (starlark.Value, error) {
		err := d.change()
		if err == nil {
			values := d.slice()
			slices.Reverse(values)
			d.replace(values)
		}
		return starlark.None, err
	}),
	"count": dequeTakes(func(c *stdlib.Call, d *deque, v starlark.Value) (starlark.Value, error) {
		n := 0
		for _, x := range d.slice() {
			same, err := stdlib.Equal(x, v)
			if err != nil {
				return nil, err
			}
			if same {
				n++
			}
		}
		return starlark.MakeInt(n), nil
	}),
	"remove": dequeTakes(func(c *stdlib.Call, d *deque, v starlark.Value) (starlark.Value, error) {
		i, err := d.find(v, 0, d.length)
		if err != nil {
			return nil, err
		}
		if i < 0 {
			return nil, stdlib.Errorf(stdlib.ValueError, "%s is not in deque", c.Env().Repr(v))
		}
		if err := d.change(); err != nil {
			return nil, err
		}
		d.replace(slices.Delete(d.slice(), i, i+1))
		return starlark.None, nil
	}),
	"index":  dequeIndex,
	"insert": dequeInsert,
	"rotate": func(c *stdlib.Call) (starlark.Value, error) {
		n := 1
		d := c.Receiver.(*deque)
		if err := c.Unpack("n?", &n, "/", nil); err != nil || d.length == 0 {
			return starlark.None, err
		}
		if err := d.change(); err != nil {
			return nil, err
		}
		values := d.slice()
		n = ((n % d.length) + d.length) % d.length
		cut := d.length - n
		d.replace(append(slices.Clone(values[cut:]), values[:cut]...))
		return starlark.None, nil
	},
}

// bound returns an index in the form of slices.
func bound(v starlark.Value, otherwise, length int) (int, error) {
	if v == nil {
		return otherwise, nil
	}
	n, err := stdlib.Int(v)
	if n < 0 {
		n += length
	}
	return min(max(n, 0), length), err
}

func dequeIndex(c *stdlib.Call) (starlark.Value, error) {
	var v, start, stop starlark.Value
	if err := c.Unpack("value", &v, "start?", &start, "stop?", &stop, "/", nil); err != nil {
		return nil, err
	}
	d := c.Receiver.(*deque)
	from, err := bound(start, 0, d.length)
	if err != nil {
		return nil, err
	}
	to, err := bound(stop, d.length, d.length)
	if err != nil {
		return nil, err
	}
	i, err := d.find(v, from, to)
	if err == nil && i < 0 {
		err = stdlib.Errorf(stdlib.ValueError, "%s is not in deque", c.Env().Repr(v))
	}
	return starlark.MakeInt(i), err
}

func dequeInsert(c *stdlib.Call) (starlark.Value, error) {
	var index, v starlark.Value
	if err := c.Unpack("index", &index, "value", &v, "/", nil); err != nil {
		return nil, err
	}
	d := c.Receiver.(*deque)
	if d.length == d.most {
		return nil, stdlib.Errorf(stdlib.IndexError, "deque already at its maximum size")
	}
	i, err := bound(index, 0, d.length)
	if err != nil {
		return nil, err
	}
	if err := d.push(v); err != nil {
		return nil, err
	}
	for j := d.length - 1; j > i; j-- {
		*d.at(j) = *d.at(j - 1)
	}
	*d.at(i) = v
	return starlark.None, nil
}
