// Parts of this file are derived from go.starlark.net/syntax,
// Copyright 2017 The Bazel Authors. All rights reserved.
// Use of that source code is governed by a BSD-style license: see THIRD_PARTY_NOTICES.

package parse

import (
	"go.starlark.net/syntax"
)

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

// suffixed parses an operand with the following calls, indexes and attributes, up to **, which
// binds more closely than a preceding sign.
func (p *parser) suffixed() syntax.Expr {
	x := p.operand()
	for {
		switch p.tok {
		case syntax.DOT:
			dot := p.next()
			id := p.ident()
			x = &syntax.DotExpr{Dot: dot, X: x, NamePos: id.NamePos, Name: id}
		case syntax.LBRACK:
			x = p.index(x)
		case syntax.LPAREN:
			x = p.call(x)
		case syntax.STARSTAR:
			p.enter()
			pos := p.next()
			x = p.operator(pos, Power, x, p.suffixed())
			p.leave()
			return x
		default:
			return x
		}
	}
}

// index parses x[i] and x[lo:hi:step].
func (p *parser) index(x syntax.Expr) syntax.Expr {
	lbrack := p.next()
	var lo, hi, step syntax.Expr
	if p.tok != syntax.COLON {
		y := p.namedRest(p.value())
		if p.tok == syntax.RBRACK {
			return &syntax.IndexExpr{X: x, Lbrack: lbrack, Y: y, Rbrack: p.next()}
		}
		lo = y
	}
	if p.accept(syntax.COLON) && p.tok != syntax.COLON && p.tok != syntax.RBRACK {
		hi = p.test()
	}
	if p.accept(syntax.COLON) && p.tok != syntax.RBRACK {
		step = p.test()
	}
	return &syntax.SliceExpr{X: x, Lbrack: lbrack, Lo: lo, Hi: hi, Step: step, Rbrack: p.consume(syntax.RBRACK)}
}

func (p *parser) operand() syntax.Expr {
	p.enter()
	defer p.leave()
	switch p.tok {
	case syntax.IDENT:
		return p.ident()
	case syntax.INT, syntax.FLOAT:
		return p.numeral()
	case syntax.STRING, syntax.BYTES, fstringToken:
		return p.stringLiteral()
	case syntax.LBRACK:
		return p.brackets()
	case syntax.LBRACE:
		return p.braces()
	case syntax.LPAREN:
		return p.parens()
	case syntax.MINUS, syntax.PLUS, syntax.TILDE:
		tok := p.tok
		pos := p.next()
		return &syntax.UnaryExpr{OpPos: pos, Op: tok, X: p.suffixed()}
	case ellipsis:
		return ident(p.next(), "None")
	}
	// The position of the token itself: the token may be a newline.
	p.fail(p.val.pos, "got %s, want primary expression", describe(p.tok))
	return nil
}

func (p *parser) numeral() syntax.Expr {
	lit := &syntax.Literal{Token: p.tok, TokenPos: p.val.pos, Raw: p.val.raw}
	switch {
	case p.tok == syntax.FLOAT:
		lit.Value = p.val.float
	case p.val.big != nil:
		lit.Value = p.val.big
	default:
		lit.Value = p.val.int
	}
	p.next()
	return lit
}

// parens parses a tuple, a generator expression, or an expression in parentheses.
func (p *parser) parens() syntax.Expr {
	lparen := p.next()
	if p.tok == syntax.RPAREN {
		return &syntax.TupleExpr{Lparen: lparen, Rparen: p.next()}
	}
	if p.tok == syntax.YIELD {
		x := p.yieldOr(nil)
		return &syntax.ParenExpr{Lparen: lparen, X: x, Rparen: p.consume(syntax.RPAREN)}
	}
	x := p.list(p.namedStar)
	if p.tok == syntax.FOR {
		return p.generatorExpr(lparen, x, true)
	}
	paren := &syntax.ParenExpr{Lparen: lparen, X: x, Rparen: p.consume(syntax.RPAREN)}
	if hasStar(x) && p.tok != syntax.EQ {
		return p.starred(paren)
	}
	return paren
}

// namedStar parses a possible element of a display.
func (p *parser) namedStar() syntax.Expr { return p.namedRest(p.starTest()) }

// brackets parses a list or a list comprehension.
func (p *parser) brackets() syntax.Expr {
	lbrack := p.next()
	if p.tok == syntax.RBRACK {
		return &syntax.ListExpr{Lbrack: lbrack, Rbrack: p.next()}
	}
	x := p.namedStar()
	if p.tok == syntax.FOR {
		return p.clauses(lbrack, x, syntax.RBRACK)
	}
	list := &syntax.ListExpr{Lbrack: lbrack, List: p.elements(x, syntax.RBRACK)}
	list.Rbrack = p.consume(syntax.RBRACK)
	if hasStar(list) && p.tok != syntax.EQ {
		return p.starred(list)
	}
	return list
}

