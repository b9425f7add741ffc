package parse

import (
	"fmt"

	"go.starlark.net/syntax"
)

// assignTo appends the assignment of a value to a target.
func (p *parser) assignTo(stmts []syntax.Stmt, pos syntax.Position, target, value syntax.Expr) []syntax.Stmt {
	target = p.asTarget(target)
	inner := p.innerStars(target)
	stmts = p.assignOuter(stmts, pos, target, value)
	for _, t := range inner {
		stmts = p.assignTo(stmts, pos, t.target, ident(pos, t.temp))
	}
	return stmts
}

// An innerTarget is a target among other targets, with an inner target with a star. A temporary
// variable takes its place.
type innerTarget struct {
	temp   string
	target syntax.Expr
}

func (p *parser) innerStars(target syntax.Expr) (out []innerTarget) {
	list := elements(target)
	if list == nil {
		return nil
	}
	for i, x := range *list {
		if elements(x) == nil {
			continue
		}
		if hasStar(x) {
			t := innerTarget{p.temp(), x}
			(*list)[i] = ident(syntax.Start(x), t.temp)
			out = append(out, t)
			continue
		}
		out = append(out, p.innerStars(x)...)
	}
	return out
}

// asTarget undoes the effect of starred on an expression used as a target.
func (p *parser) asTarget(e syntax.Expr) syntax.Expr {
	if b, ok := e.(*syntax.BinaryExpr); ok {
		if original := p.originals[b]; original != nil {
			return p.asTarget(original)
		}
	}
	if list := elements(e); list != nil {
		for i, x := range *list {
			(*list)[i] = p.asTarget(x)
		}
	}
	return e
}

func (p *parser) assignOuter(stmts []syntax.Stmt, pos syntax.Position, target, value syntax.Expr) []syntax.Stmt {
	switch t := target.(type) {
	case *syntax.SliceExpr:
		x := p.operator(t.Lbrack, SetSlice, value, t.X, orNone(t.Lbrack, t.Lo), orNone(t.Lbrack, t.Hi), orNone(t.Lbrack, t.Step))
		return append(stmts, &syntax.ExprStmt{X: x})
	case *syntax.ParenExpr, *syntax.TupleExpr, *syntax.ListExpr:
		if hasSlice(target) {
			return p.assignEach(stmts, pos, target, value)
		}
		if name := p.unstar(target); name != "" {
			value = p.operator(pos, Unpack+name, value)
		}
	}
	return append(stmts, assign(pos, target, value))
}

// assignEach assigns to targets with a slice among them, through temporary variables.
func (p *parser) assignEach(stmts []syntax.Stmt, pos syntax.Position, target, value syntax.Expr) []syntax.Stmt {
	list := *elements(target)
	temps := make([]syntax.Expr, len(list))
	for i := range list {
		temps[i] = ident(pos, p.temp())
		if u, ok := list[i].(*syntax.UnaryExpr); ok && u.Op == syntax.STAR {
			p.refuse(u.OpPos, "can't use starred expression here")
		}
	}
	stmts = append(stmts, assign(pos, &syntax.TupleExpr{Lparen: pos, List: temps, Rparen: pos}, value))
	for i, t := range list {
		stmts = p.assignTo(stmts, pos, t, ident(pos, temps[i].(*syntax.Ident).Name))
	}
	return stmts
}

// elements returns the elements of a tuple or list, which may be in parentheses; nil for other
// expressions.
func elements(e syntax.Expr) *[]syntax.Expr {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		return elements(e.X)
	case *syntax.TupleExpr:
		return &e.List
	case *syntax.ListExpr:
		return &e.List
	}
	return nil
}

func hasSlice(e syntax.Expr) bool {
	if list := elements(e); list != nil {
		for _, x := range *list {
			if _, ok := x.(*syntax.SliceExpr); ok || hasSlice(x) {
				return true
			}
		}
	}
	return false
}

