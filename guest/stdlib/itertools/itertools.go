// Package itertools is Python's module itertools. Begin with [Module].
package itertools

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Module returns the module itertools.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{
		"count": count, "cycle": cycle, "repeat": repeat, "accumulate": accumulate, "compress": compress,
		"dropwhile": dropWhile, "takewhile": takeWhile, "filterfalse": filterFalse, "starmap": starMap,
		"islice": slice, "zip_longest": zipLongest, "groupby": groupBy, "tee": tee, "pairwise": pairwise,
		"batched": batched, "product": product, "permutations": permutations,
		"combinations": combinations, "combinations_with_replacement": combinations,
	})
	members["chain"] = &stdlib.Class{
		Named: "chain",
		New: func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			c := &stdlib.Call{Thread: thread, Name: "chain", Args: args, Kwargs: kwargs}
			if len(kwargs) > 0 {
				return nil, c.Errorf(stdlib.TypeError, "takes no keyword arguments")
			}
			return chain(c, args)
		},
		Is: func(v starlark.Value) bool { return v.Type() == "itertools.chain" },
		Attrs: stdlib.Funcs(map[string]stdlib.Func{"from_iterable": func(c *stdlib.Call) (starlark.Value, error) {
			var all starlark.Value
			if err := c.Unpack("iterable", &all, "/", nil); err != nil {
				return nil, err
			}
			return chain(c, all)
		}}),
	}
	return &stdlib.Module{Name: "itertools", Members: members}
}

type source = func() (starlark.Value, error)

func iterator(kind string, next source) (starlark.Value, error) {
	return stdlib.NewIterator("itertools."+kind, next), nil
}

// number returns an error for anything but a number.
func number(v starlark.Value) error {
	switch v.(type) {
	case starlark.Int, starlark.Float, starlark.Bool, stdlib.Object:
		return nil
	}
	return stdlib.Errorf(stdlib.TypeError, "a number is required")
}

func count(c *stdlib.Call) (starlark.Value, error) {
	var at, step starlark.Value = starlark.MakeInt(0), starlark.MakeInt(1)
	if err := c.Unpack("start?", &at, "step?", &step); err != nil {
		return nil, err
	}
	for _, v := range []starlark.Value{at, step} {
		if err := number(v); err != nil {
			return nil, err
		}
	}
	first := true
	return iterator("count", func() (_ starlark.Value, err error) {
		if !first {
			at, err = stdlib.Binary(syntax.PLUS, at, step)
		}
		first = false
		return at, err
	})
}

func cycle(c *stdlib.Call) (starlark.Value, error) {
	next, err := onlySource(c)
	if err != nil {
		return nil, err
	}
	seen := c.Env().NewValues()
	i, ended := 0, false
	return iterator("cycle", func() (starlark.Value, error) {
		if !ended {
			v, err := next()
			if v != nil || err != nil {
				if err == nil {
					err = seen.Add(v)
				}
				return v, err
			}
			ended = true
		}
		if len(seen.List) == 0 {
			return nil, nil
		}
		v := seen.List[i]
		i = (i + 1) % len(seen.List)
		return v, nil
	})
}

// onlySource returns the elements of the only argument.
func onlySource(c *stdlib.Call) (source, error) {
	var v starlark.Value
	if err := c.Unpack("iterable", &v, "/", nil); err != nil {
		return nil, err
	}
	return c.Source(v)
}

func repeat(c *stdlib.Call) (starlark.Value, error) {
	var v, times starlark.Value
	if err := c.Unpack("object", &v, "times?", &times); err != nil {
		return nil, err
	}
	left := -1
	if times != nil {
		n, err := stdlib.Int(times)
		if err != nil {
			return nil, err
		}
		left = max(n, 0)
	}
	return iterator("repeat", func() (starlark.Value, error) {
		if left == 0 {
			return nil, nil
		}
		if left > 0 {
			left--
		}
		return v, nil
	})
}

func chain(c *stdlib.Call, iterables starlark.Value) (starlark.Value, error) {
	outer, err := c.Source(iterables)
	if err != nil {
		return nil, err
	}
	var inner source
	return iterator("chain", func() (starlark.Value, error) {
		for {
			if inner != nil {
				if v, err := inner(); v != nil || err != nil {
					return v, err
				}
			}
			v, err := outer()
			if v == nil || err != nil {
				return nil, err
			}
			if inner, err = c.Source(v); err != nil {
				return nil, err
			}
		}
	})
}

func accumulate(c *stdlib.Call) (starlark.Value, error) {
	var iterable, f, total starlark.Value
	if err := c.Unpack("iterable", &iterable, "func??", &f, "*", nil, "initial??", &total); err != nil {
		return nil, err
	}
	next, err := c.Source(iterable)
	if err != nil {
		return nil, err
	}
	begun := false
	return iterator("accumulate", func() (starlark.Value, error) {
		if total != nil && !begun {
			begun = true
			return total, nil
		}
		v, err := next()
		if v == nil || err != nil {
			return nil, err
		}
		switch {
		case total == nil:
			begun, total = true, v
		case f != nil:
			total, err = c.Call(f, total, v)
		default:
			total, err = stdlib.Binary(syntax.PLUS, total, v)
		}
		return total, err
	})
}

