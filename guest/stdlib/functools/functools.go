// Package functools is Python's module functools, without functions in need of classes.
package functools

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/collections"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Module returns the module functools.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{
		"reduce": reduce, "cmp_to_key": cmpToKey, "lru_cache": lruCache, "cache": cacheOf, "wraps": wraps,
	})
	members["partial"] = &stdlib.Class{
		Named: "functools.partial",
		New: func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			return newPartial(args, kwargs)
		},
		Is: func(v starlark.Value) bool { _, ok := v.(*partial); return ok },
	}
	return &stdlib.Module{Name: "functools", Members: members}
}

func reduce(c *stdlib.Call) (starlark.Value, error) {
	var f, iterable, total starlark.Value
	if err := c.Unpack("function", &f, "iterable", &iterable, "initial?", &total, "/", nil); err != nil {
		return nil, err
	}
	err := stdlib.Each(iterable, func(v starlark.Value) (err error) {
		if total == nil {
			total = v
			return nil
		}
		total, err = c.Call(f, total, v)
		return err
	})
	if err == nil && total == nil {
		err = stdlib.Errorf(stdlib.TypeError, "reduce() of empty iterable with no initial value")
	}
	return total, err
}

// wraps is a decorator without effect: functions keep their own names here.
func wraps(c *stdlib.Call) (starlark.Value, error) {
	return stdlib.NewFunc("wraps", func(c *stdlib.Call) (starlark.Value, error) {
		var f starlark.Value
		err := c.Unpack("wrapper", &f)
		return f, err
	}), nil
}

// partial is a function with some arguments.
type partial struct {
	f      starlark.Value
	args   starlark.Tuple
	kwargs []starlark.Tuple
}

var (
	_ starlark.Callable = (*partial)(nil)
	_ starlark.HasAttrs = (*partial)(nil)
)

func newPartial(args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 0 {
		return nil, stdlib.Errorf(stdlib.TypeError, "type 'partial' takes at least one argument")
	}
	if _, ok := args[0].(starlark.Callable); !ok {
		return nil, stdlib.Errorf(stdlib.TypeError, "the first argument must be callable")
	}
	p := &partial{args[0], args[1:], kwargs}
	if inner, ok := p.f.(*partial); ok {
		p.f = inner.f
		p.args = append(append(starlark.Tuple(nil), inner.args...), p.args...)
		p.kwargs = merge(inner.kwargs, kwargs)
	}
	return p, nil
}

// merge returns keyword arguments, of which later ones count.
func merge(first, second []starlark.Tuple) []starlark.Tuple {
	if len(first) == 0 {
		return second
	}
	out := append([]starlark.Tuple(nil), first...)
next:
	for _, kv := range second {
		for i := range out {
			if out[i][0] == kv[0] {
				out[i] = kv
				continue next
			}
		}
		out = append(out, kv)
	}
	return out
}

func (p *partial) String() string        { return fmt.Sprintf("functools.partial(%s)", p.f) }
func (p *partial) Type() string          { return "functools.partial" }
func (p *partial) Freeze()               {}
func (p *partial) Truth() starlark.Bool  { return true }
func (p *partial) Hash() (uint32, error) { return p.f.Hash() }
func (p *partial) Name() string          { return "partial" }
func (p *partial) AttrNames() []string   { return []string{"args", "func", "keywords"} }

func (p *partial) Attr(name string) (starlark.Value, error) {
	switch name {
	case "func":
		return p.f, nil
	case "args":
		return p.args, nil
	case "keywords":
		d := starlark.NewDict(len(p.kwargs))
		for _, kv := range p.kwargs {
			if err := d.SetKey(kv[0], kv[1]); err != nil {
				return nil, err
			}
		}
		return d, nil
	}
	return nil, nil
}

// CallInternal calls the function.
func (p *partial) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	all := append(append(make(starlark.Tuple, 0, len(p.args)+len(args)), p.args...), args...)
	return starlark.Call(thread, p.f, all, merge(p.kwargs, kwargs))
}

// ordered is a value compared by a function of the script.
type ordered struct {
	value   starlark.Value
	compare starlark.Value
	thread  *starlark.Thread
}

var _ starlark.Comparable = ordered{}

func (o ordered) String() string       { return "<functools.KeyWrapper object>" }
func (o ordered) Type() string         { return "functools.KeyWrapper" }
func (o ordered) Freeze()              {}
func (o ordered) Truth() starlark.Bool { return true }
func (o ordered) Hash() (uint32, error) {
	return 0, stdlib.Errorf(stdlib.TypeError, "unhashable type: 'functools.KeyWrapper'")
}

// CompareSameType calls the function.
func (o ordered) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	answer, err := starlark.Call(o.thread, o.compare, starlark.Tuple{o.value, y.(ordered).value}, nil)
	if err != nil {
		return false, err
	}
	return stdlib.Compare(op, answer, starlark.MakeInt(0))
}

func cmpToKey(c *stdlib.Call) (starlark.Value, error) {
	var compare starlark.Value
	if err := c.Unpack("mycmp", &compare); err != nil {
		return nil, err
	}
	return stdlib.NewFunc("K", func(c *stdlib.Call) (starlark.Value, error) {
		o := ordered{compare: compare, thread: c.Thread}
		err := c.Unpack("obj", &o.value)
		return o, err
	}), nil
}