// unstar removes the star from one of several targets, and returns the numbers of targets before
// and after the star, in the form of Unpack; "" without a star.
func (p *parser) unstar(target syntax.Expr) string {
	list := elements(target)
	if list == nil {
		if u, ok := target.(*syntax.UnaryExpr); ok && u.Op == syntax.STAR {
			p.refuse(u.OpPos, "starred assignment target must be in a list or tuple")
		}
		return ""
	}
	found := -1
	for i, x := range *list {
		u, ok := x.(*syntax.UnaryExpr)
		if !ok || u.Op != syntax.STAR {
			continue
		}
		if found >= 0 {
			p.refuse(u.OpPos, "multiple starred expressions in assignment")
		}
		found, (*list)[i] = i, u.X
	}
	if found < 0 {
		return ""
	}
	return fmt.Sprintf("%d·%d", found, len(*list)-found-1)
}

// hasStar reports whether e is a starred element, or a tuple or list with one.
func hasStar(e syntax.Expr) bool {
	switch e := e.(type) {
	case *syntax.UnaryExpr:
		return e.Op == syntax.STAR
	case *syntax.TupleExpr:
		for _, x := range e.List {
			if u, ok := x.(*syntax.UnaryExpr); ok && u.Op == syntax.STAR {
				return true
			}
		}
	case *syntax.ParenExpr:
		t, ok := e.X.(*syntax.TupleExpr)
		return ok && hasStar(t)
	case *syntax.ListExpr:
		for _, x := range e.List {
			if u, ok := x.(*syntax.UnaryExpr); ok && u.Op == syntax.STAR {
				return true
			}
		}
	}
	return false
}

// starred returns the value of a tuple or list with starred elements.
func (p *parser) starred(e syntax.Expr) syntax.Expr {
	lowered := p.lowerStars(e)
	if b, ok := lowered.(*syntax.BinaryExpr); ok {
		if p.originals == nil {
			p.originals = make(map[*syntax.BinaryExpr]syntax.Expr)
		}
		p.originals[b] = e
	}
	return lowered
}

func (p *parser) lowerStars(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		return p.lowerStars(e.X)
	case *syntax.TupleExpr:
		pos := e.Lparen
		if !pos.IsValid() && len(e.List) > 0 {
			pos = syntax.Start(e.List[0])
		}
		return p.joinLists(pos, ConcatTuple, e.List)
	case *syntax.ListExpr:
		return p.joinLists(e.Lbrack, Concat, e.List)
	case *syntax.UnaryExpr:
		p.refuse(e.OpPos, "can't use starred expression here")
	}
	return e
}

// joinLists returns the application of Concat to elements of which some have a star.
func (p *parser) joinLists(pos syntax.Position, name string, list []syntax.Expr) syntax.Expr {
	var parts, run []syntax.Expr
	flush := func() {
		if len(run) > 0 {
			parts = append(parts, &syntax.ListExpr{Lbrack: pos, List: run, Rbrack: pos})
			run = nil
		}
	}
	for _, x := range list {
		if u, ok := x.(*syntax.UnaryExpr); ok && u.Op == syntax.STAR {
			flush()
			parts = append(parts, u.X)
			continue
		}
		run = append(run, x)
	}
	flush()
	tuple := &syntax.TupleExpr{Lparen: pos, List: parts, Rparen: pos}
	return &syntax.BinaryExpr{X: ident(pos, name), OpPos: pos, Op: syntax.PIPE, Y: tuple}
}

// loopTargets parses the targets of a loop. Parsing them as expressions would take
// the in with them.
func (p *parser) loopTargets() syntax.Expr {
	x := p.loopTarget()
	if p.tok != syntax.COMMA {
		return p.asTarget(x)
	}
	list := []syntax.Expr{x}
	for p.accept(syntax.COMMA) {
		if p.tok == syntax.IN {
			break
		}
		list = append(list, p.loopTarget())
	}
	return p.asTarget(&syntax.TupleExpr{List: list})
}

func (p *parser) loopTarget() syntax.Expr {
	if p.tok == syntax.STAR {
		pos := p.next()
		return &syntax.UnaryExpr{OpPos: pos, Op: syntax.STAR, X: p.suffixed()}
	}
	return p.suffixed()
}

// over returns the iterable expression of a loop with these targets.
func (p *parser) over(pos syntax.Position, targets, x syntax.Expr) syntax.Expr {
	if name := p.unstar(targets); name != "" {
		return p.operator(pos, UnpackEach+name, x)
	}
	return x
}
