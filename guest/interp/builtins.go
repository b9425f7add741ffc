package interp

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	stdmath "github.com/mcp-metatool/mcp-metatool/guest/stdlib/math"
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

var mathModule = &module{name: "math", members: stdmath.Module().Members, instead: map[string]string{
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

// baseBuiltin implements bin, oct or hex.
func baseBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	n, ok := asNumber(v).(starlark.Int)
	if !ok {
		return nil, stdlib.Errorf(stdlib.TypeError, "%s: '%s' object cannot be interpreted as an integer", b.Name(), v.Type())
	}
	base := map[string]int{"bin": 2, "oct": 8, "hex": 16}[b.Name()]
	sign := ""
	if n.Sign() < 0 {
		sign = "-"
	}
	prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]
	return starlark.String(sign + prefix + new(big.Int).Abs(n.BigInt()).Text(base)), nil
}

func callableBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	mustLook(v)
	if i := instanceOf(v); i != nil {
		return starlark.Bool(i.method("__call__") != nil), nil
	}
	_, ok := v.(starlark.Callable)
	return starlark.Bool(ok), nil
}

func divmodBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x, y starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &x, &y); err != nil {
		return nil, err
	}
	if i := instanceOf(x); i != nil {
		if v, err := i.tryMethod("__divmod__", y); v != nil || err != nil {
			return v, err
		}
	}
	quotient, err := starlark.Binary(syntax.SLASHSLASH, asNumber(x), asNumber(y))
	if err != nil {
		return nil, err
	}
	rest, err := starlark.Binary(syntax.PERCENT, asNumber(x), asNumber(y))
	if err != nil {
		return nil, err
	}
	return starlark.Tuple{quotient, rest}, nil
}

// powBuiltin implements pow(x, y, mod=None).
func powBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x, y, mod starlark.Value = nil, nil, starlark.None
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "base", &x, "exp", &y, "mod?", &mod); err != nil {
		return nil, err
	}
	if mod == starlark.None {
		return power(x, y)
	}
	var n [3]*big.Int
	for i, v := range []starlark.Value{x, y, mod} {
		number, ok := asNumber(v).(starlark.Int)
		if !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "pow: with three arguments all must be integers, got %s", v.Type())
		}
		n[i] = number.BigInt()
	}
	if n[2].Sign() == 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "pow() 3rd argument cannot be 0")
	}
	for _, v := range n {
		if v.BitLen() > 1<<14 {
			return nil, stdlib.Errorf(stdlib.OverflowError, "pow: numbers of more than %d bits", 1<<14)
		}
	}
	z := new(big.Int).Exp(n[0], n[1], new(big.Int).Abs(n[2]))
	if z == nil {
		return nil, stdlib.Errorf(stdlib.ValueError, "base is not invertible for the given modulus")
	}
	if n[2].Sign() < 0 && z.Sign() > 0 {
		z.Add(z, n[2])
	}
	return starlark.MakeBigInt(z), nil
}

// formatBuiltin implements format(value, spec="").
func formatBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	code := ""
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &v, &code); err != nil {
		return nil, err
	}
	spec, err := parseSpec(code)
	if err != nil {
		return nil, err
	}
	out, err := spec.format(v)
	return starlark.String(out), err
}

// intBuiltin implements int(x=0, base=10): text may have white space around it and
// underscores between digits.
func intBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	switch len(args) {
	case 0:
		if len(kwargs) == 0 {
			return starlark.MakeInt(0), nil
		}
	default:
		switch x := args[0].(type) {
		case starlark.Int:
			if len(args) == 1 && len(kwargs) == 0 {
				return x, nil
			}
		case starlark.String:
			if isPlainNumber(string(x)) {
				return libraryInt.CallInternal(thread, args, kwargs)
			}
			args = append(starlark.Tuple{cleanNumber(x)}, args[1:]...)
		case starlark.Bytes:
			args = append(starlark.Tuple{cleanNumber(starlark.String(x))}, args[1:]...)
		case *instance, *iterable:
			i := instanceOf(x)
			fn := i.method("__int__")
			if n := i.plain(); n != nil && fn == nil {
				return library(thread, b, append(starlark.Tuple{n}, args[1:]...), kwargs)
			}
			if fn == nil {
				return nil, i.lacks("cannot be converted to int", "__int__")
			}
			return i.call(fn)
		}
	}
	return library(thread, b, args, kwargs)
}

