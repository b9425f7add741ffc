package collections

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// byCount returns the pairs of a Counter, the most common first, in a stable order.
func (n *counter) byCount() ([]starlark.Value, error) {
	items := make([]starlark.Value, 0, n.Len())
	for _, kv := range n.Items() {
		items = append(items, kv)
	}
	var failed error
	slices.SortStableFunc(items, func(x, y starlark.Value) int {
		a, b := x.(starlark.Tuple)[1], y.(starlark.Tuple)[1]
		more, err := stdlib.Less(b, a)
		if err != nil {
			failed = err
		}
		if more {
			return -1
		}
		if less, _ := stdlib.Less(a, b); less {
			return 1
		}
		return 0
	})
	return items, failed
}

func (n *counter) AttrNames() []string {
	return append(n.dict.AttrNames(), "copy", "elements", "most_common", "subtract", "total")
}

func (n *counter) Attr(name string) (starlark.Value, error) {
	if m := stdlib.Method(n, name, counterMethods); m != nil {
		return m, nil
	}
	return n.env.DictAttr(n, name)
}

var counterMethods = map[string]stdlib.Func{
	"most_common": func(c *stdlib.Call) (starlark.Value, error) {
		var most starlark.Value
		if err := c.Unpack("n??", &most); err != nil {
			return nil, err
		}
		items, err := c.Receiver.(*counter).byCount()
		if err != nil {
			return nil, err
		}
		if most != nil {
			n, err := stdlib.Int(most)
			if err != nil {
				return nil, err
			}
			items = items[:min(max(n, 0), len(items))]
		}
		return starlark.NewList(items), nil
	},
	"elements": func(c *stdlib.Call) (starlark.Value, error) {
		if err := c.Unpack(); err != nil {
			return nil, err
		}
		items := c.Receiver.(*counter).Items()
		i, left := 0, 0
		return stdlib.NewIterator("itertools.chain", func() (starlark.Value, error) {
			for left == 0 {
				if i == len(items) {
					return nil, nil
				}
				n, err := stdlib.Int(items[i][1])
				if err != nil {
					return nil, err
				}
				left = max(n, 0)
				i++
			}
			left--
			return items[i-1][0], nil
		}), nil
	},
	"total": func(c *stdlib.Call) (starlark.Value, error) {
		total := zero
		for _, v := range c.Receiver.(*counter).dict.Entries() {
			var err error
			if total, err = stdlib.Binary(syntax.PLUS, total, v); err != nil {
				return nil, err
			}
		}
		return total, c.Unpack()
	},
	"update": func(c *stdlib.Call) (starlark.Value, error) {
		from, err := firstOnly(c)
		if err != nil {
			return nil, err
		}
		return starlark.None, c.Receiver.(*counter).count(from, c.Kwargs, syntax.PLUS)
	},
	"subtract": func(c *stdlib.Call) (starlark.Value, error) {
		from, err := firstOnly(c)
		if err != nil {
			return nil, err
		}
		return starlark.None, c.Receiver.(*counter).count(from, c.Kwargs, syntax.MINUS)
	},
	"copy": func(c *stdlib.Call) (starlark.Value, error) {
		return &counter{c.Receiver.(*counter).clone()}, c.Unpack()
	},
}
