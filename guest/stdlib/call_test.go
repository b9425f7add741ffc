package stdlib_test

import (
	"errors"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
	"go.starlark.net/starlark"
)

// module has functions that read their arguments in each way.
func module() *stdlib.Module {
	return &stdlib.Module{Name: "m", Members: stdlib.Funcs(map[string]stdlib.Func{
		"f": func(c *stdlib.Call) (starlark.Value, error) {
			a, b, flag, s := 0, 1.5, false, "-"
			var v starlark.Value
			err := c.Unpack("a", &a, "/", nil, "b?", &b, "s??", &s, "*", nil, "flag?", &flag, "v??", &v)
			if v == nil {
				v = starlark.String("absent")
			}
			return starlark.Tuple{starlark.MakeInt(a), starlark.Float(b), starlark.String(s), starlark.Bool(flag), v}, err
		},
		"elements": func(c *stdlib.Call) (starlark.Value, error) {
			all, err := c.Elements(c.Args[0])
			return starlark.NewList(all), err
		},
		"failing": func(c *stdlib.Call) (starlark.Value, error) {
			n := 0
			return stdlib.NewIterator("failing", func() (starlark.Value, error) {
				if n++; n > 2 {
					return nil, stdlib.Errorf(stdlib.RuntimeError, "no more")
				}
				return starlark.MakeInt(n), nil
			}), nil
		},
		"sorted": func(c *stdlib.Call) (starlark.Value, error) {
			all, err := c.Elements(c.Args[0])
			if err == nil {
				err = c.Sort(all, c.Args[1], bool(c.Args[2].Truth()))
			}
			return starlark.NewList(all), err
		},
	})}
}

func TestCalls(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(module()), []stdlibtest.Case{
		{Script: "m.f(1)", Want: "(1, 1.5, '-', False, 'absent')"},
		{Script: "m.f(True, 2, 'x', flag=[1], v=3)", Want: "(1, 2.0, 'x', True, 3)"},
		{Script: "m.f(1, s=None, v=None)", Want: "(1, 1.5, '-', False, 'absent')"},
		{Script: "m.f()", Want: "!TypeError"},
		{Script: "m.f(a=1)", Want: "!TypeError"}, // by position only
		{Script: "m.f(1, 2, 'x', True)", Want: "!TypeError"},
		{Script: "m.f(1, 2, b=3)", Want: "!TypeError"},
		{Script: "m.f(1, nope=3)", Want: "!TypeError"},
		{Script: "m.f('x')", Want: "!TypeError"},
		{Script: "m.f(1 << 70)", Want: "!OverflowError"},
		{Script: "m.f(1, 'x')", Want: "!TypeError"},
		{Script: "m.f(1, s=5)", Want: "!TypeError"},
		{Script: "m.elements(range(3))", Want: "[0, 1, 2]"},
		{Script: "m.elements(5)", Want: "!TypeError"},
		{Script: "m.elements(range(1 << 40))", Want: "!memory"},
		{Script: "m.elements(m.failing())", Want: "!RuntimeError"},
		{Script: "next(m.failing())", Want: "1"},
		{Script: "m.sorted([3, 1, 2], None, False)", Want: "[1, 2, 3]"},
		{Script: "m.sorted(['bb', 'a', 'cc'], len, True)", Want: "['bb', 'cc', 'a']"},
		{Script: "m.sorted([1, 'a'], None, False)", Want: "!TypeError"},
		{Script: "m.sorted([1, 2], lambda x: 1 // 0, False)", Want: "!?"},
	})
}

// TestIteratorEnds: after its end, or an error, an iterator stays at its end.
func TestIteratorEnds(t *testing.T) {
	n := 0
	it := stdlib.NewIterator("x", func() (starlark.Value, error) {
		n++
		return nil, errors.New("failed")
	})
	if _, err := it.Take(); err == nil {
		t.Error("no error")
	}
	if v, err := it.Take(); v != nil || err != nil || n != 1 {
		t.Errorf("after the error: %v, %v, asked %d times", v, err, n)
	}
	over := it.Iterate()
	var v starlark.Value
	if over.Next(&v) || stdlib.ErrOf(over) != nil {
		t.Error("the iteration goes on")
	}
}

func TestFloatText(t *testing.T) {
	for f, want := range map[float64]string{
		1: "1.0", 0.1: "0.1", 1e16: "1e+16", 123456789012345680: "1.2345678901234568e+17", 1e-5: "1e-05", 0.0001: "0.0001", 1e22: "1e+22", 5e-324: "5e-324",
	} {
		if got := stdlib.FloatText(f); got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
}
