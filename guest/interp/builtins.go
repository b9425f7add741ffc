package interp

import (
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/math"
	"go.starlark.net/starlark"
)

// predeclared returns the names available to this script besides the names of every script.
// setParams sets the value of params later.
func predeclared(servers []string) starlark.StringDict {
	env := make(starlark.StringDict, len(servers)+1)
	for _, name := range servers {
		// The host gives no server a reserved name. A reserved name would still keep its meaning.
		if !abi.Reserved(name) {
			env[name] = server{name}
		}
	}
	return env
}

// always holds the names of every script, and the names only used in rewritten trees.
var always = func() starlark.StringDict {
	env := starlark.StringDict{
		"params":   starlark.None,
		"content":  contentModule,
		"json":     jsonModule,
		"log":      logModule,
		"math":     mathModule,
		"tools":    server{abi.Composites},
		"__name__": starlark.String("__main__"),

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
	for name, c := range errorClasses {
		env[name] = c
	}
	env["object"] = objectClass
	env["NotImplemented"] = notImplemented
	env["Ellipsis"] = starlark.None
	for name, apply := range applied {
		env[name] = operand{apply: apply}
	}
	env[parse.Super] = superOperand{}
	for name, fn := range map[string]builtinFunc{
		parse.MakeClass: makeClass, parse.Generate: generateBuiltin, parse.GenExpr: generateBuiltin,
	} {
		env[name] = starlark.NewBuiltin(name, fn)
	}
	for name := range kindNames {
		env[typePrefix+name] = &typeObject{name: name}
	}
	for kind, name := range leaveNames {
		env[name] = &leave{kind: leaveKind(kind)}
	}
	return env
}()

// builtins are functions missing from the library or different from the library's.
var builtins = []*starlark.Builtin{
	starlark.NewBuiltin("all", truthBuiltin),
	starlark.NewBuiltin("any", truthBuiltin),
	starlark.NewBuiltin("bin", baseBuiltin),
	starlark.NewBuiltin("callable", callableBuiltin),
	starlark.NewBuiltin("abs", numberBuiltin),
	starlark.NewBuiltin("chr", numberBuiltin),
	starlark.NewBuiltin("classmethod", decoratorBuiltin),
	starlark.NewBuiltin("divmod", divmodBuiltin),
	starlark.NewBuiltin("filter", filterBuiltin),
	starlark.NewBuiltin("format", formatBuiltin),
	starlark.NewBuiltin("frozenset", frozensetBuiltin),
	starlark.NewBuiltin("float", floatBuiltin),
	starlark.NewBuiltin("hash", hashBuiltin),
	starlark.NewBuiltin("hex", baseBuiltin),
	starlark.NewBuiltin("id", idBuiltin),
	starlark.NewBuiltin("int", intBuiltin),
	starlark.NewBuiltin("issubclass", issubclassBuiltin),
	starlark.NewBuiltin("iter", iterBuiltin),
	starlark.NewBuiltin("len", lenBuiltin),
	starlark.NewBuiltin("list", libraryOver),
	starlark.NewBuiltin("map", mapBuiltin),
	starlark.NewBuiltin("next", nextBuiltin),
	starlark.NewBuiltin("oct", baseBuiltin),
	starlark.NewBuiltin("pow", powBuiltin),
	starlark.NewBuiltin("property", decoratorBuiltin),
	starlark.NewBuiltin("reversed", reversedBuiltin),
	starlark.NewBuiltin("set", libraryOver),
	starlark.NewBuiltin("setattr", setattrBuiltin),
	starlark.NewBuiltin("slice", sliceBuiltin),
	starlark.NewBuiltin("sorted", sortedBuiltin),
	starlark.NewBuiltin("staticmethod", decoratorBuiltin),
	starlark.NewBuiltin("tuple", libraryOver),
	starlark.NewBuiltin("type", typeBuiltin),
	starlark.NewBuiltin("vars", varsBuiltin),
	starlark.NewBuiltin("zip", zipBuiltin),
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

// Names returns all names with a meaning without a declaration, and the reserved words of the
// grammar, sorted. No server can have any of these names.
func Names() []string {
	var names []string
	for name := range always {
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

// dictBuiltin implements dict(...). The result is an Object.
func dictBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 1 {
		if d, ok := args[0].(stdlib.DictLike); ok {
			args = starlark.Tuple{d.Underlying()}
		} else if i := instanceOf(args[0]); i != nil && i.method("keys") != nil {
			items, err := i.items()
			if err != nil {
				return nil, err
			}
			args = starlark.Tuple{items}
		}
	}
	v, err := libraryOver(thread, b, args, kwargs)
	if err != nil {
		return nil, err
	}
	return Object{v.(*starlark.Dict)}, nil
}

// library calls the interpreter library's built-in function of the same name.
func library(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return starlark.Universe[b.Name()].(*starlark.Builtin).CallInternal(thread, args, kwargs)
}

// extremeBuiltin implements min or max of a sequence or several values, with key= and, for a
// possibly empty sequence, default=.
func extremeBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	i := slices.IndexFunc(kwargs, func(kv starlark.Tuple) bool { return kv[0] == starlark.String("default") })
	if len(args) == 1 {
		list, err := asIterable(args[0])
		if err != nil {
			return nil, err
		}
		args = starlark.Tuple{list}
	}
	if i < 0 {
		return library(thread, b, args, dropNoneKey(kwargs))
	}
	if len(args) != 1 {
		return nil, fmt.Errorf("%s: default= needs exactly one other argument, a sequence, got %d", b.Name(), len(args))
	}
	if xs, ok := args[0].(starlark.Iterable); ok && isEmpty(xs) {
		return kwargs[i][1], nil
	}
	return library(thread, b, args, dropNoneKey(slices.Delete(slices.Clone(kwargs), i, i+1)))
}

// dropNoneKey removes key=None, which the library does not take.
func dropNoneKey(kwargs []starlark.Tuple) []starlark.Tuple {
	for i, kv := range kwargs {
		if kv[0] == starlark.String("key") && kv[1] == starlark.None {
			return slices.Delete(slices.Clone(kwargs), i, i+1)
		}
	}
	return kwargs
}

func isEmpty(xs starlark.Iterable) bool {
	for range starlark.Elements(xs) {
		return false
	}
	return true
}

// failBuiltin implements fail(..., details=None): it raises an Error with the message.
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
	return nil, &raised{&errorValue{kind: abi.ErrRuntime, class: exceptionClass, message: message, details: details, raised: true}}
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

// module is a namespace. Errors suggest the name probably meant.
type module struct {
	name    string
	members starlark.StringDict
	// instead maps names from other languages to names in this one.
	instead map[string]string
}

var mathModule = &module{name: "math", members: math.Module().Members, instead: map[string]string{
	"abs": "abs(x)", "min": "min(...)", "max": "max(...)",
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
