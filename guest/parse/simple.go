package parse

import "go.starlark.net/syntax"

// simple parses statements on one line.
func (p *parser) simple(stmts []syntax.Stmt) []syntax.Stmt {
	for {
		stmts = p.small(stmts)
		if !p.accept(syntax.SEMI) || p.tok == syntax.NEWLINE || p.tok == syntax.EOF {
			break
		}
	}
	if p.tok != syntax.EOF {
		p.consume(syntax.NEWLINE)
	}
	return stmts
}

// atEnd reports whether a statement ends here.
func (p *parser) atEnd() bool {
	return p.tok == syntax.EOF || p.tok == syntax.NEWLINE || p.tok == syntax.SEMI
}

func (p *parser) small(stmts []syntax.Stmt) []syntax.Stmt {
	switch p.tok {
	case syntax.RETURN:
		pos := p.next()
		var result syntax.Expr
		if !p.atEnd() {
			result = p.starExpr()
		}
		return append(stmts, &syntax.ReturnStmt{Return: pos, Result: result})
	case syntax.BREAK, syntax.CONTINUE, syntax.PASS:
		tok := p.tok
		return append(stmts, &syntax.BranchStmt{Token: tok, TokenPos: p.next()})
	case syntax.RAISE:
		return append(stmts, p.raise())
	case syntax.IMPORT:
		return p.importStmt(stmts)
	case syntax.FROM:
		return p.fromStmt(stmts)
	case syntax.DEL:
		return p.del(stmts)
	case syntax.GLOBAL, syntax.NONLOCAL:
		return append(stmts, p.scope())
	case assert:
		return append(stmts, p.assert())
	case syntax.LOAD:
		pos := p.next()
		p.refuse(pos, "load is not available: a script stands alone (the modules of the library are imported, and tools are called as server.tool({...}))")
	}
	return p.assignment(stmts)
}

// raise parses raise, raise x and raise x from y.
func (p *parser) raise() syntax.Stmt {
	pos := p.next()
	var args []syntax.Expr
	if !p.atEnd() {
		args = append(args, p.test())
		if p.accept(syntax.FROM) {
			args = append(args, p.test())
		}
	}
	return &syntax.ExprStmt{X: &syntax.CallExpr{Fn: ident(pos, Raise), Lparen: pos, Args: args, Rparen: pos}}
}

// assert parses assert condition, message: if not condition: raise ...
func (p *parser) assert() syntax.Stmt {
	pos := p.next()
	cond := p.test()
	message := syntax.Expr(ident(pos, "None"))
	if p.accept(syntax.COMMA) {
		message = p.test()
	}
	failure := p.operator(pos, Assertion, message)
	raise := &syntax.ExprStmt{X: &syntax.CallExpr{Fn: ident(pos, Raise), Lparen: pos, Args: []syntax.Expr{failure}, Rparen: pos}}
	return &syntax.IfStmt{
		If: pos, Cond: &syntax.UnaryExpr{OpPos: pos, Op: syntax.NOT, X: cond}, True: []syntax.Stmt{raise},
	}
}

func (p *parser) scope() syntax.Stmt {
	p.file.Nonlocal = true
	s := &Scope{Global: p.tok == syntax.GLOBAL}
	s.BranchStmt = &syntax.BranchStmt{Token: syntax.PASS, TokenPos: p.next()}
	for {
		s.Names = append(s.Names, p.ident())
		if !p.accept(syntax.COMMA) {
			return s
		}
	}
}

// del parses del target, ...
func (p *parser) del(stmts []syntax.Stmt) []syntax.Stmt {
	pos := p.next()
	for {
		stmts = p.delTarget(stmts, pos, p.suffixed())
		if !p.accept(syntax.COMMA) || p.atEnd() {
			return stmts
		}
	}
}

func (p *parser) delTarget(stmts []syntax.Stmt, pos syntax.Position, e syntax.Expr) []syntax.Stmt {
	switch e := e.(type) {
	case *syntax.Ident:
		// The variable keeps None, the nearest state to unbound.
		return append(stmts, assign(pos, e, ident(pos, "None")))
	case *syntax.IndexExpr:
		return append(stmts, &syntax.ExprStmt{X: p.operator(e.Lbrack, DelItem, e.X, e.Y)})
	case *syntax.SliceExpr:
		return append(stmts, &syntax.ExprStmt{X: p.operator(e.Lbrack, DelSlice, e.X, orNone(e.Lbrack, e.Lo), orNone(e.Lbrack, e.Hi), orNone(e.Lbrack, e.Step))})
	case *syntax.DotExpr:
		return append(stmts, &syntax.ExprStmt{X: p.operator(e.Dot, DelAttr, e.X, text(e.NamePos, e.Name.Name))})
	case *syntax.ParenExpr:
		return p.delTarget(stmts, pos, e.X)
	case *syntax.TupleExpr:
		for _, x := range e.List {
			stmts = p.delTarget(stmts, pos, x)
		}
		return stmts
	}
	p.refuse(pos, "del takes a variable, an element or an attribute")
	return nil
}

