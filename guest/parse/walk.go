package parse

import "go.starlark.net/syntax"

// Bindings appends the names bound by statements in their own function, in order. Without tries,
// names in try statements are left out.
func Bindings(stmts []syntax.Stmt, out []*syntax.Ident, tries bool) []*syntax.Ident {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.AssignStmt:
			out = TargetNames(s.LHS, out)
		case *syntax.DefStmt:
			out = append(out, s.Name)
		case *syntax.ForStmt:
			out = Bindings(s.Body, TargetNames(s.Vars, out), tries)
		case *syntax.WhileStmt:
			out = Bindings(s.Body, out, tries)
		case *syntax.IfStmt:
			out = Bindings(s.False, Bindings(s.True, out, tries), tries)
		case *Try:
			if !tries {
				continue
			}
			for _, c := range s.Clauses {
				if c.As != nil {
					out = append(out, c.As)
				}
			}
			for _, part := range s.Parts() {
				out = Bindings(part, out, tries)
			}
		}
	}
	return out
}

// declaredNames adds the names of global and nonlocal statements in a function.
func declaredNames(stmts []syntax.Stmt, out map[string]bool) map[string]bool {
	if out == nil {
		out = make(map[string]bool)
	}
	for _, s := range stmts {
		switch s := s.(type) {
		case *Scope:
			for _, id := range s.Names {
				out[id.Name] = true
			}
		case *syntax.ForStmt:
			declaredNames(s.Body, out)
		case *syntax.WhileStmt:
			declaredNames(s.Body, out)
		case *syntax.IfStmt:
			declaredNames(s.False, declaredNames(s.True, out))
		case *Try:
			for _, part := range s.Parts() {
				declaredNames(part, out)
			}
		}
	}
	return out
}

// eachClause calls f with the except clauses of a function.
func eachClause(stmts []syntax.Stmt, f func(*Except)) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.ForStmt:
			eachClause(s.Body, f)
		case *syntax.WhileStmt:
			eachClause(s.Body, f)
		case *syntax.IfStmt:
			eachClause(s.True, f)
			eachClause(s.False, f)
		case *Try:
			for _, c := range s.Clauses {
				f(c)
			}
			for _, part := range s.Parts() {
				eachClause(part, f)
			}
		}
	}
}

// TargetNames appends the names bound by an assignment to a target, in order.
func TargetNames(target syntax.Expr, out []*syntax.Ident) []*syntax.Ident {
	EachTarget(target, func(e syntax.Expr) {
		if id, ok := e.(*syntax.Ident); ok {
			out = append(out, id)
		}
	})
	return out
}

// EachTarget calls f with the parts of a target: names, elements, slices and attributes.
func EachTarget(target syntax.Expr, f func(syntax.Expr)) {
	if list := elements(target); list != nil {
		for _, x := range *list {
			EachTarget(x, f)
		}
	} else if paren, ok := target.(*syntax.ParenExpr); ok {
		EachTarget(paren.X, f)
	} else {
		f(target)
	}
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
