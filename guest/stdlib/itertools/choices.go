package itertools

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

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
