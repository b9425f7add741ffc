package parse

import (
	"fmt"
	"strings"

	"go.starlark.net/syntax"
)

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

// importStmt parses import x.y as z, ...
func (p *parser) importStmt(stmts []syntax.Stmt) []syntax.Stmt {
	pos := p.next()
	for {
		start := p.val.pos
		module := p.dotted()
		im := &Import{Pos: start, Module: module}
		if p.accept(syntax.AS) {
			im.As = p.ident()
		} else { // the part before the first dot is bound
			first, _, _ := strings.Cut(module, ".")
			im.As, module = ident(start, first), first
		}
		p.file.Imports = append(p.file.Imports, im)
		stmts = append(stmts, assign(pos, im.As, ident(start, ImportPrefix+module)))
		if !p.accept(syntax.COMMA) {
			return stmts
		}
	}
}

// dotted parses the name of a module.
func (p *parser) dotted() string {
	if p.tok == syntax.DOT || p.tok == ellipsis {
		p.fail(p.in.pos, "a script is not part of a package: only the modules of the library can be imported")
	}
	name := p.ident().Name
	for p.accept(syntax.DOT) {
		name += "." + p.ident().Name
	}
	return name
}

// fromStmt parses from module import names.
func (p *parser) fromStmt(stmts []syntax.Stmt) []syntax.Stmt {
	p.next()
	start := p.val.pos
	module := p.dotted()
	pos := p.consume(syntax.IMPORT)
	if p.tok == syntax.STAR {
		star := p.next()
		names := p.exports(module)
		for _, name := range names {
			stmts = p.importName(stmts, pos, start, module, ident(star, name), ident(star, name))
		}
		if len(names) == 0 {
			p.file.Imports = append(p.file.Imports, &Import{Pos: start, Module: module, As: ident(star, Hidden)})
		}
		return stmts
	}
	parens := p.accept(syntax.LPAREN)
	for {
		name := p.ident()
		as := ident(name.NamePos, name.Name)
		if p.accept(syntax.AS) {
			as = p.ident()
		}
		stmts = p.importName(stmts, pos, start, module, name, as)
		if !p.accept(syntax.COMMA) || parens && p.tok == syntax.RPAREN {
			break
		}
	}
	if parens {
		p.consume(syntax.RPAREN)
	}
	return stmts
}

func (p *parser) importName(stmts []syntax.Stmt, pos, start syntax.Position, module string, name, as *syntax.Ident) []syntax.Stmt {
	p.file.Imports = append(p.file.Imports, &Import{Pos: start, Module: module, Name: name.Name, As: as})
	x := &syntax.DotExpr{X: ident(start, ImportPrefix+module), Dot: name.NamePos, NamePos: name.NamePos, Name: name}
	return append(stmts, assign(pos, as, x))
}

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
