package interp

import (
	"slices"

	"go.starlark.net/syntax"
)

func (r *rewriter) exprs(list []syntax.Expr) {
	for i := range list {
		list[i] = r.expr(list[i])
	}
}

// expr rewrites an expression and returns the replacement; nil stays nil.
func (r *rewriter) expr(e syntax.Expr) syntax.Expr {
	if e == nil || !r.nest(e) {
		return e
	}
	defer r.unnest()
	switch e := e.(type) {
	case *syntax.Literal:
		if found := r.parsed.Strings[e]; found != nil {
			return r.joined(found, e)
		}
	case *syntax.ParenExpr:
		e.X = r.expr(e.X)
	case *syntax.UnaryExpr:
		e.X = r.expr(e.X)
	case *syntax.BinaryExpr:
		switch e.Op {
		case syntax.EQ: // an assignment
			e.X, e.Y = r.target(e.X), r.expr(e.Y)
			return e
		case syntax.AND, syntax.OR:
			r.branch(e.OpPos)
		}
		e.X, e.Y = r.expr(e.X), r.expr(e.Y)
		r.compared(e)
		if e.Op == syntax.PERCENT {
			return modulo(e.OpPos, e.X, e.Y)
		}
	case *syntax.CondExpr:
		r.branch(e.If)
		e.Cond, e.True, e.False = r.expr(e.Cond), r.expr(e.True), r.expr(e.False)
	case *syntax.DotExpr:
		e.X = r.expr(e.X)
		if id, ok := e.X.(*syntax.Ident); ok && (isType(id.Name) || registry[id.Name] != nil) {
			r.dots = append(r.dots, e)
		}
		switch {
		case e.Name.Name == formatMethod:
			return operator(e.Dot, markMethodName, e)
		case e.Name.Name == "__name__" && isTypeCall(e.X) && !r.bound["type"]:
			return operator(e.Dot, typeNameName, e.X)
		}
	case *syntax.IndexExpr:
		e.X, e.Y = r.expr(e.X), r.expr(e.Y)
	case *syntax.SliceExpr:
		e.X, e.Lo, e.Hi, e.Step = r.expr(e.X), r.expr(e.Lo), r.expr(e.Hi), r.expr(e.Step)
	case *syntax.CallExpr:
		e.Fn = r.expr(e.Fn)
		namedFirst(e.Args)
		r.args(e.Args)
		if len(e.Args) == 1 {
			if _, ok := e.Args[0].(*syntax.CallExpr); ok {
				r.lazy = append(r.lazy, e)
			}
		}
	case *syntax.ListExpr:
		r.exprs(e.List)
	case *syntax.TupleExpr:
		r.exprs(e.List)
	case *syntax.DictExpr:
		for _, x := range e.List {
			entry := x.(*syntax.DictEntry)
			entry.Key, entry.Value = r.expr(entry.Key), r.expr(entry.Value)
		}
		return operator(e.Lbrace, wrapDictName, e)
	case *syntax.Comprehension:
		r.comprehension(e)
		if e.Curly {
			return operator(e.Lbrack, wrapDictName, e)
		}
	case *syntax.LambdaExpr:
		r.lambda(e)
	}
	return e
}

// namedFirst moves named arguments before *args, where Starlark wants them. Python
// allows them on both sides.
func namedFirst(args []syntax.Expr) {
	star := slices.IndexFunc(args, func(a syntax.Expr) bool {
		u, ok := a.(*syntax.UnaryExpr)
		return ok && u.Op == syntax.STAR
	})
	if star < 0 {
		return
	}
	slices.SortStableFunc(args[star:], func(a, b syntax.Expr) int {
		rank := func(e syntax.Expr) int {
			if b, ok := e.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
}

// args rewrites the arguments of a call, without the names before =.
func (r *rewriter) args(args []syntax.Expr) {
	for i, a := range args {
		if named, ok := a.(*syntax.BinaryExpr); ok && named.Op == syntax.EQ {
			named.Y = r.expr(named.Y)
			continue
		}
		args[i] = r.expr(a)
	}
}

func (r *rewriter) comprehension(e *syntax.Comprehension) {
	depth := r.depth
	for _, c := range e.Clauses {
		r.depth++ // the compiler recurses over clauses
		switch c := c.(type) {
		case *syntax.ForClause:
			r.branch(c.For)
			c.Vars = r.target(c.Vars)
			c.X = r.expr(c.X)
		case *syntax.IfClause:
			r.branch(c.If)
			c.Cond = r.expr(c.Cond)
		}
	}
	if entry, ok := e.Body.(*syntax.DictEntry); ok {
		entry.Key, entry.Value = r.expr(entry.Key), r.expr(entry.Value)
	} else {
		e.Body = r.expr(e.Body)
	}
	r.depth = depth
}

// lambda rewrites lambda **kw: body as lambda **kw: [body for kw in [wrapped]][0], which needs no
// additional frame.
func (r *rewriter) lambda(e *syntax.LambdaExpr) {
	kwargs := r.params(e.Params)
	outer := r.branches
	r.branches = 0
	e.Body = r.expr(e.Body)
	r.branches = outer
	if kwargs == nil {
		return
	}
	pos := kwargs.NamePos
	wrapped := operator(pos, wrapDictName, ident(pos, kwargs.Name))
	e.Body = &syntax.IndexExpr{
		X: &syntax.Comprehension{
			Lbrack: pos, Body: e.Body, Rbrack: pos,
			Clauses: []syntax.Node{&syntax.ForClause{
				For: pos, Vars: ident(pos, kwargs.Name), In: pos,
				X: &syntax.ListExpr{Lbrack: pos, List: []syntax.Expr{wrapped}, Rbrack: pos},
			}},
		},
		Lbrack: pos, Rbrack: pos,
		Y: &syntax.Literal{Token: syntax.INT, TokenPos: pos, Raw: "0", Value: int64(0)},
	}
}

func ident(pos syntax.Position, name string) *syntax.Ident {
	return &syntax.Ident{NamePos: pos, Name: name}
}

// operator returns (name | x); the value of name decides the result.
func operator(pos syntax.Position, name string, x syntax.Expr) syntax.Expr {
	return &syntax.BinaryExpr{X: ident(pos, name), OpPos: pos, Op: syntax.PIPE, Y: x}
}

// modulo rewrites x % y. A possible text x is marked for format.go. With a number on the right
// nothing is marked: x % 2 is common in loops.
func modulo(pos syntax.Position, x, y syntax.Expr) syntax.Expr {
	if number, ok := y.(*syntax.Literal); !ok || number.Token != syntax.INT || isText(x) {
		x = operator(pos, markModuloName, x)
	}
	return &syntax.BinaryExpr{X: x, OpPos: pos, Op: syntax.PERCENT, Y: y}
}

func isText(x syntax.Expr) bool {
	if p, ok := x.(*syntax.ParenExpr); ok {
		return isText(p.X)
	}
	text, ok := x.(*syntax.Literal)
	return ok && text.Token == syntax.STRING
}

// formatOperand marks the right operand of x.y %= ...
func formatOperand(pos syntax.Position, x syntax.Expr) syntax.Expr {
	return operator(pos, markFormatName, x)
}

func assign(pos syntax.Position, name string, x syntax.Expr) syntax.Stmt {
	return &syntax.AssignStmt{OpPos: pos, Op: syntax.EQ, LHS: ident(pos, name), RHS: x}
}
