// Parts of this file are derived from go.starlark.net/syntax,
// Copyright 2017 The Bazel Authors. All rights reserved.
// Use of that source code is governed by a BSD-style license: see THIRD_PARTY_NOTICES.

package parse

import "go.starlark.net/syntax"

// expr parses expressions with commas between them, a tuple.
func (p *parser) expr() syntax.Expr { return p.list(p.test) }

// starExpr is expr with elements that may have a star. An expression with a star is not lowered, as
// a possible target.
func (p *parser) starExpr() syntax.Expr { return p.list(p.starTest) }

// value is starExpr for expressions other than targets.
func (p *parser) value() syntax.Expr {
	e := p.starExpr()
	if hasStar(e) {
		return p.starred(e)
	}
	return e
}

func (p *parser) list(element func() syntax.Expr) syntax.Expr {
	x := element()
	if p.tok != syntax.COMMA {
		return x
	}
	list := []syntax.Expr{x}
	for p.accept(syntax.COMMA) {
		if endsList(p.tok) {
			break
		}
		list = append(list, element())
	}
	return &syntax.TupleExpr{List: list}
}

func endsList(tok syntax.Token) bool {
	switch tok {
	case syntax.EOF, syntax.NEWLINE, syntax.EQ, syntax.RBRACE, syntax.RBRACK, syntax.RPAREN, syntax.SEMI, syntax.COLON:
		return true
	}
	return false
}

// starTest parses an expression, or an element with a star.
func (p *parser) starTest() syntax.Expr {
	if p.tok == syntax.STAR {
		pos := p.next()
		return &syntax.UnaryExpr{OpPos: pos, Op: syntax.STAR, X: p.binary(comparisonLevel + 1)}
	}
	return p.test()
}

// named parses an expression or an assignment, x := value.
func (p *parser) named() syntax.Expr { return p.namedRest(p.test()) }

func (p *parser) namedRest(x syntax.Expr) syntax.Expr {
	if p.tok != walrus {
		return x
	}
	id, ok := x.(*syntax.Ident)
	if !ok {
		p.refuse(p.val.pos, "only a name can stand before :=")
	}
	pos := p.next()
	return p.walrus(pos, id, p.test())
}

// walrus returns the assignment of a value to a variable, as an expression. The parentheses
// distinguish the assignment from the named argument of a call.
func (p *parser) walrus(pos syntax.Position, id *syntax.Ident, value syntax.Expr) syntax.Expr {
	p.file.Walrus = true
	return &syntax.ParenExpr{Lparen: id.NamePos, X: &syntax.BinaryExpr{X: id, OpPos: pos, Op: syntax.EQ, Y: value}, Rparen: pos}
}

// test parses an expression.
func (p *parser) test() syntax.Expr {
	p.enter()
	defer p.leave()
	if p.tok == syntax.LAMBDA {
		return p.lambda(true)
	}
	x := p.binary(0)
	if p.tok != syntax.IF {
		return x
	}
	ifPos := p.next()
	cond := p.binary(0)
	if p.tok != syntax.ELSE {
		p.fail(ifPos, "conditional expression without else clause")
	}
	elsePos := p.next()
	return &syntax.CondExpr{If: ifPos, Cond: cond, True: x, ElsePos: elsePos, False: p.test()}
}

// testNoCond parses an expression without if and else.
func (p *parser) testNoCond() syntax.Expr {
	if p.tok == syntax.LAMBDA {
		return p.lambda(false)
	}
	return p.binary(0)
}

func (p *parser) lambda(cond bool) syntax.Expr {
	p.enter()
	defer p.leave()
	pos := p.next()
	var params []syntax.Expr
	if p.tok != syntax.COLON {
		params = p.params(false)
	}
	p.consume(syntax.COLON)
	outer := p.fn
	p.fn = &function{outer: outer}
	body := p.testNoCond
	if cond {
		body = p.test
	}
	e := &syntax.LambdaExpr{Lambda: pos, Params: params, Body: body()}
	p.fn = outer
	return e
}

