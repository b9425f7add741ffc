// Package heapq is Python's module heapq. Lists get the same order as in Python.
package heapq

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// Module returns the module heapq.
func Module() *stdlib.Module {
	return &stdlib.Module{Name: "heapq", Members: stdlib.Funcs(map[string]stdlib.Func{
		"heapify": heapify, "heappush": push, "heappop": pop, "heapreplace": replace, "heappushpop": pushPop,
		"nlargest": extremes, "nsmallest": extremes, "merge": merge,
	})}
}

// heap is a list in heap order.
type heap struct{ *starlark.List }

// unpack reads a heap, and a value unless item is nil.
func unpack(c *stdlib.Call, item *starlark.Value) (heap, error) {
	var v starlark.Value
	pairs := []any{"heap", &v}
	if item != nil {
		pairs = append(pairs, "item", item)
	}
	if err := c.Unpack(append(pairs, "/", nil)...); err != nil {
		return heap{}, err
	}
	list, ok := v.(*starlark.List)
	if !ok {
		return heap{}, c.Errorf(stdlib.TypeError, "heap argument must be a list, not %s", stdlib.TypeName(v))
	}
	return heap{list}, nil
}

// down moves the element at pos towards the root, as far as start.
func (h heap) down(start, pos int) error {
	item := h.Index(pos)
	for pos > start {
		parent := (pos - 1) / 2
		less, err := stdlib.Less(item, h.Index(parent))
		if err != nil {
			return err
		}
		if !less {
			break
		}
		if err := h.swap(pos, parent); err != nil {
			return err
		}
		pos = parent
	}
	return nil
}

// up moves the element at pos to a leaf by way of the smaller children, then to its
// place.
func (h heap) up(pos int) error {
	start := pos
	for child := 2*pos + 1; child < h.Len(); child = 2*pos + 1 {
		if right := child + 1; right < h.Len() {
			less, err := stdlib.Less(h.Index(child), h.Index(right))
			if err != nil {
				return err
			}
			if !less {
				child = right
			}
		}
		if child >= h.Len() {
			break // a comparison changed the list
		}
		if err := h.swap(pos, child); err != nil {
			return err
		}
		pos = child
	}
	if pos >= h.Len() {
		return nil
	}
	return h.down(start, pos)
}

func (h heap) swap(i, j int) error {
	if i >= h.Len() || j >= h.Len() {
		return stdlib.Errorf(stdlib.RuntimeError, "list changed size during iteration")
	}
	x, y := h.Index(i), h.Index(j)
	if err := h.SetIndex(i, y); err != nil {
		return err
	}
	return h.SetIndex(j, x)
}

func heapify(c *stdlib.Call) (starlark.Value, error) {
	h, err := unpack(c, nil)
	if err != nil {
		return nil, err
	}
	for i := h.Len()/2 - 1; i >= 0; i-- {
		if err := h.up(i); err != nil {
			return nil, err
		}
	}
	return starlark.None, nil
}

func push(c *stdlib.Call) (starlark.Value, error) {
	var item starlark.Value
	h, err := unpack(c, &item)
	if err != nil {
		return nil, err
	}
	if err := h.Append(item); err != nil {
		return nil, err
	}
	return starlark.None, h.down(0, h.Len()-1)
}

func pop(c *stdlib.Call) (starlark.Value, error) {
	h, err := unpack(c, nil)
	if err != nil {
		return nil, err
	}
	if h.Len() == 0 {
		return nil, stdlib.Errorf(stdlib.IndexError, "index out of range")
	}
	last, err := c.CallMethod(h.List, "pop")
	if err != nil || h.Len() == 0 {
		return last, err
	}
	least := h.Index(0)
	if err := h.SetIndex(0, last); err != nil {
		return nil, err
	}
	return least, h.up(0)
}

func replace(c *stdlib.Call) (starlark.Value, error) {
	var item starlark.Value
	h, err := unpack(c, &item)
	if err != nil {
		return nil, err
	}
	if h.Len() == 0 {
		return nil, stdlib.Errorf(stdlib.IndexError, "index out of range")
	}
	least := h.Index(0)
	if err := h.SetIndex(0, item); err != nil {
		return nil, err
	}
	return least, h.up(0)
}

func pushPop(c *stdlib.Call) (starlark.Value, error) {
	var item starlark.Value
	h, err := unpack(c, &item)
	if err != nil || h.Len() == 0 {
		return item, err
	}
	less, err := stdlib.Less(h.Index(0), item)
	if err != nil || !less {
		return item, err
	}
	least := h.Index(0)
	if err := h.SetIndex(0, item); err != nil {
		return nil, err
	}
	return least, h.up(0)
}

// extremes is nlargest or nsmallest.
func extremes(c *stdlib.Call) (starlark.Value, error) {
	var n int
	var iterable, key starlark.Value
	if err := c.Unpack("n", &n, "iterable", &iterable, "key??", &key); err != nil {
		return nil, err
	}
	all, err := c.Elements(iterable)
	if err != nil {
		return nil, err
	}
	if err := c.Sort(all, key, c.Name == "nlargest"); err != nil {
		return nil, err
	}
	return starlark.NewList(all[:min(max(n, 0), len(all))]), nil
}

// stream is one of the inputs of merge.
type stream struct {
	next  func() (starlark.Value, error)
	value starlark.Value
	key   starlark.Value
}

func (s *stream) read(c *stdlib.Call, key starlark.Value) error {
	v, err := s.next()
	s.value, s.key = v, v
	if v != nil && err == nil && key != nil {
		s.key, err = c.Call(key, v)
	}
	return err
}

// merge gives the elements of sorted inputs in order. With few inputs, going over them
// costs less than a heap.
func merge(c *stdlib.Call) (starlark.Value, error) {
	var key starlark.Value
	reverse := false
	named := *c
	named.Args = nil
	if err := named.Unpack("*", nil, "key??", &key, "reverse?", &reverse); err != nil {
		return nil, err
	}
	streams := make([]*stream, len(c.Args))
	for i, v := range c.Args {
		next, err := c.Source(v)
		if err != nil {
			return nil, err
		}
		streams[i] = &stream{next: next}
	}
	begun := false
	return stdlib.NewIterator("generator", func() (starlark.Value, error) {
		for _, s := range streams {
			if begun {
				break
			}
			if err := s.read(c, key); err != nil {
				return nil, err
			}
		}
		begun = true
		var first *stream
		for _, s := range streams {
			if s.value == nil {
				continue
			}
			if first == nil {
				first = s
				continue
			}
			x, y := s.key, first.key
			if reverse {
				x, y = y, x
			}
			less, err := stdlib.Less(x, y)
			if err != nil {
				return nil, err
			}
			if less {
				first = s
			}
		}
		if first == nil {
			return nil, nil
		}
		v := first.value
		return v, first.read(c, key)
	}), nil
}
