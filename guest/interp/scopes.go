package interp

import (
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
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

// sharedNames returns the variables of a function to be shared with the parts of try statements, in
// the order of their bindings. Parameters are included if a part assigns to them.
func sharedNames(params []syntax.Expr, body []syntax.Stmt, walrus bool) []string {
	u := usage{total: make(mentions), shared: make(map[string]bool), walrus: walrus}
	tries := false
	eachTry(body, false, func(*parse.Try, bool) { tries = true })
	if !tries {
		return nil
	}
	u.total.params(params)
	u.total.block(body)
	u.decide(body, false)
	var names []string
	all := bindings(body, paramNames(params))
	if walrus {
		all = walrusNames(body, all)
	}
	for _, id := range all {
		if u.shared[id.Name] {
			names = append(names, id.Name)
			delete(u.shared, id.Name)
		}
	}
	return names
}

// usage counts where the variables of a function are mentioned and bound.
type usage struct {
	total  mentions
	shared map[string]bool
	walrus bool // expressions contain assignments
}

// decide checks the parts of try statements. A name bound by a part is shared, unless the name is
// mentioned nowhere else and the part runs only once in a call of the function. (If an inner part
// binds the name too, the name is shared because of the inner part.)
func (u *usage) decide(stmts []syntax.Stmt, inLoop bool) {
	eachTry(stmts, inLoop, func(s *parse.Try, inLoop bool) {
		for _, c := range s.Clauses {
			if c.As != nil {
				u.shared[c.As.Name] = true
			}
		}
		for _, part := range s.Parts() {
			here := make(mentions)
			here.block(part)
			bound := parse.Bindings(part, nil, false)
			if u.walrus {
				bound = walrusNames(part, bound)
			}
			for _, id := range bound {
				if inLoop || here[id.Name] != u.total[id.Name] {
					u.shared[id.Name] = true
				}
			}
			u.decide(part, inLoop)
		}
	})
}

// eachTry calls f with the outermost try statements of some code of a function, and
// whether they are in a loop.
func eachTry(stmts []syntax.Stmt, inLoop bool, f func(s *parse.Try, inLoop bool)) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *parse.Try:
			f(s, inLoop)
		case *syntax.IfStmt:
			eachTry(s.True, inLoop, f)
			eachTry(s.False, inLoop, f)
		case *syntax.ForStmt:
			eachTry(s.Body, true, f)
		case *syntax.WhileStmt:
			eachTry(s.Body, true, f)
		}
	}
}

// mentions counts how often each name occurs in some code, whatever the name means there.
type mentions map[string]int

func (m mentions) block(stmts []syntax.Stmt) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.ExprStmt:
			m.expr(s.X)
		case *syntax.AssignStmt:
			m.expr(s.LHS)
			m.expr(s.RHS)
		case *syntax.ReturnStmt:
			m.expr(s.Result)
		case *syntax.IfStmt:
			m.expr(s.Cond)
			m.block(s.True)
			m.block(s.False)
		case *syntax.ForStmt:
			m.expr(s.Vars)
			m.expr(s.X)
			m.block(s.Body)
		case *syntax.WhileStmt:
			m.expr(s.Cond)
			m.block(s.Body)
		case *syntax.DefStmt:
			m[s.Name.Name]++
			m.params(s.Params)
			m.block(s.Body)
		case *parse.Try:
			for _, c := range s.Clauses {
				if c.As != nil {
					m[c.As.Name]++
				}
			}
			for _, part := range s.Parts() {
				m.block(part)
			}
		}
	}
}

func (m mentions) params(params []syntax.Expr) {
	for _, p := range params {
		if u, ok := p.(*syntax.UnaryExpr); ok {
			p = u.X // nil after a bare *
		}
		m.expr(p)
	}
}

func (m mentions) expr(e syntax.Expr) {
	if e == nil {
		return
	}
	syntax.Walk(e, func(n syntax.Node) bool {
		if id, ok := n.(*syntax.Ident); ok {
			m[id.Name]++
		}
		return true
	})
}
