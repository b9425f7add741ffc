// Parts of this file are derived from go.starlark.net/syntax,
// Copyright 2017 The Bazel Authors. All rights reserved.
// Use of that source code is governed by a BSD-style license: see THIRD_PARTY_NOTICES.

package parse

import "go.starlark.net/syntax"

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