func orNone(pos syntax.Position, e syntax.Expr) syntax.Expr {
	if e == nil {
		return ident(pos, "None")
	}
	return e
}

// assignment parses an assignment or an expression.
func (p *parser) assignment(stmts []syntax.Stmt) []syntax.Stmt {
	start := p.val.pos
	x := p.yieldOr(p.starExpr)
	switch p.tok {
	case syntax.EQ:
		return p.assignments(stmts, x)
	case syntax.COLON:
		return p.annotated(stmts, x)
	case powEQ:
		pos := p.next()
		return append(stmts, &syntax.AssignStmt{OpPos: pos, Op: syntax.STAR_EQ, LHS: x, RHS: p.operator(pos, PowerOf, p.expr())})
	case syntax.PLUS_EQ, syntax.MINUS_EQ, syntax.STAR_EQ, syntax.SLASH_EQ, syntax.SLASHSLASH_EQ, syntax.PERCENT_EQ,
		syntax.AMP_EQ, syntax.PIPE_EQ, syntax.CIRCUMFLEX_EQ, syntax.LTLT_EQ, syntax.GTGT_EQ:
		op := p.tok
		pos := p.next()
		return append(stmts, &syntax.AssignStmt{OpPos: pos, Op: op, LHS: x, RHS: p.yieldOr(p.starExpr)})
	}
	if hasStar(x) {
		p.refuse(start, "can't use starred expression here")
	}
	return append(stmts, &syntax.ExprStmt{X: x})
}

// annotated parses the rest after x in x: type = value.
func (p *parser) annotated(stmts []syntax.Stmt, x syntax.Expr) []syntax.Stmt {
	id, isName := x.(*syntax.Ident)
	_, isDot := x.(*syntax.DotExpr)
	_, isIndex := x.(*syntax.IndexExpr)
	if !isName && !isDot && !isIndex || isName && p.looksLikeHeader(id.Name) {
		return append(stmts, &syntax.ExprStmt{X: x}) // the colon is an error of the caller
	}
	pos := p.next()
	p.annotation()
	if c := p.fn.class; c != nil && isName {
		c.annotated = append(c.annotated, id.Name)
	}
	if p.tok != syntax.EQ {
		return append(stmts, &syntax.BranchStmt{Token: syntax.PASS, TokenPos: pos})
	}
	return p.assignments(stmts, x)
}

// looksLikeHeader reports whether a name before a colon is rather a misspelt keyword: nothing
// follows on the line.
func (p *parser) looksLikeHeader(name string) bool {
	switch name {
	case "switch", "do", "default":
		return true
	}
	rest := p.in.rest
	for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t') {
		rest = rest[1:]
	}
	return rest == "" || rest[0] == '\n' || rest[0] == '\r' || rest[0] == '#'
}

// annotation skips the type of a variable, a parameter or a result.
func (p *parser) annotation() {
	fn := *p.fn
	e := p.test()
	*p.fn = fn
	if p.file.Annotated == nil {
		p.file.Annotated = make(map[string]bool)
	}
	syntax.Walk(e, func(n syntax.Node) bool {
		if id, ok := n.(*syntax.Ident); ok {
			p.file.Annotated[id.Name] = true
		}
		return true
	})
}

// assignments parses the rest after the first target of =.
func (p *parser) assignments(stmts []syntax.Stmt, first syntax.Expr) []syntax.Stmt {
	targets := []syntax.Expr{first}
	var positions []syntax.Position
	var value syntax.Expr
	for p.tok == syntax.EQ {
		positions = append(positions, p.next())
		value = p.yieldOr(p.starExpr)
		targets = append(targets, value)
	}
	targets = targets[:len(targets)-1]
	if hasStar(value) {
		value = p.starred(value)
	}
	if len(targets) == 1 {
		return p.assignTo(stmts, positions[0], targets[0], value)
	}
	// The value is kept in the first target if the target is a name.
	kept, ok := targets[0].(*syntax.Ident)
	if !ok {
		kept = ident(positions[0], p.temp())
		stmts = append(stmts, assign(positions[0], kept, value))
	} else {
		stmts = p.assignTo(stmts, positions[0], kept, value)
		targets, positions = targets[1:], positions[1:]
	}
	for i, t := range targets {
		stmts = p.assignTo(stmts, positions[i], t, ident(positions[i], kept.Name))
	}
	return stmts
}
