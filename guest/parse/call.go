// Parts of this file are derived from go.starlark.net/syntax,
// Copyright 2017 The Bazel Authors. All rights reserved.
// Use of that source code is governed by a BSD-style license: see THIRD_PARTY_NOTICES.

package parse

import "go.starlark.net/syntax"

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
