package interp

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/lib/math"
	"go.starlark.net/starlark"
)

// predeclared returns the names that a script can use without defining them.
// setParams sets the value of params later.
func predeclared(servers []string) starlark.StringDict {
	env := maps.Clone(always)
	for _, name := range servers {
		// The host gives no server a reserved name. If it did, the name would
		// still have its own meaning.
		if !abi.Reserved(name) {
			env[name] = server{name}
		}
	}
	return env
}

// always holds the names of every script, and those that only rewritten trees use.
var always = func() starlark.StringDict {
	env := starlark.StringDict{
		"params":    starlark.None,
		"content":   contentModule,
		"json":      jsonModule,
		"log":       logModule,
		"math":      mathModule,
		"tools":     server{abi.Composites},
		"Error":     makeError,
		"Exception": makeError,
		"ToolError": makeToolError,

		wrapDictName:    wrapDict{},
		markInPlaceName: markInPlace{},
		markFormatName:  markFormat{},
		markModuloName:  markModulo{},
		markMethodName:  markMethod{},
		raiseName:       starlark.NewBuiltin(raiseName, raise),
	}
	for _, b := range builtins {
		env[b.Name()] = b
	}
	for kind, name := range leaveNames {
		env[name] = &leave{kind: leaveKind(kind)}
	}
	return env
}()

// builtins are functions that the library lacks or that differ from its own.
var builtins = []*starlark.Builtin{
	starlark.NewBuiltin("commit", commitBuiltin),
	starlark.NewBuiltin("dict", dictBuiltin),
	starlark.NewBuiltin("enumerate", enumerateBuiltin),
	starlark.NewBuiltin("fail", failBuiltin),
	starlark.NewBuiltin("getattr", getattrBuiltin),
	starlark.NewBuiltin("is_error", isErrorBuiltin),
	starlark.NewBuiltin("isinstance", isinstanceBuiltin),
	starlark.NewBuiltin("max", extremeBuiltin),
	starlark.NewBuiltin("min", extremeBuiltin),
	starlark.NewBuiltin("parallel", parallelBuiltin),
	starlark.NewBuiltin("parallel_map", parallelMapBuiltin),
	starlark.NewBuiltin("print", logBuiltin(abi.LogInfo)),
	starlark.NewBuiltin("progress", progressBuiltin),
	starlark.NewBuiltin("repr", reprBuiltin),
	starlark.NewBuiltin("round", roundBuiltin),
	starlark.NewBuiltin("str", strBuiltin),
	starlark.NewBuiltin("sum", sumBuiltin),
	starlark.NewBuiltin("undo", undoBuiltin),
}

// Names returns all names that have a meaning without a declaration, and the
// reserved words of the grammar, sorted. No server can have one of these names.
func Names() []string {
	var names []string
	for name := range predeclared(nil) {
		if isIdentifier(name) {
			names = append(names, name)
		}
	}
	for name := range starlark.Universe {
		names = append(names, name)
	}
	names = append(names, keywords...)
	for name := range reservedWords {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// dictBuiltin is dict(...). Its result is an Object.
func dictBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := library(thread, b, args, kwargs)
	if err != nil {
		return nil, err
	}
	return Object{v.(*starlark.Dict)}, nil
}

// library calls the interpreter library's built-in function of that name.
func library(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return starlark.Universe[b.Name()].(*starlark.Builtin).CallInternal(thread, args, kwargs)
}

// enumerateBuiltin is enumerate(iterable, start=0), with start as a keyword too.
func enumerateBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(kwargs) == 0 {
		return library(thread, b, args, nil)
	}
	var xs starlark.Iterable
	start := 0
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "iterable", &xs, "start?", &start); err != nil {
		return nil, err
	}
	return library(thread, b, starlark.Tuple{xs, starlark.MakeInt(start)}, nil)
}

// extremeBuiltin is min or max of a sequence or several values, with key= and,
// for a sequence that may be empty, default=.
func extremeBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	i := slices.IndexFunc(kwargs, func(kv starlark.Tuple) bool { return kv[0] == starlark.String("default") })
	if i < 0 {
		return library(thread, b, args, kwargs)
	}
	if len(args) != 1 {
		return nil, fmt.Errorf("%s: default= needs exactly one other argument, a sequence, got %d", b.Name(), len(args))
	}
	if xs, ok := args[0].(starlark.Iterable); ok && isEmpty(xs) {
		return kwargs[i][1], nil
	}
	return library(thread, b, args, slices.Delete(slices.Clone(kwargs), i, i+1))
}

func isEmpty(xs starlark.Iterable) bool {
	for range starlark.Elements(xs) {
		return false
	}
	return true
}

// failBuiltin is fail(..., details=None): it raises an Error of that message.
func failBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	sep := " "
	var details starlark.Value = starlark.None
	if err := starlark.UnpackArgs(b.Name(), nil, kwargs, "sep?", &sep, "details?", &details); err != nil {
		return nil, err
	}
	if len(args) == 1 && len(kwargs) == 0 {
		if e, ok := args[0].(*errorValue); ok { // fail(e) is raise e
			return nil, e.reraise()
		}
	}
	message := joinText(args, sep)
	if message == "" {
		message = "fail"
	}
	return nil, &raised{&errorValue{kind: abi.ErrRuntime, message: message, details: details, raised: true}}
}

func strBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	if s, ok := v.(starlark.String); ok {
		return s, nil
	}
	return starlark.String(text(v)), nil
}

func reprBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	return starlark.String(repr(v)), nil
}

func onlyArgument(b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(kwargs) > 0 {
		return nil, fmt.Errorf("%s does not accept keyword arguments", b.Name())
	}
	if len(args) != 1 {
		return nil, fmt.Errorf("%s: got %d arguments, want exactly 1", b.Name(), len(args))
	}
	return args[0], nil
}

// module is a namespace. Its errors suggest the name that was probably meant.
type module struct {
	name    string
	members starlark.StringDict
	// instead maps names from other languages to what to write here.
	instead map[string]string
}

var mathModule = &module{name: "math", members: math.Module.Members, instead: map[string]string{
	"trunc": "int(x)", "inf": `float("inf")`, "nan": `float("nan")`, "abs": "abs(x)", "min": "min(...)", "max": "max(...)",
}}

func (m *module) String() string        { return fmt.Sprintf("<module %s>", m.name) }
func (m *module) Type() string          { return "module" }
func (m *module) Freeze()               {}
func (m *module) Truth() starlark.Bool  { return true }
func (m *module) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable type: module") }
func (m *module) AttrNames() []string   { return m.members.Keys() }

func (m *module) Attr(name string) (starlark.Value, error) {
	if v, ok := m.members[name]; ok {
		return v, nil
	}
	if hint, ok := m.instead[name]; ok {
		return nil, fmt.Errorf("%s has no .%s (write %s)", m.name, name, hint)
	}
	names := m.members.Keys()
	return nil, fmt.Errorf("%s has no .%s%s", m.name, name, suggest(name, names, names))
}
