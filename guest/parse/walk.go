package parse

import "go.starlark.net/syntax"

// bindings appends the names that statements bind in their own function.
func bindings(stmts []syntax.Stmt, out []*syntax.Ident) []*syntax.Ident {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.AssignStmt:
			out = targetNames(s.LHS, out)
		case *syntax.DefStmt:
			out = append(out, s.Name)
		case *syntax.ForStmt:
			out = bindings(s.Body, targetNames(s.Vars, out))
		case *syntax.WhileStmt:
			out = bindings(s.Body, out)
		case *syntax.IfStmt:
			out = bindings(s.False, bindings(s.True, out))
		case *Try:
			for _, c := range s.Clauses {
				if c.As != nil {
					out = append(out, c.As)
				}
			}
			for _, part := range s.Parts() {
				out = bindings(part, out)
			}
		}
	}
	return out
}

func targetNames(e syntax.Expr, out []*syntax.Ident) []*syntax.Ident {
	if id, ok := e.(*syntax.Ident); ok {
		return append(out, id)
	}
	if list := elements(e); list != nil {
		for _, x := range *list {
			out = targetNames(x, out)
		}
	} else if paren, ok := e.(*syntax.ParenExpr); ok {
		out = targetNames(paren.X, out)
	}
	return out
}

// A renamer renames variables in code, but not in the functions inside.
type renamer map[string]string

func rename(stmts []syntax.Stmt, names map[string]string) { renamer(names).block(stmts) }

func (r renamer) block(stmts []syntax.Stmt) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.ExprStmt:
			r.expr(s.X)
		case *syntax.AssignStmt:
			r.expr(s.LHS)
			r.expr(s.RHS)
		case *syntax.IfStmt:
			r.expr(s.Cond)
			r.block(s.True)
			r.block(s.False)
		case *syntax.ForStmt:
			r.expr(s.Vars)
			r.expr(s.X)
			r.block(s.Body)
		case *syntax.WhileStmt:
			r.expr(s.Cond)
			r.block(s.Body)
		case *syntax.DefStmt:
			r.expr(s.Name)
			r.params(s.Params)
		case *Try:
			for _, c := range s.Clauses {
				r.expr(c.Class)
				if c.As != nil {
					r.expr(c.As)
				}
			}
			for _, part := range s.Parts() {
				r.block(part)
			}
		}
	}
}

// params renames in the defaults of parameters.
func (r renamer) params(params []syntax.Expr) {
	for _, p := range params {
		if b, ok := p.(*syntax.BinaryExpr); ok {
			r.expr(b.Y)
		}
	}
}

func (r renamer) expr(e syntax.Expr) {
	if e == nil {
		return
	}
	syntax.Walk(e, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Ident:
			if name, ok := r[n.Name]; ok {
				n.Name = name
			}
		case *syntax.DotExpr:
			r.expr(n.X)
			return false
		case *syntax.CallExpr:
			r.expr(n.Fn)
			for _, a := range n.Args {
				if b, ok := a.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
					r.expr(b.Y)
					continue
				}
				r.expr(a)
			}
			return false
		case *syntax.LambdaExpr:
			r.params(n.Params)
			return false
		}
		return true
	})
}
