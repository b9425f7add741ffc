package interp

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// sliceValue is slice(start, stop, step). The changed library takes it as an index, and classes of
// the script get a sliceValue for x[a:b].
type sliceValue struct{ start, stop, step starlark.Value }

var (
	_ starlark.HasAttrs   = (*sliceValue)(nil)
	_ starlark.Comparable = (*sliceValue)(nil)
	_ stdlib.Representer  = (*sliceValue)(nil)
)

func (s *sliceValue) String() string     { return repr(s) }
func (*sliceValue) Type() string         { return "slice" }
func (*sliceValue) Freeze()              {}
func (*sliceValue) Truth() starlark.Bool { return true }
func (*sliceValue) Hash() (uint32, error) {
	return 0, stdlib.Errorf(stdlib.TypeError, "unhashable type: slice")
}
func (*sliceValue) AttrNames() []string { return []string{"indices", "start", "step", "stop"} }

// Repr is the call for the slice.
func (s *sliceValue) Repr(repr func(starlark.Value) string) string {
	return "slice(" + stdlib.JoinRepr([]starlark.Value{s.start, s.stop, s.step}, repr) + ")"
}

// Bounds returns the bounds for the changed library.
func (s *sliceValue) Bounds() (lo, hi, step starlark.Value) { return s.start, s.stop, s.step }

// CompareSameType compares the three parts.
func (s *sliceValue) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	t := y.(*sliceValue)
	return starlark.CompareDepth(op, starlark.Tuple{s.start, s.stop, s.step}, starlark.Tuple{t.start, t.stop, t.step}, depth)
}

func (s *sliceValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "start":
		return s.start, nil
	case "stop":
		return s.stop, nil
	case "step":
		return s.step, nil
	case "indices":
		return starlark.NewBuiltin(name, s.indices), nil
	}
	return nil, nil
}

// indices returns the three arguments of range for a sequence of a length.
func (s *sliceValue) indices(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var n int
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &n); err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "length should not be negative")
	}
	start, stop, step, err := sliceBounds(n, s.start, s.stop, s.step)
	if err != nil {
		return nil, err
	}
	return starlark.Tuple{starlark.MakeInt(start), starlark.MakeInt(stop), starlark.MakeInt(step)}, nil
}

// sliceBuiltin implements slice(stop) and slice(start, stop, step=None).
func sliceBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var start, stop, step starlark.Value = starlark.None, starlark.None, starlark.None
	if len(args) == 1 && len(kwargs) == 0 {
		return &sliceValue{start, args[0], step}, nil
	}
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &start, &stop, &step); err != nil {
		return nil, err
	}
	return &sliceValue{start, stop, step}, nil
}

// GetSlice is i[lo:hi:step].
func (i *instance) GetSlice(lo, hi, step starlark.Value) (starlark.Value, error) {
	v, _, err := i.Get(&sliceValue{lo, hi, step})
	return v, err
}

// idBuiltin implements id(x): a number, the same for the same object. Numbers are given in the
// order of a script's calls, and do not depend on addresses.
func idBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	mustLook(v)
	r := runOf(thread)
	key := identityOf(v)
	n, ok := r.ids[key]
	if !ok {
		if r.ids == nil {
			r.ids = make(map[any]int)
		}
		n = firstID + len(r.ids)*idStep
		r.ids[key] = n
	}
	return starlark.MakeInt(n), nil
}

// The first number of id, and the step between two: like addresses.
const (
	firstID = 0x7f0000000000
	idStep  = 16
)

// identityOf returns a key that is equal for identical values (see identical).
func identityOf(v starlark.Value) any {
	switch v := v.(type) {
	case starlark.Int: // large ones are pointers
		return "int " + v.String()
	case starlark.Float:
		return "float " + repr(v)
	case starlark.Tuple:
		if len(v) == 0 {
			return "()"
		}
		return &v[0]
	case Object:
		return v.Dict
	case frozenSet:
		return v.Set
	}
	return v
}
