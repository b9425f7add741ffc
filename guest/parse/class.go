package parse

import (
	"fmt"

	"go.starlark.net/syntax"
)

// A class is the parser's knowledge about the current class.
type class struct {
	ref       string   // a variable with the class, for super()
	usesSuper bool     // and the variable is needed
	annotated []string // names of annotated fields, in order
}

// A decorator is an expression after @.
type decorator struct {
	pos syntax.Position
	x   syntax.Expr
}

// decorated parses decorators and the function or class after them.
func (p *parser) decorated() []syntax.Stmt {
	var list []decorator
	for p.tok == at {
		pos := p.next()
		list = append(list, decorator{pos, p.named()})
		p.consume(syntax.NEWLINE)
	}
	switch p.tok {
	case syntax.DEF:
		return p.def(list)
	case syntax.CLASS:
		return p.classStmt(list)
	}
	message := fmt.Sprintf("got %s, want a function or class after its decorators", describe(p.tok))
	panic(&Error{Error: syntax.Error{Pos: p.in.pos, Msg: message}, In: p.in.in, Open: p.isOver()})
}

// decorate returns the statements that bind a name and apply decorators to it. Decorators are
// evaluated first, because @x.setter needs the earlier x.
func (p *parser) decorate(list []decorator, id *syntax.Ident, bind ...syntax.Stmt) []syntax.Stmt {
	if len(list) == 0 {
		return bind
	}
	var out, after []syntax.Stmt
	for _, d := range list {
		fn := d.x
		if name, ok := fn.(*syntax.Ident); !ok || name.Name == id.Name {
			temp := p.temp()
			out = append(out, assign(d.pos, ident(d.pos, temp), fn))
			fn = ident(d.pos, temp)
		}
		call := &syntax.CallExpr{Fn: fn, Lparen: d.pos, Args: []syntax.Expr{ident(d.pos, id.Name)}, Rparen: d.pos}
		after = append([]syntax.Stmt{assign(d.pos, ident(d.pos, id.Name), call)}, after...)
	}
	return append(append(out, bind...), after...)
}

// classStmt parses a class. The body becomes a function that returns the bound names.
func (p *parser) classStmt(d []decorator) []syntax.Stmt {
	pos := p.next()
	id := p.ident()
	var bases []syntax.Expr
	if p.accept(syntax.LPAREN) {
		for _, a := range p.args() {
			switch a := a.(type) {
			case *syntax.BinaryExpr:
				if a.Op == syntax.EQ {
					continue // a metaclass has no meaning here
				}
			case *syntax.UnaryExpr:
				p.refuse(a.OpPos, "the bases of a class are written out")
			}
			bases = append(bases, a)
		}
		p.consume(syntax.RPAREN)
	}
	p.consume(syntax.COLON)
	p.temps++
	c := &class{ref: fmt.Sprintf("%sc%d", Hidden, p.temps)}
	outer := p.fn
	p.fn = &function{outer: outer, class: c}
	body := p.suite()
	p.fn = outer

	fn := ident(pos, BodyPrefix+id.Name)
	call := &syntax.CallExpr{Fn: ident(pos, MakeClass), Lparen: pos, Rparen: pos, Args: []syntax.Expr{
		text(pos, id.Name), &syntax.TupleExpr{Lparen: pos, List: bases, Rparen: pos}, ident(pos, fn.Name),
	}}
	bind := []syntax.Stmt{&syntax.DefStmt{Def: pos, Name: fn, Lparen: pos, Rparen: pos, Body: p.members(pos, c, body)}}
	if c.usesSuper {
		bind = append(bind, assign(pos, ident(pos, c.ref), call), assign(pos, id, ident(pos, c.ref)))
	} else {
		bind = append(bind, assign(pos, id, call))
	}
	return p.decorate(d, id, bind...)
}

// members renames the names bound in the body of a class, because the class's functions do not see
// these names, and adds the statement that returns the members.
func (p *parser) members(pos syntax.Position, c *class, body []syntax.Stmt) []syntax.Stmt {
	result := &syntax.DictExpr{Lbrace: pos, Rbrace: pos}
	add := func(name string, value syntax.Expr) {
		result.List = append(result.List, &syntax.DictEntry{Key: text(pos, name), Colon: pos, Value: value})
	}
	renamed := make(map[string]string)
	declared := declaredNames(body, nil)
	times := make(map[string]int) // without the names of except clauses, which are unbound at the end
	for _, id := range Bindings(body, nil, true) {
		times[id.Name]++
	}
	eachClause(body, func(c *Except) {
		if c.As != nil {
			times[c.As.Name]--
		}
	})
	for _, id := range Bindings(body, nil, true) {
		if _, known := renamed[id.Name]; known || declared[id.Name] || len(id.Name) > len(Hidden) && id.Name[:len(Hidden)] == Hidden {
			continue
		}
		renamed[id.Name] = MemberPrefix + id.Name
		if times[id.Name] > 0 {
			add(id.Name, ident(pos, MemberPrefix+id.Name))
		}
	}
	rename(body, renamed)
	if doc := docText(body); doc != nil && renamed["__doc__"] == "" {
		add("__doc__", text(pos, doc.Value.(string)))
	}
	if len(c.annotated) > 0 {
		list := &syntax.ListExpr{Lbrack: pos, Rbrack: pos}
		for _, name := range c.annotated {
			list.List = append(list.List, text(pos, name))
		}
		add(Annotations, list)
	}
	return append(body, &syntax.ReturnStmt{Return: pos, Result: result})
}

// docText returns the text at the beginning of a body, nil without a text.
func docText(body []syntax.Stmt) *syntax.Literal {
	if len(body) == 0 {
		return nil
	}
	s, ok := body[0].(*syntax.ExprStmt)
	if !ok {
		return nil
	}
	if lit, ok := s.X.(*syntax.Literal); ok && lit.Token == syntax.STRING {
		return lit
	}
	return nil
}

// super returns the replacement of super(), and nil outside of methods.
func (p *parser) super(pos syntax.Position, args []syntax.Expr) syntax.Expr {
	if len(args) == 2 {
		return p.operator(pos, Super, args...)
	}
	for fn := p.fn; fn != nil && len(args) == 0; fn = fn.outer {
		if fn.method != nil && fn.self != "" {
			fn.method.usesSuper = true
			return p.operator(pos, Super, ident(pos, fn.method.ref), ident(pos, fn.self))
		}
	}
	return nil
}

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
