package parse

import (
	"strings"

	"go.starlark.net/syntax"
)

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

// A match statement becomes if statements. Their conditions take the subject apart with
// Match operators, which return False or a tuple of True and the parts, and assign to
// the names of the patterns:
//
//	match x:                     ·t1 = x
//	    case [a, 1]:             if (·t2 := ·matchseq | (·t1, 2, -1)) and ((a := ·t2[1]),) and ·t2[2] == 1:
//	    case Point(y=0) if c:    elif (·t3 := ·matchclass | (·t1, Point, 0, ("y",))) and ·t3[1] == 0 and c:

// A pattern returns the condition for a subject. The function calls subject for each use, since no
// node may be in two places of a tree. nil stands for a true condition.
type pattern func(subject func() syntax.Expr) syntax.Expr

// isMatch reports whether a statement is a match statement: the line ends with a colon, and the
// next line is an indented case, or missing. Elsewhere match is an ordinary name.
func (p *parser) isMatch() bool {
	if p.tok != syntax.IDENT || p.val.raw != "match" {
		return false
	}
	header, rest, _ := strings.Cut(p.in.rest, "\n")
	header, _, _ = strings.Cut(header, "#")
	if !strings.HasSuffix(strings.TrimRight(header, " \t\r"), ":") {
		return false
	}
	for {
		line, after, more := strings.Cut(rest, "\n")
		text := strings.TrimLeft(line, " \t\r")
		if text != "" && text[0] != '#' {
			word := len("case")
			return text != line && strings.HasPrefix(text, "case") && len(text) > word && !isIdent(rune(text[word]))
		}
		if !more {
			return strings.TrimSpace(header) != ":"
		}
		rest = after
	}
}

func (p *parser) matchStmt(stmts []syntax.Stmt) []syntax.Stmt {
	pos := p.next()
	temp := p.temp()
	stmts = append(stmts, assign(pos, ident(pos, temp), p.value()))
	p.consume(syntax.COLON)
	p.consume(syntax.NEWLINE)
	p.consume(syntax.INDENT)
	next := &stmts
	for p.tok != syntax.OUTDENT && p.tok != syntax.EOF {
		if p.tok != syntax.IDENT || p.val.raw != "case" {
			p.fail(p.in.pos, "got %s, want case", describe(p.tok))
		}
		if next == nil {
			p.refuse(p.val.pos, "this case is never reached: the one before it takes everything")
		}
		if !p.try(func() { next = p.caseClause(next, temp) }) {
			p.recover()
		}
	}
	if p.tok != syntax.EOF || len(p.errors) == 0 {
		p.consume(syntax.OUTDENT)
	}
	return stmts
}

// caseClause appends a case to the statements, and returns where the next case belongs: nil after
// the last possible case.
func (p *parser) caseClause(stmts *[]syntax.Stmt, temp string) *[]syntax.Stmt {
	pos := p.next()
	cond := p.openPattern()(func() syntax.Expr { return ident(pos, temp) })
	if p.tok == syntax.IF {
		at := p.next()
		guard := p.named()
		if cond == nil {
			cond = guard
		} else {
			cond = and(at, cond, guard)
		}
	}
	p.consume(syntax.COLON)
	body := p.suite()
	if cond == nil {
		*stmts = append(*stmts, body...)
		return nil
	}
	s := &syntax.IfStmt{If: pos, Cond: cond, True: body, ElsePos: pos}
	*stmts = append(*stmts, s)
	return &s.False
}

// openPattern parses the pattern of a case, which may be a sequence without brackets.
func (p *parser) openPattern() pattern {
	if p.tok != syntax.STAR {
		first := p.pattern()
		if p.tok != syntax.COMMA {
			return first
		}
		p.next()
		return p.sequence([]pattern{first}, -1, syntax.COLON, syntax.IF)
	}
	return p.sequence(nil, -1, syntax.COLON, syntax.IF)
}

