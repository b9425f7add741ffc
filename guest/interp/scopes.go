package interp

import (
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"go.starlark.net/syntax"
)

// generatorWalrus returns the names assigned by generator expressions of a function. Each of these
// expressions is a function, but the names belong to the enclosing function.
func generatorWalrus(stmts []syntax.Stmt) (names []string) {
	eachExpr(stmts, func(e syntax.Expr) {
		syntax.Walk(e, func(n syntax.Node) bool {
			if body := generatorBody(n); body != nil {
				for _, id := range walrusNames([]syntax.Stmt{&syntax.ExprStmt{X: body}}, nil) {
					if !strings.HasPrefix(id.Name, parse.Hidden) {
						names = append(names, id.Name)
					}
				}
			}
			_, isLambda := n.(*syntax.LambdaExpr)
			return !isLambda
		})
	})
	return names
}

// generatorsAssign reports whether a generator expression assigns to a name.
func generatorsAssign(f *syntax.File) bool {
	found := false
	syntax.Walk(f, func(n syntax.Node) bool {
		if e, ok := n.(syntax.Expr); ok && generatorBody(n) != nil {
			found = found || len(generatorWalrus([]syntax.Stmt{&syntax.ExprStmt{X: e}})) > 0
		}
		return !found
	})
	return found
}

// generatorBody returns the comprehension of a generator expression; nil if n is none.
func generatorBody(n syntax.Node) syntax.Expr {
	call, ok := n.(*syntax.CallExpr)
	if !ok {
		return nil
	}
	if id, ok := call.Fn.(*syntax.Ident); !ok || id.Name != parse.GenExpr {
		return nil
	}
	return call.Args[0].(*syntax.LambdaExpr).Body
}

// walrusNames appends the names assigned by expressions in a function.
func walrusNames(stmts []syntax.Stmt, out []*syntax.Ident) []*syntax.Ident {
	eachExpr(stmts, func(e syntax.Expr) {
		syntax.Walk(e, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.LambdaExpr:
				return false
			case *syntax.CallExpr:
				if body := generatorBody(n); body != nil {
					for _, id := range walrusNames([]syntax.Stmt{&syntax.ExprStmt{X: body}}, nil) {
						if !strings.HasPrefix(id.Name, parse.Hidden) {
							out = append(out, id)
						}
					}
				}
				for _, a := range n.Args { // the names of arguments are none
					if b, ok := a.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
						out = walrusNames([]syntax.Stmt{&syntax.ExprStmt{X: b.Y}}, out)
					} else {
						out = walrusNames([]syntax.Stmt{&syntax.ExprStmt{X: a}}, out)
					}
				}
				out = walrusNames([]syntax.Stmt{&syntax.ExprStmt{X: n.Fn}}, out)
				return false
			case *syntax.BinaryExpr:
				if id, ok := n.X.(*syntax.Ident); ok && n.Op == syntax.EQ {
					out = append(out, id)
				}
			}
			return true
		})
	})
	return out
}

// eachExpr calls f with the expressions of statements, but not inside inner functions.
func eachExpr(stmts []syntax.Stmt, f func(syntax.Expr)) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.ExprStmt:
			f(s.X)
		case *syntax.AssignStmt:
			f(s.LHS)
			f(s.RHS)
		case *syntax.ReturnStmt:
			if s.Result != nil {
				f(s.Result)
			}
		case *syntax.IfStmt:
			f(s.Cond)
			eachExpr(s.True, f)
			eachExpr(s.False, f)
		case *syntax.ForStmt:
			f(s.X)
			eachExpr(s.Body, f)
		case *syntax.WhileStmt:
			f(s.Cond)
			eachExpr(s.Body, f)
		case *parse.Try:
			for _, part := range s.Parts() {
				eachExpr(part, f)
			}
		}
	}
}

// outermost returns the scope of the script.
func (s *scope) outermost() *scope {
	for s.outer != nil {
		s = s.outer
	}
	return s
}

// scopes applies the global and nonlocal statements of a function and of inner functions. It adds
// the variables assigned by other functions to names, which are shared.
func (t *tryRewriter) scopes(s *scope, body []syntax.Stmt, names []string) []string {
	if s.outer != nil {
		for _, d := range declarations(body, false) {
			for _, id := range d.Names {
				if d.Global {
					if s.globals == nil {
						s.globals = make(map[string]bool)
					}
					s.globals[id.Name] = true
				}
				delete(s.names, id.Name)
				names = slices.DeleteFunc(names, func(n string) bool { return n == id.Name })
			}
		}
	}
	for _, d := range declarations(body, true) {
		for _, id := range d.Names {
			if d.Global && s.outer == nil {
				s.names[id.Name] = true
			}
			if (s.outer == nil || !d.Global) && s.names[id.Name] && !slices.Contains(names, id.Name) {
				names = append(names, id.Name)
			}
		}
	}
	return names
}

// declarations returns the global and nonlocal statements of a function, or of the inner functions.
func declarations(stmts []syntax.Stmt, inside bool) (out []*parse.Scope) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *parse.Scope:
			if !inside {
				out = append(out, s)
			}
		case *syntax.IfStmt:
			out = append(append(out, declarations(s.True, inside)...), declarations(s.False, inside)...)
		case *syntax.ForStmt:
			out = append(out, declarations(s.Body, inside)...)
		case *syntax.WhileStmt:
			out = append(out, declarations(s.Body, inside)...)
		case *parse.Try:
			for _, part := range s.Parts() {
				out = append(out, declarations(part, inside)...)
			}
		case *syntax.DefStmt:
			if inside {
				out = append(append(out, declarations(s.Body, false)...), declarations(s.Body, true)...)
			}
		}
	}
	return out
}

// checkScope refuses nonlocal for a variable unknown to all enclosing functions.
func (t *tryRewriter) checkScope(s *parse.Scope, r *region) {
	for _, id := range s.Names {
		if _, _, ok := r.scope.find(id.Name); !ok && !s.Global {
			t.fail(id.NamePos, "syntax error: no binding for nonlocal %s found: no function around this one has such a variable", id.Name)
		}
	}
}