// binary parses operators of a level and above.
func (p *parser) binary(level int) syntax.Expr {
	p.enter()
	defer p.leave()
	switch {
	case level >= len(levels):
		return p.suffixed()
	case level == notLevel && p.tok == syntax.NOT:
		pos := p.next()
		return &syntax.UnaryExpr{OpPos: pos, Op: syntax.NOT, X: p.binary(level)}
	case level == comparisonLevel:
		return p.comparison()
	}
	x := p.binary(level + 1)
	for {
		if p.tok == syntax.NOT && level < comparisonLevel {
			return x // the levels below have looked for a following in
		}
		if int(precedence[p.tok]) < level {
			return x
		}
		op := p.tok
		above := int(precedence[op]) + 1
		pos := p.next()
		x = &syntax.BinaryExpr{OpPos: pos, Op: op, X: x, Y: p.binary(above)}
	}
}

// comparison parses comparisons, which can be chained: a < b < c.
func (p *parser) comparison() syntax.Expr {
	x := p.binary(comparisonLevel + 1)
	var all syntax.Expr
	for {
		op, pos, not := p.comparator()
		if op == syntax.ILLEGAL {
			break
		}
		y := p.binary(comparisonLevel + 1)
		left := x
		if all != nil {
			// x is also the right operand of the comparison before.
			all, left = p.sharedOperand(all, x)
		}
		c := p.compare(op, pos, not, left, y)
		if all == nil {
			all = c
		} else {
			all = &syntax.BinaryExpr{OpPos: pos, Op: syntax.AND, X: all, Y: c}
		}
		x = y
	}
	if all == nil {
		return x
	}
	return all
}

// comparator reads an operator of comparison; not belongs to is. Without an operator, op is
// ILLEGAL.
func (p *parser) comparator() (op syntax.Token, pos syntax.Position, not bool) {
	if p.tok == syntax.NOT {
		p.next()
		if p.tok != syntax.IN {
			p.fail(p.in.pos, "got %s, want in", describe(p.tok))
		}
		return syntax.NOT_IN, p.next(), false
	}
	if precedence[p.tok] != comparisonLevel {
		return syntax.ILLEGAL, pos, false
	}
	op = p.tok
	pos = p.next()
	if op == syntax.IS {
		not = p.accept(syntax.NOT)
	}
	return op, pos, not
}

// sharedOperand makes the right operand of the last comparison usable a second time: an operand
// other than a name or literal is put into a temporary variable.
func (p *parser) sharedOperand(all, x syntax.Expr) (before, again syntax.Expr) {
	switch x := x.(type) {
	case *syntax.Ident:
		return all, ident(x.NamePos, x.Name)
	case *syntax.Literal:
		if p.file.Strings[x] == nil {
			again := *x
			return all, &again
		}
	}
	last := all.(*syntax.BinaryExpr)
	if last.Op == syntax.AND {
		last = last.Y.(*syntax.BinaryExpr)
	}
	pos := syntax.Start(x)
	name := p.temp()
	shared := p.walrus(pos, ident(pos, name), x)
	if operands, ok := last.Y.(*syntax.TupleExpr); ok && last.Op == syntax.PIPE { // of is
		operands.List[1] = shared
	} else {
		last.Y = shared
	}
	return all, ident(pos, name)
}

// compare returns a comparison. Comparing with None, and comparing types of values, means the same
// with is and ==.
func (p *parser) compare(op syntax.Token, pos syntax.Position, not bool, x, y syntax.Expr) syntax.Expr {
	if op != syntax.IS {
		return &syntax.BinaryExpr{OpPos: pos, Op: op, X: x, Y: y}
	}
	if isNone(x) || isNone(y) || isTypeCall(x) || isTypeCall(y) {
		op = syntax.EQL
		if not {
			op = syntax.NEQ
		}
		return &syntax.BinaryExpr{OpPos: pos, Op: op, X: x, Y: y}
	}
	if not {
		return p.operator(pos, IsNot, x, y)
	}
	return p.operator(pos, Is, x, y)
}

func isNone(e syntax.Expr) bool {
	id, ok := e.(*syntax.Ident)
	return ok && id.Name == "None"
}

func isTypeCall(e syntax.Expr) bool {
	call, ok := e.(*syntax.CallExpr)
	if !ok || len(call.Args) != 1 {
		return false
	}
	id, ok := call.Fn.(*syntax.Ident)
	return ok && id.Name == "type"
}
