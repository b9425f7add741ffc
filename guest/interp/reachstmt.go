package interp

import (
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"go.starlark.net/syntax"
)

func (r *reacher) stmts(stmts []syntax.Stmt) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.ExprStmt: // not the last statement, which is returned
			r.value(s.X)
		case *syntax.ReturnStmt:
			r.expr(s.Result)
		case *syntax.AssignStmt:
			if s.Op == syntax.EQ {
				r.assignment(s.LHS, s.RHS)
				continue
			}
			r.expr(s.RHS)
			if id, ok := s.LHS.(*syntax.Ident); ok {
				r.expr(id)
			}
			r.target(s.LHS)
		case *syntax.IfStmt:
			r.value(s.Cond)
			r.stmts(s.True)
			r.stmts(s.False)
		case *syntax.ForStmt:
			r.loop(s.Vars, s.X)
			r.stmts(s.Body)
		case *syntax.WhileStmt:
			r.value(s.Cond)
			r.stmts(s.Body)
		case *syntax.DefStmt:
			r.target(s.Name)
			r.params(s.Params)
			r.stmts(s.Body)
		}
	}
}

// assignment reads target = x. Tuples are assigned element by element.
func (r *reacher) assignment(target, x syntax.Expr) {
	target, x = unparen(target), unparen(x)
	if id, ok := target.(*syntax.Ident); ok {
		r.assign(id, r.value(x))
		return
	}
	to, from := sequence(target), sequence(x)
	if to == nil || len(to) != len(from) {
		r.expr(x)
		r.target(target)
		return
	}
	for i := range to {
		r.assignment(to[i], from[i])
	}
}

// sequence returns the elements of a tuple or list display, otherwise nil.
func sequence(e syntax.Expr) []syntax.Expr {
	switch e := e.(type) {
	case *syntax.TupleExpr:
		return e.List
	case *syntax.ListExpr:
		return e.List
	}
	return nil
}

// loop reads for target in x. The elements of a display are assigned one by one.
func (r *reacher) loop(target, x syntax.Expr) {
	elements := sequence(unparen(x))
	if len(elements) == 0 {
		r.expr(x)
		r.target(target)
		return
	}
	for _, e := range elements {
		r.assignment(target, e)
	}
}

// target reads the target of unknown values.
func (r *reacher) target(e syntax.Expr) {
	parse.EachTarget(e, func(e syntax.Expr) {
		if id, ok := e.(*syntax.Ident); ok {
			r.assign(id, unknown)
		} else {
			r.expr(e)
		}
	})
}

// params reads parameters. Callers can pass any value; servers and possible servers have been
// accounted for at the call.
func (r *reacher) params(params []syntax.Expr) {
	for _, p := range params {
		switch p := p.(type) {
		case *syntax.Ident:
			r.assign(p, unknown)
		case *syntax.BinaryExpr:
			id := p.X.(*syntax.Ident)
			r.assign(id, r.value(p.Y))
			r.assign(id, unknown)
		case *syntax.UnaryExpr:
			if id, ok := p.X.(*syntax.Ident); ok {
				r.assign(id, unknown)
			}
		}
	}
}
