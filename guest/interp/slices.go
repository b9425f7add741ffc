package interp

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// setSlice is xs[lo:hi:step] = value; a value of nil deletes the elements.
func setSlice(y starlark.Value) (starlark.Value, error) {
	t := y.(starlark.Tuple)
	xs, ok := t[1].(*starlark.List)
	if !ok {
		if i := instanceOf(t[1]); i != nil {
			return nil, i.lacks("does not support slices", "slice support")
		}
		return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object does not support slice assignment", t[1].Type())
	}
	start, end, step, err := sliceBounds(xs.Len(), t[2], t[3], t[4])
	if err != nil {
		return nil, err
	}
	var values []starlark.Value
	if t[0] != nil {
		if _, ok := t[0].(starlark.Iterable); !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "can only assign an iterable to a slice, got %s", t[0].Type())
		}
		list, err := concat(starlark.Tuple{t[0]})
		if err != nil {
			return nil, err
		}
		values = listElems(list)
	}
	if step != 1 {
		return starlark.None, setExtended(xs, start, end, step, values, t[0] == nil)
	}
	end = max(start, end)
	out := make([]starlark.Value, 0, xs.Len()-(end-start)+len(values))
	old := listElems(xs)
	out = append(append(append(out, old[:start]...), values...), old[end:]...)
	return starlark.None, replaceElems(xs, out)
}

// setExtended assigns to, or deletes, elements with a step between them.
func setExtended(xs *starlark.List, start, end, step int, values []starlark.Value, del bool) error {
	chosen := make(map[int]int)
	n := 0
	for i := start; step > 0 && i < end || step < 0 && i > end; i += step {
		chosen[i] = n
		n++
	}
	if !del && n != len(values) {
		return stdlib.Errorf(stdlib.ValueError, "attempt to assign sequence of size %d to extended slice of size %d", len(values), n)
	}
	var out []starlark.Value
	for i, x := range listElems(xs) {
		at, is := chosen[i]
		switch {
		case !is:
			out = append(out, x)
		case !del:
			out = append(out, values[at])
		}
	}
	return replaceElems(xs, out)
}

func listElems(xs *starlark.List) []starlark.Value {
	out := make([]starlark.Value, xs.Len())
	for i := range out {
		out[i] = xs.Index(i)
	}
	return out
}

// replaceElems gives a list other elements.
func replaceElems(xs *starlark.List, elems []starlark.Value) error {
	n := min(len(elems), xs.Len())
	if len(elems) < xs.Len() || len(elems) == 0 {
		if err := xs.Clear(); err != nil {
			return err
		}
		n = 0
	}
	for i, x := range elems {
		var err error
		if i < n {
			err = xs.SetIndex(i, x)
		} else {
			err = xs.Append(x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sliceBounds returns the indexes of a slice of something of length n, as Python
// does.
func sliceBounds(n int, lo, hi, stride starlark.Value) (start, end, step int, err error) {
	step = 1
	if stride != starlark.None {
		if step, err = sliceIndex(stride); err != nil {
			return 0, 0, 0, err
		}
		if step == 0 {
			return 0, 0, 0, stdlib.Errorf(stdlib.ValueError, "slice step cannot be zero")
		}
	}
	low, high := 0, n
	start, end = 0, n
	if step < 0 {
		low, high = -1, n-1
		start, end = n-1, -1
	}
	for _, b := range []struct {
		v  starlark.Value
		to *int
	}{{lo, &start}, {hi, &end}} {
		if b.v == starlark.None {
			continue
		}
		i, err := sliceIndex(b.v)
		if err != nil {
			return 0, 0, 0, err
		}
		if i < 0 {
			i += n
		}
		*b.to = min(max(i, low), high)
	}
	return start, end, step, nil
}

func sliceIndex(v starlark.Value) (int, error) {
	i, ok := asNumber(v).(starlark.Int)
	if !ok {
		return 0, stdlib.Errorf(stdlib.TypeError, "slice indices must be integers or None, got %s", v.Type())
	}
	return clamped(i), nil
}
