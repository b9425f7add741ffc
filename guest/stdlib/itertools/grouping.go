package itertools

import (
	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
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

// picker gives tuples of elements of pools, by indexes from advance.
func picker(kind string, pools [][]starlark.Value, indexes []int, advance func() bool) (starlark.Value, error) {
	first := true
	return iterator(kind, func() (starlark.Value, error) {
		if !first && !advance() {
			return nil, nil
		}
		first = false
		row := make(starlark.Tuple, len(indexes))
		for i, at := range indexes {
			row[i] = pools[i][at]
		}
		return row, nil
	})
}

func none(kind string) (starlark.Value, error) {
	return iterator(kind, func() (starlark.Value, error) { return nil, nil })
}

// columns returns the number of elements of each result, if memory holds them.
func columns(c *stdlib.Call, n, times int) (int, error) {
	const size = 64
	if times > 0 && n > 1<<50/times {
		n, times = 1<<50, 1
	}
	return n * times, c.Env().Charge(n * times * size)
}

func product(c *stdlib.Call) (starlark.Value, error) {
	times := 1
	named := *c
	named.Args = nil
	if err := named.Unpack("*", nil, "repeat?", &times); err != nil {
		return nil, err
	}
	if times < 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "repeat argument cannot be negative")
	}
	n, err := columns(c, len(c.Args), times)
	if err != nil {
		return nil, err
	}
	given := make([][]starlark.Value, len(c.Args))
	for i, v := range c.Args {
		if given[i], err = c.Elements(v); err != nil {
			return nil, err
		}
	}
	pools := make([][]starlark.Value, 0, n)
	for range times {
		if len(given) == 0 {
			break
		}
		pools = append(pools, given...)
	}
	for _, p := range pools {
		if len(p) == 0 {
			return none("product")
		}
	}
	indexes := make([]int, len(pools))
	return picker("product", pools, indexes, func() bool {
		for i := len(indexes) - 1; i >= 0; i-- {
			if indexes[i]++; indexes[i] < len(pools[i]) {
				return true
			}
			indexes[i] = 0
		}
		return false
	})
}

// same returns n times the same pool.
func same(pool []starlark.Value, n int) [][]starlark.Value {
	pools := make([][]starlark.Value, n)
	for i := range pools {
		pools[i] = pool
	}
	return pools
}

func permutations(c *stdlib.Call) (starlark.Value, error) {
	var iterable, length starlark.Value
	if err := c.Unpack("iterable", &iterable, "r??", &length); err != nil {
		return nil, err
	}
	pool, err := c.Elements(iterable)
	if err != nil {
		return nil, err
	}
	n := len(pool)
	r := n
	if length != nil {
		if _, ok := length.(starlark.Int); !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "Expected int as r")
		}
		if r, err = stdlib.Int(length); err != nil {
			return nil, err
		}
	}
	if r < 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "r must be non-negative")
	}
	if r > n {
		return none("permutations")
	}
	indexes, cycles := make([]int, n), make([]int, r)
	for i := range indexes {
		indexes[i] = i
	}
	for i := range cycles {
		cycles[i] = n - i
	}
	return picker("permutations", same(pool, r), indexes[:r], func() bool {
		for i := r - 1; i >= 0; i-- {
			if cycles[i]--; cycles[i] > 0 {
				j := n - cycles[i]
				indexes[i], indexes[j] = indexes[j], indexes[i]
				return true
			}
			at := indexes[i]
			copy(indexes[i:], indexes[i+1:])
			indexes[n-1] = at
			cycles[i] = n - i
		}
		return false
	})
}

// combinations is also combinations_with_replacement.
func combinations(c *stdlib.Call) (starlark.Value, error) {
	var iterable starlark.Value
	var r int
	if err := c.Unpack("iterable", &iterable, "r", &r); err != nil {
		return nil, err
	}
	pool, err := c.Elements(iterable)
	if err != nil {
		return nil, err
	}
	if r < 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "r must be non-negative")
	}
	again := c.Name == "combinations_with_replacement"
	if r, err = columns(c, r, 1); err != nil {
		return nil, err
	}
	n := len(pool)
	if r > n && !again || r > 0 && n == 0 {
		return none(c.Name)
	}
	step := 1
	if again {
		step = 0
	}
	indexes := make([]int, r)
	for i := range indexes {
		indexes[i] = i * step
	}
	return picker(c.Name, same(pool, r), indexes, func() bool {
		for i := r - 1; i >= 0; i-- {
			if indexes[i] == n-1-step*(r-1-i) {
				continue
			}
			indexes[i]++
			for j := i + 1; j < r; j++ {
				indexes[j] = indexes[j-1] + step
			}
			return true
		}
		return false
	})
}
