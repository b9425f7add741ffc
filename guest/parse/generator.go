package parse

import "go.starlark.net/syntax"

// generator returns the body of a function with yield: the body makes a generator of an inner
// function with the real body. The inner function gets the arguments, because the body may assign
// to parameters.
func (p *parser) generator(pos syntax.Position, name string, params []syntax.Expr, body []syntax.Stmt) []syntax.Stmt {
	fn := BodyPrefix + name
	inner := []syntax.Expr{ident(pos, Generator)}
	operands := []syntax.Expr{ident(pos, fn)}
	for _, param := range params {
		if name := paramName(param); name != "" {
			inner = append(inner, ident(pos, name))
			operands = append(operands, ident(pos, name))
		}
	}
	return []syntax.Stmt{
		&syntax.DefStmt{Def: pos, Name: ident(pos, fn), Lparen: pos, Params: inner, Rparen: pos, Body: body},
		&syntax.ReturnStmt{Return: pos, Result: call(pos, Generate, operands...)},
	}
}

// paramName returns the name of a parameter, "" for a bare star.
func paramName(param syntax.Expr) string {
	switch q := param.(type) {
	case *syntax.BinaryExpr:
		param = q.X
	case *syntax.UnaryExpr:
		param = q.X
	}
	if id, ok := param.(*syntax.Ident); ok {
		return id.Name
	}
	return ""
}

// yieldOr parses yield, or else calls f.
func (p *parser) yieldOr(f func() syntax.Expr) syntax.Expr {
	if p.tok != syntax.YIELD {
		return f()
	}
	if !p.fn.def {
		p.refuse(p.val.pos, "yield outside of a function")
	}
	p.fn.yields = true
	pos := p.next()
	if p.accept(syntax.FROM) {
		return &syntax.BinaryExpr{X: ident(pos, Generator), OpPos: pos, Op: syntax.AMP, Y: p.test()}
	}
	value := syntax.Expr(ident(pos, "None"))
	if !p.atEnd() && p.tok != syntax.RPAREN {
		value = p.value()
	}
	return &syntax.BinaryExpr{X: ident(pos, Generator), OpPos: pos, Op: syntax.PIPE, Y: value}
}

// generatorExpr parses the clauses of a generator expression. The expression becomes a function
// with a loop and yield. As the argument of a call the expression may share the parentheses of the
// call.
//
//	(f(x) for x in xs)   ·genexpr(lambda ·g, ·it: [0 for x in ·it if ·g | f(x)], xs)
func (p *parser) generatorExpr(pos syntax.Position, body syntax.Expr, parens bool) syntax.Expr {
	const sequence = Hidden + "it"
	c := p.clauses(pos, body, syntax.RPAREN)
	if parens {
		p.next()
	}
	first := c.Clauses[0].(*syntax.ForClause)
	x := first.X
	first.X = ident(pos, sequence)
	yield := &syntax.BinaryExpr{X: ident(pos, Generator), OpPos: pos, Op: syntax.PIPE, Y: body}
	c.Body = &syntax.Literal{Token: syntax.INT, TokenPos: pos, Raw: "0", Value: int64(0)}
	c.Clauses = append(c.Clauses, &syntax.IfClause{If: pos, Cond: yield})
	fn := &syntax.LambdaExpr{Lambda: pos, Params: []syntax.Expr{ident(pos, Generator), ident(pos, sequence)}, Body: c}
	return call(pos, GenExpr, fn, x)
}

// call returns the call of a function without a name in scripts.
func call(pos syntax.Position, name string, args ...syntax.Expr) syntax.Expr {
	return &syntax.CallExpr{Fn: ident(pos, name), Lparen: pos, Args: args, Rparen: pos}
}

// ListOf returns the list comprehension with the elements of a generator expression,
// and nil if e is none. The tree of e is used up.
func ListOf(e syntax.Expr) *syntax.Comprehension {
	call, ok := e.(*syntax.CallExpr)
	if !ok {
		return nil
	}
	if id, ok := call.Fn.(*syntax.Ident); !ok || id.Name != GenExpr {
		return nil
	}
	c := call.Args[0].(*syntax.LambdaExpr).Body.(*syntax.Comprehension)
	last := len(c.Clauses) - 1
	c.Body = c.Clauses[last].(*syntax.IfClause).Cond.(*syntax.BinaryExpr).Y
	c.Clauses = c.Clauses[:last]
	c.Clauses[0].(*syntax.ForClause).X = call.Args[1]
	return c
}