// numberBuiltin implements abs or chr, of bools and values of classes, too.
func numberBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 1 {
		switch x := args[0].(type) {
		case starlark.Bool:
			args = starlark.Tuple{boolInt(x)}
		case starlark.Int:
			if _, small := x.Int64(); !small && b.Name() == "chr" {
				return nil, stdlib.Errorf(stdlib.OverflowError, "chr: the number is too large")
			}
		default:
			if b.Name() == "chr" {
				return nil, stdlib.Errorf(stdlib.TypeError, "chr: got %s, want int", x.Type())
			}
		case *instance, *iterable:
			i := instanceOf(x)
			if fn := i.method("__abs__"); fn != nil && b.Name() == "abs" {
				return i.call(fn)
			}
			return nil, i.lacks("is no number", "__abs__")
		}
	}
	return library(thread, b, args, kwargs)
}

// hashBuiltin implements hash(x), of any hashable value.
func hashBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	switch x := v.(type) {
	case starlark.String, starlark.Bytes:
		return library(thread, b, args, nil)
	case starlark.Bool, starlark.Int:
		n, _ := stdlib.Integer(x)
		return hashOfInt(n), nil
	case starlark.Float:
		if n, err := starlark.NumberToInt(x); err == nil && float64(x) == math.Trunc(float64(x)) {
			return hashOfInt(n), nil
		}
	case *instance, *iterable:
		i := instanceOf(x)
		if fn := i.method("__hash__"); fn != nil {
			return i.call(fn)
		}
	}
	h, err := v.Hash()
	return starlark.MakeInt64(int64(h)), err
}

// hashOfInt is hash(n), as in Python. So a class with values equal to numbers can have the hashes
// of numbers.
func hashOfInt(n starlark.Int) starlark.Value {
	modulus := big.NewInt(1<<61 - 1)
	h := new(big.Int).Rem(n.BigInt(), modulus)
	if h.IsInt64() && h.Int64() == -1 {
		return starlark.MakeInt(-2)
	}
	return starlark.MakeBigInt(h)
}

// floatBuiltin implements float(x=0.0); text may have white space around it and underscores
// between digits.
func floatBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 1 {
		switch x := args[0].(type) {
		case starlark.String:
			if !isPlainNumber(string(x)) {
				args = starlark.Tuple{cleanNumber(x)}
			}
		case *instance, *iterable:
			i := instanceOf(x)
			fn := i.method("__float__")
			if fn == nil {
				return nil, i.lacks("cannot be converted to float", "__float__")
			}
			return i.call(fn)
		}
	}
	return library(thread, b, args, kwargs)
}

var libraryInt = starlark.Universe["int"].(*starlark.Builtin)

// isPlainNumber reports whether cleanNumber changes nothing in a text.
func isPlainNumber(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == '_' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func cleanNumber(s starlark.String) starlark.String {
	text := strings.TrimSpace(string(s))
	for i := 1; i+1 < len(text); i++ {
		if text[i] == '_' && text[i-1] != '_' && text[i+1] != '_' && isDigit(text[i-1]) && isDigit(text[i+1]) {
			text = text[:i] + text[i+1:]
		}
	}
	return starlark.String(text)
}

func isDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// lenBuiltin implements len(x), of values of classes, too.
func lenBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 1 {
		switch x := args[0].(type) {
		case *starlark.List:
			return starlark.MakeInt(x.Len()), nil
		case Object:
			return starlark.MakeInt(x.Len()), nil
		case starlark.String:
			return starlark.MakeInt(x.Len()), nil
		}
		if i := instanceOf(args[0]); i != nil {
			fn := i.method("__len__")
			if fn == nil {
				return nil, i.lacks("has no len()", "__len__")
			}
			return i.call(fn)
		}
		if c, ok := args[0].(*class); ok && c.enum != nil {
			return starlark.MakeInt(len(c.enum.list)), nil
		}
	}
	return library(thread, b, args, kwargs)
}

// typeBuiltin implements type(x): a text, and the class for values of classes.
func typeBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 1 && len(kwargs) == 0 {
		if c := classOf(args[0]); c != nil && c.run != nil {
			return c, nil
		}
	}
	if len(args) == 3 {
		return nil, stdlib.Errorf(stdlib.TypeError, "type: a class is made by a statement: class Name(Base): ...")
	}
	return library(thread, b, args, kwargs)
}

