package interp

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// kindNames maps the names of types in Python to type(x) of their values.
var kindNames = map[string]string{
	"bool": "bool", "bytes": "bytes", "dict": "dict", "float": "float", "int": "int", "list": "list",
	"range": "range", "set": "set", "slice": "slice", "str": "string", "tuple": "tuple",
	"frozenset": "frozenset",
	"Error":     "Error", "Exception": "Error", "ToolError": "ToolError",
}

func init() {
	for name, c := range errorClasses {
		if kindNames[name] == "" {
			kindNames[name] = c.name
		}
	}
}

// compared records a comparison of type(x) with the name of a type. Without nameKinds the
// comparison would always be false, because type(x) is text in Starlark.
func (r *rewriter) compared(e *syntax.BinaryExpr) {
	switch e.Op {
	case syntax.EQL, syntax.NEQ:
		if isTypeCall(e.X) {
			r.kinds = append(r.kinds, &e.Y)
		} else if isTypeCall(e.Y) {
			r.kinds = append(r.kinds, &e.X)
		}
	case syntax.IN, syntax.NOT_IN:
		if isTypeCall(e.X) {
			r.kinds = append(r.kinds, elements(e.Y)...)
		}
	}
}

// nameKinds replaces the names of types in comparisons with type(x) by the texts from type, unless
// the script defines these names.
func (r *rewriter) nameKinds() {
	if r.bound["type"] {
		return
	}
	for _, x := range r.kinds {
		id, ok := (*x).(*syntax.Ident)
		if !ok || r.bound[id.Name] || kindNames[id.Name] == "" {
			continue
		}
		kind := kindNames[id.Name]
		*x = &syntax.Literal{Token: syntax.STRING, TokenPos: id.NamePos, Raw: id.Name, Value: kind}
	}
}

// isType reports whether a name belongs to a type with methods.
func isType(name string) bool { return kindNames[name] != "" && errorClasses[name] == nil }

// nameTypes makes the names of types before dots mean the types themselves, as in
// str.lower, and names of modules the modules, even if the script does not import
// them.
func (r *rewriter) nameTypes() {
	for _, e := range r.dots {
		id := e.X.(*syntax.Ident)
		if r.bound[id.Name] {
			continue
		}
		if isType(id.Name) {
			e.X = ident(id.NamePos, typePrefix+id.Name)
		} else if _, known := meaning(r.env, id.Name); !known {
			e.X = ident(id.NamePos, parse.ImportPrefix+id.Name)
		}
	}
}

// isinstanceBuiltin implements isinstance(x, class) or isinstance(x, (class, ...)): classes are
// classes of the script and of errors, functions like str, and results of type(x). As in Python a
// bool is an int too.
func isinstanceBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x, class starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &x, &class); err != nil {
		return nil, err
	}
	classes, ok := class.(starlark.Tuple)
	if !ok {
		classes = starlark.Tuple{class}
	}
	mustLook(x)
	for _, c := range classes {
		is, known := isInstance(x, c)
		if !known {
			return nil, stdlib.Errorf(stdlib.TypeError, "%s: %s is not a type: write one of bool, bytes, dict, float, int, list, range, set, str, tuple, Error, ToolError, or several as a tuple; for None write x == None", b.Name(), repr(c))
		}
		if is {
			return starlark.True, nil
		}
	}
	return starlark.False, nil
}

// isInstance reports whether x is of a class, and whether c is a class.
func isInstance(x, c starlark.Value) (is, known bool) {
	switch c := c.(type) {
	case *starlark.Builtin:
		return isKind(x, kindOf(c))
	case *class:
		of := classOf(x)
		return c == objectClass || of != nil && of.derives(c), true
	case *stdlib.Class:
		return c.Is != nil && c.Is(x), true
	case starlark.Tuple:
		for _, e := range c {
			is, known := isInstance(x, e)
			if is || !known {
				return is, known
			}
		}
		return false, true
	case placeholder:
		return isAbstract(x, c.name), true
	}
	if t, ok := c.(interface{ Instance(starlark.Value) bool }); ok { // of namedtuple
		return t.Instance(x), true
	}
	return isKind(x, kindOf(c))
}

// isKind reports whether x is of the type with the name, and whether the type exists.
func isKind(x starlark.Value, name string) (is, known bool) {
	kind := x.Type()
	if name == "tuple" {
		if _, ok := x.(stdlib.TupleLike); ok {
			kind = "tuple"
		}
	}
	return kind == name || kind == "bool" && name == "int", name != ""
}

// isAbstract reports whether x is of a class of typing or collections.abc.
func isAbstract(x starlark.Value, name string) bool {
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "Callable":
		_, ok := x.(starlark.Callable)
		return ok
	case "Dict", "Mapping", "MutableMapping":
		_, ok := x.(stdlib.DictLike)
		return ok
	case "List", "MutableSequence":
		_, ok := x.(*starlark.List)
		return ok
	case "Sequence":
		_, isText := x.(starlark.String)
		_, ok := x.(starlark.Indexable)
		return ok || isText
	case "Set":
		return x.Type() == "set"
	case "Tuple":
		_, ok := x.(starlark.Tuple)
		return ok
	case "Iterator", "Generator":
		return isLazy(x)
	case "Any":
		return true
	}
	_, ok := x.(starlark.Iterable)
	return ok
}

// kindOf returns type(x) of the values of a type; "" if c is not a type.
func kindOf(c starlark.Value) string {
	switch c := c.(type) {
	case *starlark.Builtin:
		if c.Receiver() == nil {
			return kindNames[c.Name()]
		}
	case starlark.String:
		if typeNames[string(c)] {
			return string(c)
		}
	}
	return ""
}

// typeNames are the results of type(x).
var typeNames = func() map[string]bool {
	names := make(map[string]bool)
	for _, kind := range kindNames {
		names[kind] = true
	}
	for _, v := range []starlark.Value{starlark.None, &starlark.Function{}, &starlark.Builtin{}, server{}, tool{}, mathModule, exceptionClass} {
		names[v.Type()] = true
	}
	return names
}()

func isTypeCall(e syntax.Expr) bool {
	call, ok := e.(*syntax.CallExpr)
	if !ok || len(call.Args) != 1 {
		return false
	}
	fn, ok := call.Fn.(*syntax.Ident)
	return ok && fn.Name == "type"
}

// elements returns the elements of a tuple or list literal.
func elements(e syntax.Expr) (slots []*syntax.Expr) {
	var list []syntax.Expr
	switch e := e.(type) {
	case *syntax.ParenExpr:
		return elements(e.X)
	case *syntax.TupleExpr:
		list = e.List
	case *syntax.ListExpr:
		list = e.List
	}
	for i := range list {
		slots = append(slots, &list[i])
	}
	return slots
}
