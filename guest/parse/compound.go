package parse

import "go.starlark.net/syntax"

func (p *parser) ifStmt() syntax.Stmt {
	first := p.ifClause()
	last := first
	for p.tok == syntax.ELIF {
		pos := p.val.pos
		next := p.ifClause()
		last.ElsePos, last.False = pos, []syntax.Stmt{next}
		last = next
	}
	if p.tok == syntax.ELSE {
		last.ElsePos = p.next()
		p.consume(syntax.COLON)
		last.False = p.suite()
	}
	return first
}

// ifClause parses if or elif, a condition and a block.
func (p *parser) ifClause() *syntax.IfStmt {
	pos := p.next()
	cond := p.named()
	p.consume(syntax.COLON)
	return &syntax.IfStmt{If: pos, Cond: cond, True: p.suite()}
}

func (p *parser) forStmt() []syntax.Stmt {
	pos := p.next()
	vars := p.loopTargets()
	in := p.consume(syntax.IN)
	inner := p.innerStars(vars)
	x := p.over(in, vars, p.value())
	p.consume(syntax.COLON)
	s := &syntax.ForStmt{For: pos, Vars: vars, X: x, Body: p.suite()}
	var unpack []syntax.Stmt
	for _, t := range inner {
		unpack = p.assignTo(unpack, in, t.target, ident(in, t.temp))
	}
	s.Body = append(unpack, s.Body...)
	return p.loopElse(s, pos, &s.Body)
}

func (p *parser) whileStmt() []syntax.Stmt {
	pos := p.next()
	cond := p.named()
	p.consume(syntax.COLON)
	s := &syntax.WhileStmt{While: pos, Cond: cond, Body: p.suite()}
	return p.loopElse(s, pos, &s.Body)
}

// loopElse parses the else of a loop. A variable reports whether the loop was left by
// break.
func (p *parser) loopElse(loop syntax.Stmt, pos syntax.Position, body *[]syntax.Stmt) []syntax.Stmt {
	if p.tok != syntax.ELSE {
		return []syntax.Stmt{loop}
	}
	elsePos := p.next()
	p.consume(syntax.COLON)
	orElse := p.suite()
	flag := p.temp()
	*body = markBreaks(*body, flag)
	return []syntax.Stmt{
		assign(pos, ident(pos, flag), ident(pos, "True")),
		loop,
		&syntax.IfStmt{If: elsePos, Cond: ident(elsePos, flag), True: orElse},
	}
}

// markBreaks puts flag = False before each break of a loop.
func markBreaks(stmts []syntax.Stmt, flag string) []syntax.Stmt {
	var out []syntax.Stmt
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.BranchStmt:
			if s.Token == syntax.BREAK {
				out = append(out, assign(s.TokenPos, ident(s.TokenPos, flag), ident(s.TokenPos, "False")))
			}
		case *syntax.IfStmt:
			s.True, s.False = markBreaks(s.True, flag), markBreaks(s.False, flag)
		case *Try:
			s.True, s.OrElse, s.Finally = markBreaks(s.True, flag), markBreaks(s.OrElse, flag), markBreaks(s.Finally, flag)
			for _, c := range s.Clauses {
				c.Body = markBreaks(c.Body, flag)
			}
		}
		out = append(out, s)
	}
	return out
}

const tryAlone = "try needs an except or a finally at the same indentation"

// tryStmt parses a try statement.
func (p *parser) tryStmt() syntax.Stmt {
	pos := p.next()
	p.consume(syntax.COLON)
	s := &Try{IfStmt: &syntax.IfStmt{If: pos}}
	s.True = p.suite()
	for p.tok == syntax.EXCEPT {
		s.Clauses = append(s.Clauses, p.except())
	}
	if n := len(s.Clauses); n > 0 {
		for _, c := range s.Clauses[:n-1] {
			if c.Class == nil {
				p.refuse(c.Pos, "an except without a class must be the last")
			}
		}
	}
	if p.tok == syntax.ELIF {
		p.refuse(p.val.pos, "elif in a try statement: want except, else or finally")
	}
	if p.tok == syntax.ELSE {
		elsePos := p.next()
		if len(s.Clauses) == 0 {
			p.refuse(elsePos, "else in a try statement without except")
		}
		p.consume(syntax.COLON)
		s.OrElse = p.suite()
	}
	if p.tok == syntax.FINALLY {
		p.next()
		p.consume(syntax.COLON)
		s.Finally = p.suite()
		if p.tok == syntax.ELSE {
			p.refuse(p.val.pos, "finally must be the last part of a try statement")
		}
	}
	if len(s.Clauses) == 0 && s.Finally == nil {
		if p.isOver() {
			panic(&Error{Error: syntax.Error{Pos: pos, Msg: tryAlone}, In: p.in.in, Exact: true, Open: true})
		}
		p.refuse(pos, tryAlone)
	}
	return s
}

func (p *parser) except() *Except {
	c := &Except{Pos: p.next()}
	if p.tok == syntax.STAR {
		p.refuse(p.val.pos, "except* takes groups of errors, which there are none of here: write except, without the star")
	}
	if p.tok != syntax.COLON {
		start := p.val.pos
		c.Class = p.test()
		if _, ok := c.Class.(*syntax.Literal); ok {
			p.refuse(start, "except takes an error class, such as ValueError, or a tuple of them")
		}
		if p.accept(syntax.AS) {
			if p.tok != syntax.IDENT {
				p.refuse(c.Pos, "write except Error as e:")
			}
			c.As = p.ident()
		}
	}
	p.consume(syntax.COLON)
	c.Body = p.suite()
	return c
}

// def parses a function.
func (p *parser) def(d []decorator) []syntax.Stmt {
	pos := p.next()
	id := p.ident()
	lparen := p.consume(syntax.LPAREN)
	params := p.params(true)
	rparen := p.consume(syntax.RPAREN)
	if p.accept(arrow) {
		p.annotation()
	}
	p.consume(syntax.COLON)
	outer := p.fn
	fn := &function{outer: outer, def: true}
	if outer.class != nil {
		fn.method = outer.class
		if len(params) > 0 {
			fn.self = paramName(params[0])
		}
	}
	p.fn = fn
	body := p.suite()
	p.fn = outer
	if fn.yields {
		body = p.generator(pos, id.Name, params, body)
	}
	s := &syntax.DefStmt{Def: pos, Name: id, Lparen: lparen, Params: params, Rparen: rparen, Body: body}
	return p.decorate(d, id, s)
}