// elements parses the elements of a display after the first.
func (p *parser) elements(first syntax.Expr, end syntax.Token) []syntax.Expr {
	list := []syntax.Expr{first}
	for p.accept(syntax.COMMA) && p.tok != end {
		list = append(list, p.namedStar())
	}
	return list
}

// braces parses a dict, a set, or a comprehension of these.
func (p *parser) braces() syntax.Expr {
	lbrace := p.next()
	switch p.tok {
	case syntax.RBRACE:
		return &syntax.DictExpr{Lbrace: lbrace, Rbrace: p.next()}
	case syntax.STARSTAR:
		return p.dict(lbrace, nil)
	}
	x := p.namedStar()
	switch p.tok {
	case syntax.COLON:
		entry := p.entry(x)
		if p.tok == syntax.FOR {
			return p.clauses(lbrace, entry, syntax.RBRACE)
		}
		return p.dict(lbrace, entry)
	case syntax.FOR:
		c := p.clauses(lbrace, x, syntax.RBRACE)
		c.Curly = false
		return p.operator(lbrace, Set, c)
	}
	list := &syntax.ListExpr{Lbrack: lbrace, List: p.elements(x, syntax.RBRACE)}
	list.Rbrack = p.consume(syntax.RBRACE)
	if hasStar(list) {
		return p.operator(lbrace, Set, p.starred(list))
	}
	return p.operator(lbrace, Set, list)
}

func (p *parser) entry(key syntax.Expr) *syntax.DictEntry {
	colon := p.consume(syntax.COLON)
	return &syntax.DictEntry{Key: key, Colon: colon, Value: p.test()}
}

// dict parses the entries of a dict after the first, which may be nil.
func (p *parser) dict(lbrace syntax.Position, first *syntax.DictEntry) syntax.Expr {
	var parts []syntax.Expr
	d := &syntax.DictExpr{Lbrace: lbrace}
	if first != nil {
		d.List = append(d.List, first)
	}
	for first == nil || p.accept(syntax.COMMA) {
		if p.tok == syntax.RBRACE {
			break
		}
		if p.accept(syntax.STARSTAR) {
			if len(d.List) > 0 {
				d.Rbrace = lbrace
				parts = append(parts, d)
				d = &syntax.DictExpr{Lbrace: lbrace}
			}
			parts = append(parts, p.binary(comparisonLevel+1))
		} else {
			d.List = append(d.List, p.entry(p.test()))
		}
		first = &syntax.DictEntry{}
	}
	d.Rbrace = p.consume(syntax.RBRACE)
	if len(parts) == 0 {
		return d
	}
	if len(d.List) > 0 {
		parts = append(parts, d)
	}
	return &syntax.BinaryExpr{
		X: ident(lbrace, Merge), OpPos: lbrace, Op: syntax.PIPE, Y: &syntax.TupleExpr{Lparen: lbrace, List: parts, Rparen: lbrace},
	}
}

// clauses parses the clauses of a comprehension. A closing parenthesis is left to the
// caller.
func (p *parser) clauses(lbrack syntax.Position, body syntax.Expr, end syntax.Token) *syntax.Comprehension {
	if hasStar(body) {
		p.refuse(lbrack, "a comprehension has one element, without a star")
	}
	c := &syntax.Comprehension{Curly: end == syntax.RBRACE, Lbrack: lbrack, Body: body}
	for p.tok != end {
		switch p.tok {
		case syntax.FOR:
			pos := p.next()
			vars := p.loopTargets()
			in := p.consume(syntax.IN)
			if inner := p.innerStars(vars); len(inner) > 0 {
				p.refuse(pos, "a star stands only among the outermost targets of a comprehension")
			}
			c.Clauses = append(c.Clauses, &syntax.ForClause{For: pos, Vars: vars, In: in, X: p.over(in, vars, p.binary(0))})
		case syntax.IF:
			pos := p.next()
			c.Clauses = append(c.Clauses, &syntax.IfClause{If: pos, Cond: p.namedRest(p.testNoCond())})
		default:
			p.fail(p.in.pos, "got %s, want '%s', for, or if", describe(p.tok), plain(end))
		}
	}
	c.Rbrack = p.val.pos
	if end != syntax.RPAREN {
		p.next()
	}
	return c
}

// params parses parameters: names, name=default, *, *args and **kwargs. They may have
// annotations in a def, but not in a lambda.
func (p *parser) params(annotations bool) []syntax.Expr {
	var params []syntax.Expr
	for first := true; p.tok != syntax.RPAREN && p.tok != syntax.COLON && p.tok != syntax.EOF; first = false {
		if !first {
			p.consume(syntax.COMMA)
		}
		switch p.tok {
		case syntax.RPAREN, syntax.COLON:
			return params
		case syntax.SLASH: // earlier parameters are positional anyway
			p.next()
			continue
		}
		params = append(params, p.param(annotations))
	}
	return params
}

