package interp

import "go.starlark.net/syntax"

// kindNames are the names that stand for types in Python, with what type(x)
// gives for values of them.
var kindNames = map[string]string{
	"bool": "bool", "bytes": "bytes", "dict": "dict", "float": "float", "int": "int", "list": "list",
	"range": "range", "set": "set", "str": "string", "tuple": "tuple",
	"Error": "Error", "Exception": "Error", "ToolError": "ToolError",
}

// compared notes a comparison of type(x) with the name of a type, which as it
// stands would be false without a word: type(x) is text here.
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

// nameKinds puts the texts that type gives in place of the names of types that
// it is compared with, unless the script gives those names another meaning.
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

func isTypeCall(e syntax.Expr) bool {
	call, ok := e.(*syntax.CallExpr)
	if !ok || len(call.Args) != 1 {
		return false
	}
	fn, ok := call.Fn.(*syntax.Ident)
	return ok && fn.Name == "type"
}

// elements are those of a tuple or list that is written out.
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
