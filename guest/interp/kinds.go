package interp

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// kindNames maps the names of types in Python to what type(x) returns for their
// values.
var kindNames = map[string]string{
	"bool": "bool", "bytes": "bytes", "dict": "dict", "float": "float", "int": "int", "list": "list",
	"range": "range", "set": "set", "str": "string", "tuple": "tuple",
	"Error": "Error", "Exception": "Error", "ToolError": "ToolError",
}

// compared records a comparison of type(x) with the name of a type. Without nameKinds
// it would always be false, because type(x) is text in Starlark.
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

// nameKinds replaces the names of types that are compared with type(x) by the texts
// that type returns, unless the script defines these names.
func (r *rewriter) nameKinds() {
	if r.bound["type"] {
		if len(r.typeIdentities) > 0 {
			r.fail(r.typeIdentities[0], "syntax error: is only compares with None, True and False in a script that defines type: write ==")
		}
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

// isinstanceBuiltin implements isinstance(x, type) or isinstance(x, (type, ...)): types
// are functions such as str, classes of errors, and results of type(x). As
// in Python a bool is an int too, and a ToolError an Error.
func isinstanceBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x, class starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &x, &class); err != nil {
		return nil, err
	}
	kind := x.Type()
	classes, ok := class.(starlark.Tuple)
	if !ok {
		classes = starlark.Tuple{class}
	}
	for _, c := range classes {
		name := kindOf(c)
		if name == "" {
			return nil, fmt.Errorf("%s: %s is not a type: write one of bool, bytes, dict, float, int, list, range, set, str, tuple, Error, ToolError, or several as a tuple; for None write x == None", b.Name(), repr(c))
		}
		if kind == name || kind == "bool" && name == "int" || kind == "ToolError" && name == "Error" {
			return starlark.True, nil
		}
	}
	return starlark.False, nil
}

// kindOf returns what type(x) returns for the values of a type; "" if c is not a
// type.
func kindOf(c starlark.Value) string {
	switch c := c.(type) {
	case *starlark.Builtin:
		if c.Receiver() == nil {
			return kindNames[c.Name()]
		}
	case *errorMaker:
		return c.Name()
	case starlark.String:
		if typeNames[string(c)] {
			return string(c)
		}
	}
	return ""
}

// typeNames are the texts that type(x) returns.
var typeNames = func() map[string]bool {
	names := make(map[string]bool)
	for _, kind := range kindNames {
		names[kind] = true
	}
	for _, v := range []starlark.Value{starlark.None, &starlark.Function{}, &starlark.Builtin{}, server{}, tool{}, mathModule, makeError} {
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
