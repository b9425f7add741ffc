package itertools

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// groups is the state of a groupby.
type groups struct {
	call   *stdlib.Call
	next   source
	key    starlark.Value // the function, nil for none
	value  starlark.Value // the element read but not given out; nil at the end
	of     starlark.Value // the key of value
	number int            // of the present group
}

func groupBy(c *stdlib.Call) (starlark.Value, error) {
	var iterable starlark.Value
	g := &groups{call: c}
	if err := c.Unpack("iterable", &iterable, "key??", &g.key); err != nil {
		return nil, err
	}
	var err error
	if g.next, err = c.Source(iterable); err != nil {
		return nil, err
	}
	var present starlark.Value // key of the group given out last
	return iterator("groupby", func() (starlark.Value, error) {
		if g.number == 0 {
			if err := g.read(); err != nil {
				return nil, err
			}
		}
		for present != nil && g.value != nil { // the rest of this group
			same, err := stdlib.Equal(g.of, present)
			if err != nil {
				return nil, err
			}
			if !same {
				break
			}
			if err := g.read(); err != nil {
				return nil, err
			}
		}
		g.number++
		if g.value == nil {
			return nil, nil
		}
		present = g.of
		return starlark.Tuple{present, g.group(present, g.number)}, nil
	})
}

// read reads an element and the element's key.
func (g *groups) read() error {
	v, err := g.next()
	g.value = v
	if v == nil || err != nil {
		return err
	}
	g.of = v
	if g.key != nil {
		g.of, err = g.call.Call(g.key, v)
	}
	return err
}

// group returns the elements of the group with a number.
func (g *groups) group(key starlark.Value, number int) starlark.Value {
	return stdlib.NewIterator("itertools._grouper", func() (starlark.Value, error) {
		if g.number != number || g.value == nil {
			return nil, nil
		}
		if same, err := stdlib.Equal(g.of, key); !same || err != nil {
			return nil, err
		}
		v := g.value
		return v, g.read()
	})
}

// link is an element possibly still needed by several iterators of a tee.
type link struct {
	value starlark.Value
	next  *link
	read  bool
}

func tee(c *stdlib.Call) (starlark.Value, error) {
	var iterable starlark.Value
	n := 2
	if err := c.Unpack("iterable", &iterable, "n?", &n, "/", nil); err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "n must be >= 0")
	}
	const iteratorSize = 200
	if n > 1<<40 {
		n = 1 << 40 // more than any memory
	}
	if err := c.Env().Charge(n * iteratorSize); err != nil {
		return nil, err
	}
	next, err := c.Source(iterable)
	if err != nil {
		return nil, err
	}
	first := &link{}
	out := make(starlark.Tuple, n)
	for i := range out {
		at := first
		out[i], _ = iterator("_tee", func() (starlark.Value, error) {
			if !at.read {
				v, err := next()
				if err != nil {
					return nil, err
				}
				at.value, at.next, at.read = v, &link{}, true
			}
			v := at.value
			if v != nil {
				at = at.next
			}
			return v, nil
		})
	}
	return out, nil
}

func pairwise(c *stdlib.Call) (starlark.Value, error) {
	next, err := onlySource(c)
	if err != nil {
		return nil, err
	}
	var last starlark.Value
	return iterator("pairwise", func() (starlark.Value, error) {
		if last == nil {
			v, err := next()
			if v == nil || err != nil {
				return nil, err
			}
			last = v
		}
		v, err := next()
		if v == nil || err != nil {
			return nil, err
		}
		pair := starlark.Tuple{last, v}
		last = v
		return pair, nil
	})
}

// batched is the function of Python 3.12, with strict of 3.13.
func batched(c *stdlib.Call) (starlark.Value, error) {
	var iterable starlark.Value
	var n int
	strict := false
	if err := c.Unpack("iterable", &iterable, "n", &n, "*", nil, "strict?", &strict); err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, stdlib.Errorf(stdlib.ValueError, "n must be at least one")
	}
	next, err := c.Source(iterable)
	if err != nil {
		return nil, err
	}
	return iterator("batched", func() (starlark.Value, error) {
		batch := c.Env().NewValues()
		for len(batch.List) < n {
			v, err := next()
			if err != nil {
				return nil, err
			}
			if v == nil {
				break
			}
			if err := batch.Add(v); err != nil {
				return nil, err
			}
		}
		switch {
		case len(batch.List) == 0:
			return nil, nil
		case strict && len(batch.List) < n:
			return nil, stdlib.Errorf(stdlib.ValueError, "batched(): incomplete batch")
		}
		return starlark.Tuple(batch.List), nil
	})
}