// pattern parses alternatives, and the name after as.
func (p *parser) pattern() pattern {
	p.enter()
	defer p.leave()
	out := p.closed()
	for p.tok == syntax.PIPE {
		pos := p.next()
		x, y := out, p.closed()
		out = func(subject func() syntax.Expr) syntax.Expr {
			left, right := x(subject), y(subject)
			if left == nil || right == nil {
				return nil
			}
			return &syntax.BinaryExpr{X: left, OpPos: pos, Op: syntax.OR, Y: right}
		}
	}
	if p.tok == syntax.AS {
		pos := p.next()
		x, capture := out, p.capture(p.ident())
		out = func(subject func() syntax.Expr) syntax.Expr {
			return and(pos, x(subject), capture(subject))
		}
	}
	return out
}

func (p *parser) closed() pattern {
	pos := p.val.pos
	switch p.tok {
	case syntax.IDENT:
		return p.namePattern()
	case syntax.LPAREN:
		p.next()
		if p.tok != syntax.STAR && p.tok != syntax.RPAREN {
			first := p.pattern()
			if p.accept(syntax.RPAREN) {
				return first
			}
			p.consume(syntax.COMMA)
			out := p.sequence([]pattern{first}, -1, syntax.RPAREN)
			p.consume(syntax.RPAREN)
			return out
		}
		out := p.sequence(nil, -1, syntax.RPAREN)
		p.consume(syntax.RPAREN)
		return out
	case syntax.LBRACK:
		p.next()
		out := p.sequence(nil, -1, syntax.RBRACK)
		p.consume(syntax.RBRACK)
		return out
	case syntax.LBRACE:
		return p.mapping()
	}
	value := p.literal()
	return func(subject func() syntax.Expr) syntax.Expr {
		return &syntax.BinaryExpr{X: subject(), OpPos: pos, Op: syntax.EQL, Y: value}
	}
}

// literal parses a number or text.
func (p *parser) literal() syntax.Expr {
	switch p.tok {
	case syntax.MINUS:
		pos := p.next()
		return &syntax.UnaryExpr{OpPos: pos, Op: syntax.MINUS, X: p.literal()}
	case syntax.INT, syntax.FLOAT, syntax.STRING, syntax.BYTES:
		return p.operand()
	}
	p.fail(p.in.pos, "got %s, want a pattern", describe(p.tok))
	return nil
}

// namePattern parses a pattern with a name at the beginning: a capture, a constant or a class.
func (p *parser) namePattern() pattern {
	id := p.ident()
	switch id.Name {
	case "_":
		return func(func() syntax.Expr) syntax.Expr { return nil }
	case "None", "True", "False":
		return func(subject func() syntax.Expr) syntax.Expr {
			return p.operator(id.NamePos, Is, subject(), ident(id.NamePos, id.Name))
		}
	}
	name := func() syntax.Expr { return ident(id.NamePos, id.Name) }
	dotted := false
	for p.tok == syntax.DOT {
		dot := p.next()
		attr, x := p.ident(), name
		name = func() syntax.Expr {
			return &syntax.DotExpr{X: x(), Dot: dot, NamePos: attr.NamePos, Name: ident(attr.NamePos, attr.Name)}
		}
		dotted = true
	}
	switch {
	case p.tok == syntax.LPAREN:
		return p.classPattern(id.NamePos, name)
	case dotted:
		return func(subject func() syntax.Expr) syntax.Expr {
			return &syntax.BinaryExpr{X: subject(), OpPos: id.NamePos, Op: syntax.EQL, Y: name()}
		}
	}
	return p.capture(id)
}

// capture returns the pattern that assigns the subject to a name. A tuple with the subject is true
// for every subject.
func (p *parser) capture(id *syntax.Ident) pattern {
	return func(subject func() syntax.Expr) syntax.Expr {
		pos := id.NamePos
		set := p.walrus(pos, ident(pos, id.Name), subject())
		return &syntax.ParenExpr{Lparen: pos, X: &syntax.TupleExpr{List: []syntax.Expr{set}}, Rparen: pos}
	}
}

// sequence parses patterns between commas, up to any of the ends. A single pattern may have a star;
// -1 is none.
func (p *parser) sequence(parts []pattern, star int, ends ...syntax.Token) pattern {
	pos := p.val.pos
	for !oneOf(p.tok, ends) {
		if p.tok == syntax.STAR {
			if star >= 0 {
				p.refuse(p.val.pos, "a pattern has two names with a star")
			}
			p.next()
			star = len(parts)
			parts = append(parts, p.starName())
		} else {
			parts = append(parts, p.pattern())
		}
		if !p.accept(syntax.COMMA) {
			break
		}
	}
	return p.taken(pos, MatchSequence, parts, number(pos, len(parts)), number(pos, star))
}

