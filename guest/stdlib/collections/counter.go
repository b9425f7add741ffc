package collections

import (
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// counter is a Counter.
type counter struct{ mapping }

var (
	_ stdlib.Dict         = (*counter)(nil)
	_ starlark.HasAttrs   = (*counter)(nil)
	_ starlark.Comparable = (*counter)(nil)
	_ starlark.HasBinary  = (*counter)(nil)
	_ starlark.HasUnary   = (*counter)(nil)
)

var zero starlark.Value = starlark.MakeInt(0)

func newCounter(c *stdlib.Call) (starlark.Value, error) {
	n := &counter{newMapping(c)}
	from, err := firstOnly(c)
	if err != nil {
		return nil, err
	}
	return n, n.count(from, c.Kwargs, syntax.PLUS)
}

// count adds or subtracts the elements of an iterable, or the counts of a mapping.
func (n *counter) count(from starlark.Value, kwargs []starlark.Tuple, op syntax.Token) error {
	add := func(k, by starlark.Value) error {
		old, found, err := n.dict.Get(k)
		if err != nil {
			return err
		}
		if !found {
			old = zero
			if op == syntax.PLUS {
				return n.dict.SetKey(k, by)
			}
		}
		v, err := stdlib.Binary(op, old, by)
		if err != nil {
			return err
		}
		return n.dict.SetKey(k, v)
	}
	if from != nil && from != starlark.None {
		one := starlark.MakeInt(1)
		items, ok := itemsOf(from)
		for _, kv := range items {
			if err := add(kv[0], kv[1]); err != nil {
				return err
			}
		}
		if !ok {
			if err := stdlib.Each(from, func(k starlark.Value) error { return add(k, one) }); err != nil {
				return err
			}
		}
	}
	for _, kv := range kwargs {
		if err := add(kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}

func (n *counter) String() string { return n.Repr(stdlib.PlainRepr) }

// Repr is Counter({...}), the most common first.
func (n *counter) Repr(repr func(starlark.Value) string) string {
	if n.Len() == 0 {
		return "Counter()"
	}
	sorted := mapping{starlark.NewDict(n.Len()), n.env}
	items, err := n.byCount()
	if err != nil { // incomparable counts
		return "Counter(" + n.dictText(repr) + ")"
	}
	for _, kv := range items {
		pair := kv.(starlark.Tuple)
		_ = sorted.dict.SetKey(pair[0], pair[1]) // a key of a dict is hashable
	}
	return "Counter(" + sorted.dictText(repr) + ")"
}

// Get is n[k], 0 for uncounted keys.
func (n *counter) Get(k starlark.Value) (starlark.Value, bool, error) {
	v, found, err := n.dict.Get(k)
	if !found {
		v = zero
	}
	return v, true, err
}

// CompareSameType compares with any dict. Of two Counters, a missing count is 0, and < and the like
// compare all counts.
func (n *counter) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	other, ok := y.(*counter)
	if !ok {
		return n.mapping.CompareSameType(op, y, depth)
	}
	each := op
	switch op {
	case syntax.NEQ:
		each = syntax.EQL
	case syntax.LT:
		each = syntax.LE
	case syntax.GT:
		each = syntax.GE
	}
	all, equal := true, true
	for _, c := range []*counter{n, other} {
		for k := range c.dict.Entries() {
			x, _, _ := n.Get(k)
			z, _, _ := other.Get(k)
			holds, err := stdlib.Compare(each, x, z)
			if err != nil {
				return false, err
			}
			same, err := stdlib.Equal(x, z)
			if err != nil {
				return false, err
			}
			all, equal = all && holds, equal && same
		}
	}
	switch op {
	case syntax.NEQ:
		return !equal, nil
	case syntax.LT, syntax.GT:
		return all && !equal, nil
	}
	return all, nil
}

// Binary is + - & | of Counters. Only positive counts stay.
func (n *counter) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	other, ok := y.(*counter)
	if !ok || side != starlark.Left {
		return nil, nil
	}
	of := func(x, z starlark.Value) (starlark.Value, error) { return stdlib.Binary(op, x, z) }
	switch op {
	case syntax.PLUS, syntax.MINUS:
	case syntax.AMP, syntax.PIPE:
		of = func(x, z starlark.Value) (starlark.Value, error) {
			less, err := stdlib.Less(x, z)
			if less == (op == syntax.AMP) {
				return x, err
			}
			return z, err
		}
	default:
		return nil, nil
	}
	out := &counter{mapping{starlark.NewDict(n.Len()), n.env}}
	for i, c := range []*counter{n, other} {
		for k := range c.dict.Entries() {
			if _, seen, _ := n.dict.Get(k); i == 1 && seen {
				continue
			}
			x, _, _ := n.Get(k)
			z, _, _ := other.Get(k)
			v, err := of(x, z)
			if err == nil {
				err = out.keep(k, v)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// keep sets a count if the count is positive.
func (n *counter) keep(k, v starlark.Value) error {
	positive, err := stdlib.Less(zero, v)
	if err != nil || !positive {
		return err
	}
	return n.dict.SetKey(k, v)
}

// Unary is +n and -n.
func (n *counter) Unary(op syntax.Token) (starlark.Value, error) {
	if op != syntax.PLUS && op != syntax.MINUS {
		return nil, nil
	}
	out := &counter{mapping{starlark.NewDict(n.Len()), n.env}}
	for k, v := range n.dict.Entries() {
		v, err := stdlib.Binary(op, zero, v)
		if err == nil {
			err = out.keep(k, v)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

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