func compress(c *stdlib.Call) (starlark.Value, error) {
	var data, selectors starlark.Value
	if err := c.Unpack("data", &data, "selectors", &selectors); err != nil {
		return nil, err
	}
	next, err := c.Source(data)
	if err != nil {
		return nil, err
	}
	choose, err := c.Source(selectors)
	if err != nil {
		return nil, err
	}
	return iterator("compress", func() (starlark.Value, error) {
		for {
			v, err := next()
			if v == nil || err != nil {
				return nil, err
			}
			s, err := choose()
			if s == nil || err != nil {
				return nil, err
			}
			if s.Truth() {
				return v, nil
			}
		}
	})
}

// filtered reads a function and an iterable. is is the truth of the function.
func filtered(c *stdlib.Call) (is func(starlark.Value) (bool, error), next source, err error) {
	var f, iterable starlark.Value
	if err := c.Unpack("function", &f, "iterable", &iterable, "/", nil); err != nil {
		return nil, nil, err
	}
	next, err = c.Source(iterable)
	return func(v starlark.Value) (bool, error) {
		if f == starlark.None {
			return bool(v.Truth()), nil
		}
		answer, err := c.Call(f, v)
		return err == nil && bool(answer.Truth()), err
	}, next, err
}

func dropWhile(c *stdlib.Call) (starlark.Value, error) {
	is, next, err := filtered(c)
	if err != nil {
		return nil, err
	}
	begun := false
	return iterator("dropwhile", func() (starlark.Value, error) {
		for {
			v, err := next()
			if v == nil || err != nil || begun {
				return v, err
			}
			drop, err := is(v)
			if err != nil {
				return nil, err
			}
			if !drop {
				begun = true
				return v, nil
			}
		}
	})
}

func takeWhile(c *stdlib.Call) (starlark.Value, error) {
	is, next, err := filtered(c)
	if err != nil {
		return nil, err
	}
	return iterator("takewhile", func() (starlark.Value, error) {
		v, err := next()
		if v == nil || err != nil {
			return nil, err
		}
		if take, err := is(v); !take || err != nil {
			return nil, err
		}
		return v, nil
	})
}

func filterFalse(c *stdlib.Call) (starlark.Value, error) {
	is, next, err := filtered(c)
	if err != nil {
		return nil, err
	}
	return iterator("filterfalse", func() (starlark.Value, error) {
		for {
			v, err := next()
			if v == nil || err != nil {
				return nil, err
			}
			if drop, err := is(v); !drop || err != nil {
				return v, err
			}
		}
	})
}

func starMap(c *stdlib.Call) (starlark.Value, error) {
	var f, iterable starlark.Value
	if err := c.Unpack("function", &f, "iterable", &iterable, "/", nil); err != nil {
		return nil, err
	}
	next, err := c.Source(iterable)
	if err != nil {
		return nil, err
	}
	return iterator("starmap", func() (starlark.Value, error) {
		v, err := next()
		if v == nil || err != nil {
			return nil, err
		}
		args, err := c.Elements(v)
		if err != nil {
			return nil, err
		}
		return c.Call(f, args...)
	})
}

func slice(c *stdlib.Call) (starlark.Value, error) {
	var iterable, x, y, z starlark.Value
	if err := c.Unpack("iterable", &iterable, "start", &x, "stop?", &y, "step?", &z, "/", nil); err != nil {
		return nil, err
	}
	if y == nil {
		x, y = starlark.None, x
	}
	const forever = 1<<63 - 1
	start, stop, step := 0, forever, 1
	for _, p := range []struct {
		v     starlark.Value
		to    *int
		least int
	}{{x, &start, 0}, {y, &stop, 0}, {z, &step, 1}} {
		if p.v == nil || p.v == starlark.None {
			continue
		}
		n, err := stdlib.Int(p.v)
		if err != nil || n < p.least {
			return nil, stdlib.Errorf(stdlib.ValueError, "Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize; the step at least 1")
		}
		*p.to = n
	}
	next, err := c.Source(iterable)
	if err != nil {
		return nil, err
	}
	at, want := 0, start
	return iterator("islice", func() (starlark.Value, error) {
		if want >= stop {
			for ; at < stop; at++ { // as in Python, skipped elements at the end are taken
				if v, err := next(); v == nil || err != nil {
					return nil, err
				}
			}
			return nil, nil
		}
		for ; at < want; at++ {
			if v, err := next(); v == nil || err != nil {
				return nil, err
			}
		}
		at++
		if want += step; want < 0 {
			want = forever
		}
		return next()
	})
}

func zipLongest(c *stdlib.Call) (starlark.Value, error) {
	var fill starlark.Value = starlark.None
	named := *c
	named.Args = nil
	if err := named.Unpack("*", nil, "fillvalue?", &fill); err != nil {
		return nil, err
	}
	sources := make([]source, len(c.Args))
	for i, v := range c.Args {
		var err error
		if sources[i], err = c.Source(v); err != nil {
			return nil, err
		}
	}
	left := len(sources)
	return iterator("zip_longest", func() (starlark.Value, error) {
		if left == 0 {
			return nil, nil
		}
		row := make(starlark.Tuple, len(sources))
		for i := range sources {
			row[i] = fill
			if sources[i] == nil {
				continue
			}
			v, err := sources[i]()
			if err != nil {
				return nil, err
			}
			if v != nil {
				row[i] = v
				continue
			}
			sources[i] = nil
			if left--; left == 0 {
				return nil, nil
			}
		}
		return row, nil
	})
}
