package host_test

import (
	"go/ast"
	"go/token"
	"strings"
)

// virtualFunctions returns the functions of a folder that run in bubbles of synctest only: those
// that start one with what they are given, and those that are named in nothing but bubbles and
// such functions. "synctest.Test" is one of them. Methods are told apart by their names only.
func virtualFunctions(sources map[string]*ast.File) map[string]bool {
	virtual := map[string]bool{"synctest.Test": true}
	declared := map[string]bool{}
	var functions []*ast.FuncDecl
	for name, f := range sources {
		if !isTest(name, f) { // the product names no functions of tests
			continue
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			functions = append(functions, fn)
			if strings.HasSuffix(name, "_test.go") {
				declared[fn.Name.Name] = true
			}
			if takesFunction(fn) && mentions(fn.Body, "synctest.Test") {
				virtual[fn.Name.Name] = true
			}
		}
	}
	for changed := true; changed; {
		changed = false
		inside, outside := map[string]bool{}, map[string]bool{}
		for _, fn := range functions {
			used := map[string]bool{}
			names(fn.Body, virtual, virtual[fn.Name.Name], inside, used)
			for name := range used {
				outside[name] = outside[name] || !isLocal(fn, name)
			}
		}
		for name, f := range sources {
			for _, d := range f.Decls {
				if g, ok := d.(*ast.GenDecl); ok && isTest(name, f) {
					names(g, virtual, false, inside, outside)
				}
			}
		}
		for name := range declared {
			if inside[name] && !outside[name] && !virtual[name] {
				virtual[name], changed = true, true
			}
		}
	}
	return virtual
}

// names notes which names are used inside and outside of bubbles.
func names(n ast.Node, virtual map[string]bool, bubble bool, inside, outside map[string]bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name := called(n.Fun); !bubble && (name == "synctest.Test" || virtual[name] && callsWithFunction(n)) {
				for _, arg := range n.Args {
					names(arg, virtual, true, inside, outside)
				}
				names(n.Fun, virtual, bubble, inside, outside)
				return false
			}
		case *ast.Ident:
			if bubble {
				inside[n.Name] = true
			} else {
				outside[n.Name] = true
			}
		}
		return true
	})
}

// isLocal reports whether a name is that of a parameter or a variable of a function.
func isLocal(fn *ast.FuncDecl, name string) bool {
	local := false
	ast.Inspect(fn, func(n ast.Node) bool {
		var idents []*ast.Ident
		switch n := n.(type) {
		case *ast.FuncType:
			for _, p := range n.Params.List {
				idents = append(idents, p.Names...)
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if ident, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					idents = append(idents, ident)
				}
			}
		}
		for _, ident := range idents {
			local = local || ident.Name == name
		}
		return !local
	})
	return local
}

// takesFunction reports whether a parameter is a function.
func takesFunction(fn *ast.FuncDecl) bool {
	for _, p := range fn.Type.Params.List {
		if _, ok := p.Type.(*ast.FuncType); ok {
			return true
		}
	}
	return false
}

func callsWithFunction(call *ast.CallExpr) bool {
	for _, arg := range call.Args {
		if _, ok := arg.(*ast.FuncLit); ok {
			return true
		}
	}
	return false
}

// mentions reports whether a function is called.
func mentions(n ast.Node, function string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && called(call.Fun) == function {
			found = true
		}
		return !found
	})
	return found
}