// starName parses the name after a star.
func (p *parser) starName() pattern {
	id := p.ident()
	if id.Name == "_" {
		return func(func() syntax.Expr) syntax.Expr { return nil }
	}
	return p.capture(id)
}

func (p *parser) mapping() pattern {
	pos := p.next()
	var keys []syntax.Expr
	var parts []pattern
	rest := syntax.Expr(ident(pos, "False"))
	for p.tok != syntax.RBRACE {
		if p.tok == syntax.STARSTAR {
			p.next()
			rest = ident(pos, "True")
			parts = append(parts, p.starName())
			p.accept(syntax.COMMA)
			break
		}
		keys = append(keys, p.key())
		p.consume(syntax.COLON)
		parts = append(parts, p.pattern())
		if !p.accept(syntax.COMMA) {
			break
		}
	}
	p.consume(syntax.RBRACE)
	return p.taken(pos, MatchMapping, parts, &syntax.TupleExpr{Lparen: pos, List: keys, Rparen: pos}, rest)
}

// key parses the key of a mapping: a literal, or the name of a constant.
func (p *parser) key() syntax.Expr {
	if p.tok != syntax.IDENT {
		return p.literal()
	}
	var x syntax.Expr = p.ident()
	for p.tok == syntax.DOT {
		dot := p.next()
		name := p.ident()
		x = &syntax.DotExpr{X: x, Dot: dot, NamePos: name.NamePos, Name: name}
	}
	return x
}

func (p *parser) classPattern(pos syntax.Position, class func() syntax.Expr) pattern {
	p.next()
	var parts []pattern
	var names []syntax.Expr
	for p.tok != syntax.RPAREN {
		if p.tok == syntax.IDENT && p.beforeEquals() {
			id := p.ident()
			p.next()
			names = append(names, text(id.NamePos, id.Name))
		} else if len(names) > 0 {
			p.refuse(p.val.pos, "patterns with names come last")
		}
		parts = append(parts, p.pattern())
		if !p.accept(syntax.COMMA) {
			break
		}
	}
	p.consume(syntax.RPAREN)
	positional := number(pos, len(parts)-len(names))
	return p.taken(pos, MatchClass, parts, class(), positional, &syntax.TupleExpr{Lparen: pos, List: names, Rparen: pos})
}

// beforeEquals reports whether an equals sign follows the token.
func (p *parser) beforeEquals() bool {
	rest := strings.TrimLeft(p.in.rest, " \t")
	return strings.HasPrefix(rest, "=") && !strings.HasPrefix(rest, "==")
}

// taken returns the pattern that takes the subject apart with an operator, applied to the subject
// and the operands, and holds if all parts match.
func (p *parser) taken(pos syntax.Position, operator string, parts []pattern, operands ...syntax.Expr) pattern {
	return func(subject func() syntax.Expr) syntax.Expr {
		temp := p.temp()
		apart := p.operator(pos, operator, append([]syntax.Expr{subject()}, operands...)...)
		cond := p.walrus(pos, ident(pos, temp), apart)
		for i, part := range parts {
			x := part(func() syntax.Expr {
				return &syntax.IndexExpr{X: ident(pos, temp), Lbrack: pos, Y: number(pos, i+1), Rbrack: pos}
			})
			cond = and(pos, cond, x)
		}
		return cond
	}
}

func number(pos syntax.Position, n int) syntax.Expr {
	if n < 0 {
		return &syntax.UnaryExpr{OpPos: pos, Op: syntax.MINUS, X: number(pos, -n)}
	}
	return &syntax.Literal{Token: syntax.INT, TokenPos: pos, Raw: "0", Value: int64(n)}
}

// and joins conditions; a nil condition is true.
func and(pos syntax.Position, x, y syntax.Expr) syntax.Expr {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	}
	return &syntax.BinaryExpr{X: x, OpPos: pos, Op: syntax.AND, Y: y}
}

func oneOf(tok syntax.Token, list []syntax.Token) bool {
	for _, t := range list {
		if t == tok {
			return true
		}
	}
	return false
}