// cached is a function with kept results.
type cached struct {
	f            starlark.Value
	most         int // kept results; negative is no limit
	typed        bool
	results      *starlark.Dict // the last used result is at the end
	hits, misses int
}

var (
	_ starlark.Callable = (*cached)(nil)
	_ starlark.HasAttrs = (*cached)(nil)
)

var cacheInfo = collections.NewTupleType("CacheInfo", []string{"hits", "misses", "maxsize", "currsize"})

func cacheOf(c *stdlib.Call) (starlark.Value, error) {
	var f starlark.Callable
	if err := c.Unpack("user_function", &f, "/", nil); err != nil {
		return nil, err
	}
	return &cached{f: f, most: -1, results: new(starlark.Dict)}, nil
}

// lruCache is a decorator, with or without arguments.
func lruCache(c *stdlib.Call) (starlark.Value, error) {
	var size starlark.Value = starlark.MakeInt(128)
	typed := false
	if err := c.Unpack("maxsize?", &size, "typed?", &typed); err != nil {
		return nil, err
	}
	most := -1
	if f, ok := size.(starlark.Callable); ok {
		return &cached{f: f, most: 128, results: new(starlark.Dict)}, nil
	}
	if size != starlark.None {
		n, err := stdlib.Int(size)
		if err != nil {
			return nil, stdlib.Errorf(stdlib.TypeError, "Expected first argument to be an integer, a callable, or None")
		}
		most = max(n, 0)
	}
	return stdlib.NewFunc("lru_cache", func(c *stdlib.Call) (starlark.Value, error) {
		var f starlark.Callable
		if err := c.Unpack("user_function", &f); err != nil {
			return nil, err
		}
		return &cached{f: f, most: most, typed: typed, results: new(starlark.Dict)}, nil
	}), nil
}

func (f *cached) String() string        { return f.f.String() }
func (f *cached) Type() string          { return "functools._lru_cache_wrapper" }
func (f *cached) Freeze()               {}
func (f *cached) Truth() starlark.Bool  { return true }
func (f *cached) Hash() (uint32, error) { return f.f.Hash() }
func (f *cached) Name() string          { return f.f.(starlark.Callable).Name() }

func (f *cached) AttrNames() []string { return []string{"__wrapped__", "cache_clear", "cache_info"} }

func (f *cached) Attr(name string) (starlark.Value, error) {
	switch name {
	case "__wrapped__":
		return f.f, nil
	case "cache_clear":
		return stdlib.NewFunc(name, func(c *stdlib.Call) (starlark.Value, error) {
			f.hits, f.misses = 0, 0
			return starlark.None, f.results.Clear()
		}), nil
	case "cache_info":
		return stdlib.NewFunc(name, func(c *stdlib.Call) (starlark.Value, error) {
			var most starlark.Value = starlark.None
			if f.most >= 0 {
				most = starlark.MakeInt(f.most)
			}
			return cacheInfo.Make(starlark.MakeInt(f.hits), starlark.MakeInt(f.misses), most, starlark.MakeInt(f.results.Len())), nil
		}), nil
	}
	return nil, nil
}

// key returns the key for the arguments of a call.
func (f *cached) key(args starlark.Tuple, kwargs []starlark.Tuple) starlark.Value {
	if len(kwargs) == 0 && !f.typed && len(args) == 1 {
		switch args[0].(type) {
		case starlark.String, starlark.Int:
			return args[0]
		}
	}
	key := append(starlark.Tuple(nil), args...)
	for _, kv := range kwargs {
		key = append(key, starlark.Tuple{kv[0], kv[1]})
	}
	key = append(key, starlark.MakeInt(len(kwargs)))
	if f.typed {
		for _, v := range args {
			key = append(key, starlark.String(v.Type()))
		}
		for _, kv := range kwargs {
			key = append(key, starlark.String(kv[1].Type()))
		}
	}
	return key
}

// CallInternal returns a kept result, or calls the function.
func (f *cached) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if f.most == 0 {
		f.misses++
		return starlark.Call(thread, f.f, args, kwargs)
	}
	key := f.key(args, kwargs)
	if _, err := key.Hash(); err != nil {
		return nil, stdlib.Errorf(stdlib.TypeError, "%v (arguments of a cached function must be hashable)", err)
	}
	v, found, err := f.results.Get(key)
	if err != nil {
		return nil, err
	}
	if found {
		f.hits++
		if f.most > 0 { // the result becomes the last
			if _, _, err := f.results.Delete(key); err != nil {
				return nil, err
			}
			return v, f.results.SetKey(key, v)
		}
		return v, nil
	}
	f.misses++
	v, err = starlark.Call(thread, f.f, args, kwargs)
	if err != nil {
		return nil, err
	}
	if _, again, _ := f.results.Get(key); !again && f.results.Len() == f.most {
		if _, _, err := f.results.Delete(f.oldest()); err != nil {
			return nil, err
		}
	}
	return v, f.results.SetKey(key, v)
}

// oldest returns the key of the least recently used result.
func (f *cached) oldest() starlark.Value {
	for key := range f.results.Entries() {
		return key
	}
	return nil
}