func (p *parser) param(annotations bool) syntax.Expr {
	if p.tok == syntax.STAR || p.tok == syntax.STARSTAR {
		op := p.tok
		pos := p.next()
		var x syntax.Expr
		if op == syntax.STARSTAR || p.tok == syntax.IDENT {
			x = p.paramIdent(annotations)
		}
		return &syntax.UnaryExpr{OpPos: pos, Op: op, X: x}
	}
	id := p.paramIdent(annotations)
	if p.tok == syntax.EQ {
		eq := p.next()
		return &syntax.BinaryExpr{X: id, OpPos: eq, Op: syntax.EQ, Y: p.test()}
	}
	return id
}

func (p *parser) paramIdent(annotations bool) *syntax.Ident {
	id := p.ident()
	if annotations && p.accept(syntax.COLON) {
		p.annotation()
	}
	return id
}

// call parses the arguments of a call.
func (p *parser) call(fn syntax.Expr) syntax.Expr {
	lparen := p.consume(syntax.LPAREN)
	args := p.args()
	rparen := p.consume(syntax.RPAREN)
	if id, ok := fn.(*syntax.Ident); ok && id.Name == "super" {
		if x := p.super(id.NamePos, args); x != nil {
			return x
		}
	}
	return &syntax.CallExpr{Fn: fn, Lparen: lparen, Args: p.arrange(args), Rparen: rparen}
}

func (p *parser) args() []syntax.Expr {
	var args []syntax.Expr
	for p.tok != syntax.RPAREN && p.tok != syntax.EOF {
		if len(args) > 0 {
			p.consume(syntax.COMMA)
		}
		if p.tok == syntax.RPAREN {
			break
		}
		args = append(args, p.arg())
	}
	return args
}

func (p *parser) arg() syntax.Expr {
	if p.tok == syntax.STAR || p.tok == syntax.STARSTAR {
		op := p.tok
		pos := p.next()
		return &syntax.UnaryExpr{OpPos: pos, Op: op, X: p.test()}
	}
	start := p.val.pos
	x := p.test()
	switch p.tok {
	case syntax.EQ:
		if _, ok := x.(*syntax.Ident); !ok {
			p.fail(p.in.pos, "keyword argument must have form name=expr")
		}
		eq := p.next()
		return &syntax.BinaryExpr{X: x, OpPos: eq, Op: syntax.EQ, Y: p.test()}
	case syntax.FOR:
		return p.generatorExpr(start, x, false)
	}
	return p.namedRest(x)
}

// arrange brings arguments into the order and number accepted by the compiler: a single argument
// with a star, and a single argument with two. Names before these are left to package interp.
func (p *parser) arrange(args []syntax.Expr) []syntax.Expr {
	star, stars, doubles, late := -1, 0, 0, false
	for i, a := range args {
		switch u, ok := a.(*syntax.UnaryExpr); {
		case ok && u.Op == syntax.STAR:
			stars++
			if star < 0 {
				star = i
			}
		case ok && u.Op == syntax.STARSTAR:
			doubles++
		case star >= 0 && !isNamed(a):
			late = true
		}
	}
	if stars <= 1 && !late && doubles <= 1 {
		return args
	}
	var positional, named, dicts []syntax.Expr
	for _, a := range args {
		switch u, ok := a.(*syntax.UnaryExpr); {
		case ok && u.Op == syntax.STARSTAR:
			dicts = append(dicts, a)
		case isNamed(a):
			named = append(named, a)
		default:
			positional = append(positional, a)
		}
	}
	if stars > 1 || late {
		n := star - countNamed(args[:star])
		pos := positional[n].(*syntax.UnaryExpr).OpPos
		rest := p.joinLists(pos, Concat, positional[n:])
		positional = append(positional[:n:n], &syntax.UnaryExpr{OpPos: pos, Op: syntax.STAR, X: rest})
	}
	if len(dicts) > 1 {
		pos := dicts[0].(*syntax.UnaryExpr).OpPos
		tuple := &syntax.TupleExpr{Lparen: pos, Rparen: pos}
		for _, d := range dicts {
			tuple.List = append(tuple.List, d.(*syntax.UnaryExpr).X)
		}
		merged := &syntax.BinaryExpr{X: ident(pos, Merge), OpPos: pos, Op: syntax.PIPE, Y: tuple}
		dicts = []syntax.Expr{&syntax.UnaryExpr{OpPos: pos, Op: syntax.STARSTAR, X: merged}}
	}
	return append(append(positional, named...), dicts...)
}

// countNamed counts the named and starred arguments.
func countNamed(args []syntax.Expr) (n int) {
	for _, a := range args {
		if u, ok := a.(*syntax.UnaryExpr); isNamed(a) || ok && u.Op == syntax.STARSTAR {
			n++
		}
	}
	return n
}

func isNamed(a syntax.Expr) bool {
	b, ok := a.(*syntax.BinaryExpr)
	return ok && b.Op == syntax.EQ
}