// pythonNames are the names in Python of the results of type(x), where different.
var pythonNames = map[string]string{"string": "str", "Error": "Exception", "builtin_function_or_method": "builtin_function_or_method"}

// pythonName returns type(x).__name__ for a result of type(x).
func pythonName(kind starlark.Value) string {
	if c, ok := kind.(*class); ok {
		return c.name
	}
	name, _ := starlark.AsString(kind)
	if n, ok := pythonNames[name]; ok {
		return n
	}
	return name
}

func issubclassBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var c *class
	var of starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &c, &of); err != nil {
		return nil, err
	}
	bases, ok := of.(starlark.Tuple)
	if !ok {
		bases = starlark.Tuple{of}
	}
	for _, x := range bases {
		base, ok := x.(*class)
		if !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "issubclass: %s is no class of the script or of errors", text(x))
		}
		if c.derives(base) {
			return starlark.True, nil
		}
	}
	return starlark.False, nil
}

func setattrBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x starlark.HasSetField
	var name string
	var v starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 3, &x, &name, &v); err != nil {
		return nil, err
	}
	return starlark.None, x.SetField(name, v)
}

// varsBuiltin implements vars(x), a dict of the attributes of x.
func varsBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	if i := instanceOf(v); i != nil {
		return i.Attr("__dict__")
	}
	return nil, stdlib.Errorf(stdlib.TypeError, "vars: %s has no attributes of its own", v.Type())
}

// typePrefix begins the names under which the types themselves are known, with their callable
// methods: str.lower, dict.fromkeys.
const typePrefix = "·type·"

// typeNameName applied to type(x) gives type(x).__name__.
const typeNameName = "·typename"

// A typeObject is a type before a dot.
type typeObject struct {
	operandOnly
	name string
}

func (t *typeObject) AttrNames() []string { return nil }

// Attr returns a function of the type, or a function that calls a method of the first argument.
func (t *typeObject) Attr(name string) (starlark.Value, error) {
	switch t.name + "." + name {
	case "str.maketrans":
		return starlark.NewBuiltin("maketrans", makeTrans), nil
	case "dict.fromkeys":
		return starlark.NewBuiltin("fromkeys", dictFromKeys), nil
	case "int.from_bytes":
		return starlark.NewBuiltin("from_bytes", intFromBytes), nil
	case "bytes.fromhex":
		return starlark.NewBuiltin("fromhex", bytesFromHex), nil
	}
	switch name {
	case "__name__":
		return starlark.String(t.name), nil
	case "__init__", "__new__":
		return nil, fmt.Errorf("%s has no .%s", t.name, name)
	}
	return starlark.NewBuiltin(t.name+"."+name, func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if len(args) == 0 {
			return nil, stdlib.Errorf(stdlib.TypeError, "%s needs a %s as its argument", b.Name(), t.name)
		}
		if kind := kindNames[t.name]; args[0].Type() != kind {
			return nil, stdlib.Errorf(stdlib.TypeError, "%s needs a %s, got %s", b.Name(), t.name, args[0].Type())
		}
		x, ok := args[0].(starlark.HasAttrs)
		if !ok {
			return nil, fmt.Errorf("%s has no .%s", t.name, name)
		}
		method, err := x.Attr(name)
		if err != nil {
			return nil, err
		}
		if method == nil {
			return nil, stdlib.Errorf(stdlib.AttributeError, "%s has no .%s%s", t.name, name, suggest(name, x.AttrNames(), x.AttrNames()))
		}
		return starlark.Call(thread, method, args[1:], kwargs)
	}), nil
}

func dictFromKeys(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var keys, v starlark.Value = nil, starlark.None
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &keys, &v); err != nil {
		return nil, err
	}
	out := newObject(0)
	err := each(keys, func(k starlark.Value) error { return out.Dict.SetKey(k, v) })
	return out, err
}

func intFromBytes(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var data starlark.Bytes
	order, signed := "big", false
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "bytes", &data, "byteorder?", &order, "signed?", &signed); err != nil {
		return nil, err
	}
	raw := []byte(data)
	if order == "little" {
		for i, j := 0, len(raw)-1; i < j; i, j = i+1, j-1 {
			raw[i], raw[j] = raw[j], raw[i]
		}
	}
	n := new(big.Int).SetBytes(raw)
	if signed && len(raw) > 0 && raw[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	return starlark.MakeBigInt(n), nil
}
