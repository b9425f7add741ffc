package parse

import (
	"strings"

	"go.starlark.net/syntax"
)

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
