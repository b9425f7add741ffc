// Package stdlibtest runs pieces of script with modules of the library, and the same
// pieces with Python, for tests.
package stdlibtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// The run of test scripts.
const (
	Seed    = 42
	maxSize = 4 << 20
	// maxSteps ends an endless script.
	maxSteps = 3_000_000
)

// Now is the time of the run.
var Now = time.Date(2026, 3, 4, 5, 6, 7, 891011000, time.UTC)

// ErrMemory is the error of Charge above the limit of a run.
var ErrMemory = errors.New("out of memory")

// dict is the dict of the scripts of tests.
type dict struct{ *starlark.Dict }

func (d dict) Underlying() *starlark.Dict { return d.Dict }
func (d dict) String() string             { return Repr(d) }

// CompareSameType compares with other dicts, and with dict-like values.
func (d dict) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	if like, ok := y.(stdlib.DictLike); ok {
		y = like.Underlying()
	}
	return starlark.CompareDepth(op, d.Dict, y, depth)
}

// NewEnv returns the services of a test's run.
func NewEnv() *stdlib.Env {
	return &stdlib.Env{
		Now:  func() (time.Time, error) { return Now, nil },
		Seed: func() (uint64, error) { return Seed, nil },
		Charge: func(n int) error {
			if n > maxSize || n < 0 {
				return ErrMemory
			}
			return nil
		},
		NewDict: func(size int) stdlib.Dict { return dict{starlark.NewDict(size)} },
		DictAttr: func(receiver stdlib.DictLike, name string) (starlark.Value, error) {
			return receiver.Underlying().Attr(name)
		},
		Str: func(v starlark.Value) string {
			if s, ok := starlark.AsString(v); ok {
				return s
			}
			if t, ok := v.(stdlib.Texter); ok {
				return t.Str()
			}
			return Repr(v)
		},
		Repr:  Repr,
		State: map[any]any{},
	}
}

// NewThread returns a thread with a new run.
func NewThread() *starlark.Thread {
	thread := &starlark.Thread{Name: "test"}
	thread.SetMaxExecutionSteps(maxSteps)
	stdlib.SetEnv(thread, NewEnv())
	return thread
}

// Names makes a scope of modules, by the last part of their names.
func Names(modules ...*stdlib.Module) starlark.StringDict {
	env := starlark.StringDict{}
	for _, m := range modules {
		env[m.Name[strings.LastIndexByte(m.Name, '.')+1:]] = m
	}
	env["repr"] = stdlib.NewFunc("repr", func(c *stdlib.Call) (starlark.Value, error) {
		return starlark.String(Repr(c.Args[0])), nil
	})
	env["str"] = stdlib.NewFunc("str", func(c *stdlib.Call) (starlark.Value, error) {
		return starlark.String(c.Env().Str(c.Args[0])), nil
	})
	env["next"] = stdlib.NewFunc("next", next)
	env["list"] = stdlib.NewFunc("list", func(c *stdlib.Call) (starlark.Value, error) {
		if len(c.Args) == 0 {
			return starlark.NewList(nil), nil
		}
		all, err := c.Elements(c.Args[0])
		return starlark.NewList(all), err
	})
	env["dict"] = stdlib.NewFunc("dict", func(c *stdlib.Call) (starlark.Value, error) {
		v, err := starlark.Universe["dict"].(*starlark.Builtin).CallInternal(c.Thread, c.Args, c.Kwargs)
		if err != nil {
			return nil, err
		}
		return dict{v.(*starlark.Dict)}, nil
	})
	return env
}

// next is next(iterator, default).
func next(c *stdlib.Call) (starlark.Value, error) {
	it, ok := c.Args[0].(*stdlib.Iterator)
	if !ok {
		return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object is not an iterator", c.Args[0].Type())
	}
	v, err := it.Take()
	if v == nil && err == nil {
		if len(c.Args) > 1 {
			return c.Args[1], nil
		}
		return nil, stdlib.Errorf(stdlib.StopIteration, "")
	}
	return v, err
}

var options = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// Run runs a script. The result is the value of the variable r, or of a script with a single
// expression.
func Run(env starlark.StringDict, script string) (starlark.Value, error) {
	thread := NewThread()
	if IsExpression(script) {
		return starlark.EvalOptions(options, thread, "test", script, env)
	}
	globals, err := starlark.ExecFileOptions(options, thread, "test", script, env)
	if err != nil {
		return nil, err
	}
	if globals["r"] == nil {
		return nil, fmt.Errorf("the script does not set r: %s", script)
	}
	return globals["r"], nil
}

// IsExpression reports whether a script is a single expression.
func IsExpression(script string) bool {
	_, err := (&syntax.FileOptions{}).ParseExpr("test", script, 0)
	return err == nil
}

// Outcome returns the result of a script as text: the repr, or "!" and the class of the error. "!?"
// is the interpreter's own error.
func Outcome(env starlark.StringDict, script string) string {
	v, err := Run(env, script)
	if err == nil {
		return Repr(v)
	}
	var e *stdlib.Error
	if errors.As(err, &e) {
		return "!" + e.Class
	}
	if errors.Is(err, ErrMemory) {
		return "!memory"
	}
	return "!?" + err.Error()
}

// Case is a script with an outcome.
type Case struct{ Script, Want string }

// Check runs scripts and compares their outcomes.
func Check(t *testing.T, env starlark.StringDict, cases []Case) {
	t.Helper()
	for _, c := range cases {
		got := Outcome(env, c.Script)
		if strings.HasPrefix(got, "!?") {
			if c.Want != "!?" {
				t.Errorf("%s: %s, want %s", c.Script, got, c.Want)
			}
		} else if got != c.Want {
			t.Errorf("%s: got %s, want %s", c.Script, got, c.Want)
		}
	}
}

// Repr returns a value in the form of Python's repr.
func Repr(v starlark.Value) string { return reprAt(v, 0) }

func reprAt(v starlark.Value, depth int) string {
	if depth > 50 {
		return "..."
	}
	inner := func(x starlark.Value) string { return reprAt(x, depth+1) }
	switch v := v.(type) {
	case starlark.String:
		return stdlib.Quote(string(v))
	case starlark.Bytes:
		return stdlib.QuoteBytes(string(v))
	case starlark.Float:
		return stdlib.FloatText(float64(v))
	case *starlark.List:
		return "[" + stdlib.JoinRepr(elements(v), inner) + "]"
	case starlark.Tuple:
		if len(v) == 1 {
			return "(" + inner(v[0]) + ",)"
		}
		return "(" + stdlib.JoinRepr(v, inner) + ")"
	case *starlark.Set:
		if v.Len() == 0 {
			return "set()"
		}
		return "{" + stdlib.JoinRepr(elements(v), inner) + "}"
	case stdlib.Representer:
		return v.Repr(inner)
	case starlark.IterableMapping:
		var parts []string
		for _, kv := range v.Items() {
			parts = append(parts, inner(kv[0])+": "+inner(kv[1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return v.String()
}

func elements(v starlark.Iterable) []starlark.Value {
	var out []starlark.Value
	for x := range starlark.Elements(v) {
		out = append(out, x)
	}
	return out
}
