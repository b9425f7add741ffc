package collections

import (
	"fmt"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// deque is a list with two ends. The elements are in a ring.
type deque struct {
	env     *stdlib.Env
	ring    []starlark.Value
	first   int
	length  int
	most    int // the maxlen, negative for none
	frozen  bool
	changes int // counts changes, so loops notice them
}

var (
	_ starlark.Sequence    = (*deque)(nil)
	_ starlark.HasSetIndex = (*deque)(nil)
	_ starlark.HasAttrs    = (*deque)(nil)
	_ starlark.Comparable  = (*deque)(nil)
	_ starlark.HasBinary   = (*deque)(nil)
)

func newDeque(c *stdlib.Call) (starlark.Value, error) {
	var iterable, most starlark.Value
	if err := c.Unpack("iterable?", &iterable, "maxlen??", &most); err != nil {
		return nil, err
	}
	d := &deque{env: c.Env(), most: -1}
	if most != nil {
		n, err := stdlib.Int(most)
		if err != nil {
			return nil, stdlib.Errorf(stdlib.TypeError, "an integer is required")
		}
		if n < 0 {
			return nil, stdlib.Errorf(stdlib.ValueError, "maxlen must be non-negative")
		}
		d.most = n
	}
	if iterable == nil {
		return d, nil
	}
	return d, stdlib.Each(iterable, d.push)
}

func (d *deque) String() string { return d.Repr(stdlib.PlainRepr) }

// Repr is deque([1, 2], maxlen=3).
func (d *deque) Repr(repr func(starlark.Value) string) string {
	text := "deque([" + stdlib.JoinRepr(d.slice(), repr) + "]"
	if d.most >= 0 {
		text += fmt.Sprintf(", maxlen=%d", d.most)
	}
	return text + ")"
}

func (*deque) Type() string           { return "deque" }
func (d *deque) Truth() starlark.Bool { return d.length > 0 }
func (d *deque) Len() int             { return d.length }

// Hash fails: a deque can change.
func (d *deque) Hash() (uint32, error) {
	return 0, stdlib.Errorf(stdlib.TypeError, "unhashable type: 'collections.deque'")
}

// Freeze makes the deque unchangeable.
func (d *deque) Freeze() {
	if !d.frozen {
		d.frozen = true
		for _, v := range d.slice() {
			v.Freeze()
		}
	}
}

func (d *deque) at(i int) *starlark.Value { return &d.ring[(d.first+i)%len(d.ring)] }

// Index is d[i].
func (d *deque) Index(i int) starlark.Value { return *d.at(i) }

// SetIndex is d[i] = v.
func (d *deque) SetIndex(i int, v starlark.Value) error {
	if err := d.change(); err != nil {
		return err
	}
	d.changes-- // a loop may go on
	*d.at(i) = v
	return nil
}

// change is called before a change.
func (d *deque) change() error {
	if d.frozen {
		return stdlib.Errorf(stdlib.TypeError, "cannot change a frozen deque")
	}
	d.changes++
	return nil
}

// grow makes room for another element.
func (d *deque) grow() error {
	if d.length < len(d.ring) {
		return nil
	}
	size := max(8, 2*len(d.ring))
	if err := d.env.Charge(size * 16); err != nil {
		return err
	}
	ring := make([]starlark.Value, size)
	copy(ring, d.slice())
	d.ring, d.first = ring, 0
	return nil
}

// push adds an element at the right end.
func (d *deque) push(v starlark.Value) error {
	if err := d.change(); err != nil || d.most == 0 {
		return err
	}
	if d.length == d.most {
		d.takeLeft()
	}
	if err := d.grow(); err != nil {
		return err
	}
	d.length++
	*d.at(d.length - 1) = v
	return nil
}

// pushLeft adds an element at the left end.
func (d *deque) pushLeft(v starlark.Value) error {
	if err := d.change(); err != nil || d.most == 0 {
		return err
	}
	if d.length == d.most {
		d.takeRight()
	}
	if err := d.grow(); err != nil {
		return err
	}
	d.first = (d.first + len(d.ring) - 1) % len(d.ring)
	d.length++
	*d.at(0) = v
	return nil
}

func (d *deque) takeLeft() starlark.Value {
	v := *d.at(0)
	*d.at(0) = nil
	d.first = (d.first + 1) % len(d.ring)
	d.length--
	return v
}

func (d *deque) takeRight() starlark.Value {
	v := *d.at(d.length - 1)
	*d.at(d.length - 1) = nil
	d.length--
	return v
}

// slice returns the elements.
func (d *deque) slice() []starlark.Value {
	out := make([]starlark.Value, d.length)
	for i := range out {
		out[i] = *d.at(i)
	}
	return out
}

// replace sets the elements.
func (d *deque) replace(values []starlark.Value) {
	d.ring, d.first, d.length = values, 0, len(values)
}

func (d *deque) copy() *deque {
	c := &deque{env: d.env, most: d.most}
	c.replace(d.slice())
	return c
}

// Has is v in d.
func (d *deque) Has(v starlark.Value) (bool, error) {
	i, err := d.find(v, 0, d.length)
	return i >= 0, err
}

// find returns the index of the first element equal to v, or -1.
func (d *deque) find(v starlark.Value, from, to int) (int, error) {
	for i := from; i < to && i < d.length; i++ {
		if same, err := stdlib.Equal(d.Index(i), v); same || err != nil {
			return i, err
		}
	}
	return -1, nil
}

// CompareSameType compares the elements in order.
func (d *deque) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	return starlark.CompareDepth(op, starlark.Tuple(d.slice()), starlark.Tuple(y.(*deque).slice()), depth)
}

// Binary is d + d and d * n.
func (d *deque) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	switch {
	case op == syntax.PLUS && side == starlark.Left:
		other, ok := y.(*deque)
		if !ok {
			return nil, nil
		}
		sum := d.copy()
		for _, v := range other.slice() {
			if err := sum.push(v); err != nil {
				return nil, err
			}
		}
		return sum, nil
	case op == syntax.STAR:
		n, ok := stdlib.Integer(y)
		if !ok {
			return nil, nil
		}
		times, err := stdlib.Int(n)
		if err != nil {
			return nil, err
		}
		out := &deque{env: d.env, most: d.most}
		if d.length == 0 {
			return out, nil
		}
		values := d.slice()
		for range max(times, 0) {
			for _, v := range values {
				if err := out.push(v); err != nil {
					return nil, err
				}
			}
		}
		return out, nil
	}
	return nil, nil
}

// Iterate goes over the elements. A change ends the loop with an error, as in Python.
func (d *deque) Iterate() starlark.Iterator { return &dequeIterator{d: d, changes: d.changes} }

type dequeIterator struct {
	d          *deque
	i, changes int
}

func (it *dequeIterator) Next(p *starlark.Value) bool {
	if it.Err() != nil || it.i >= it.d.length {
		return false
	}
	*p = it.d.Index(it.i)
	it.i++
	return true
}

func (it *dequeIterator) Done() {}

// Err reports a change of the deque.
func (it *dequeIterator) Err() error {
	if it.changes != it.d.changes {
		return stdlib.Errorf(stdlib.RuntimeError, "deque mutated during iteration")
	}
	return nil
}

// CopyWith is for copy.deepcopy.
func (d *deque) CopyWith(element func(starlark.Value) (starlark.Value, error)) (starlark.Value, error) {
	out := d.copy()
	for i := range out.length {
		v, err := element(out.Index(i))
		if err != nil {
			return nil, err
		}
		*out.at(i) = v
	}
	return out, nil
}

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
