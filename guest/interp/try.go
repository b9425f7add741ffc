package interp

import (
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A tryRewriter turns try statements into calls. An error unwinds the function in which it happens,
// so each part of a try statement becomes a separate function, and catch.go calls these functions:
//
//	try:                      def ·p1(): a = f()
//	    a = f()               def ·p2(): return leave("return", None)
//	except Error as e:   =>   ·r1 = ·try(·p1, ·p2)
//	    return                if ·r1: return ·r1.value
//
// A variable assigned in a part belongs to the enclosing function. These variables are kept in a
// value of type variables, ·v1, shared by the parts and the function: a becomes ·v1[0]
// everywhere. A variable used in a single part, and not in a loop, stays a variable of the part.
//
// The parts only run while the function's own frame exists, and errors.go leaves them out of
// backtraces.
type tryRewriter struct {
	*rewriter
	made int // number of names made so far
}

// A scope has the names bound by a function or comprehension.
type scope struct {
	outer *scope
	names map[string]bool
	boxed map[string]int // names stored in vars, with their index there
	vars  string
	// globals are the names declared global, names of the outermost scope.
	globals map[string]bool
}

// find returns the place of a boxed variable, if name is boxed in this scope.
func (s *scope) find(name string) (vars string, index int, ok bool) {
	for ; s != nil; s = s.outer {
		if s.globals[name] {
			s = s.outermost()
		}
		if i, ok := s.boxed[name]; ok {
			return s.vars, i, true
		}
		if s.names[name] {
			break
		}
	}
	return "", 0, false
}

// A region is the code of a function, or of a part of a try statement.
type region struct {
	scope    *scope
	part     bool
	loops    int // open loops within the region
	allLoops int // open loops within the whole function
	// leaves says, by leaveKind, how the part can be left early.
	leaves [3]bool
}

func (t *tryRewriter) file(f *syntax.File) {
	for _, s := range f.Stmts {
		def := s.(*syntax.DefStmt)
		def.Body = t.function(def.Def, def.Params, def.Body, nil)
	}
}

// name returns a new name.
func (t *tryRewriter) name(kind string) string {
	t.made++
	return fmt.Sprintf("·%s%d", kind, t.made)
}

// function rewrites the body of a function.
func (t *tryRewriter) function(pos syntax.Position, params []syntax.Expr, body []syntax.Stmt, outer *scope) []syntax.Stmt {
	s := &scope{outer: outer, names: make(map[string]bool)}
	parameters := paramNames(params)
	all := bindings(body, parameters)
	if t.parsed.Walrus {
		all = walrusNames(body, all)
	}
	for _, id := range all {
		s.names[id.Name] = true
	}
	names := sharedNames(params, body, t.parsed.Walrus)
	if t.parsed.Walrus {
		for _, name := range generatorWalrus(body) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if t.parsed.Nonlocal {
		names = t.scopes(s, body, names)
	}
	var prologue []syntax.Stmt
	if len(names) > 0 {
		s.boxed = make(map[string]int, len(names))
		s.vars = t.name("v")
		for i, name := range names {
			s.boxed[name] = i
		}
		maker := ident(pos, t.value(&variables{names: names}))
		prologue = append(prologue, assign(pos, s.vars, &syntax.BinaryExpr{
			X: maker, OpPos: pos, Op: syntax.PIPE, Y: ident(pos, "None"),
		}))
		for _, id := range parameters {
			if i, ok := s.boxed[id.Name]; ok {
				prologue = append(prologue, &syntax.AssignStmt{
					OpPos: pos, Op: syntax.EQ, LHS: slot(id.NamePos, s.vars, i), RHS: ident(id.NamePos, id.Name),
				})
			}
		}
	}
	return append(prologue, t.block(body, &region{scope: s})...)
}

func paramNames(params []syntax.Expr) (out []*syntax.Ident) {
	for _, p := range params {
		switch q := p.(type) {
		case *syntax.BinaryExpr:
			p = q.X
		case *syntax.UnaryExpr:
			p = q.X
		}
		if id, ok := p.(*syntax.Ident); ok {
			out = append(out, id)
		}
	}
	return out
}

// slot returns the expression vars[i].
func slot(pos syntax.Position, vars string, i int) syntax.Expr {
	return &syntax.IndexExpr{X: ident(pos, vars), Lbrack: pos, Y: number(pos, i), Rbrack: pos}
}

func number(pos syntax.Position, n int) syntax.Expr {
	return &syntax.Literal{Token: syntax.INT, TokenPos: pos, Raw: fmt.Sprint(n), Value: int64(n)}
}

func (t *tryRewriter) block(in []syntax.Stmt, r *region) []syntax.Stmt {
	var out []syntax.Stmt
	for _, stmt := range in {
		switch s := stmt.(type) {
		case *parse.Try:
			out = t.try(s, r, out)
			continue
		case *parse.Scope:
			t.checkScope(s, r)
			stmt = s.BranchStmt // pass
		case *syntax.ExprStmt:
			s.X = t.expr(s.X, r.scope)
		case *syntax.AssignStmt:
			s.RHS = t.expr(s.RHS, r.scope)
			s.LHS = t.expr(s.LHS, r.scope)
		case *syntax.IfStmt:
			s.Cond = t.expr(s.Cond, r.scope)
			s.True = t.block(s.True, r)
			s.False = t.block(s.False, r)
		case *syntax.ForStmt:
			s.X = t.expr(s.X, r.scope)
			s.Vars = t.expr(s.Vars, r.scope)
			s.Body = t.loop(s.Body, r)
		case *syntax.WhileStmt:
			s.Cond = t.expr(s.Cond, r.scope)
			s.Body = t.loop(s.Body, r)
		case *syntax.ReturnStmt:
			s.Result = t.expr(s.Result, r.scope)
			if r.part {
				stmt = r.leave(s.Return, leaveReturn, s.Result)
			}
		case *syntax.BranchStmt:
			stmt = t.branch(s, r)
		case *syntax.DefStmt:
			t.params(s.Params, r.scope)
			s.Body = t.function(s.Def, s.Params, s.Body, r.scope)
			if vars, i, ok := r.scope.find(s.Name.Name); ok {
				// The function is first bound as a variable of the region. The name may have been
				// declared global or nonlocal.
				pos := s.Name.NamePos
				out = append(out, s)
				stmt = &syntax.AssignStmt{OpPos: pos, Op: syntax.EQ, LHS: slot(pos, vars, i), RHS: ident(pos, s.Name.Name)}
			}
		}
		out = append(out, stmt)
	}
	return out
}

func (t *tryRewriter) loop(body []syntax.Stmt, r *region) []syntax.Stmt {
	r.loops++
	r.allLoops++
	body = t.block(body, r)
	r.loops--
	r.allLoops--
	return body
}

// branch rewrites break, continue or pass. A break or continue may leave a part.
func (t *tryRewriter) branch(s *syntax.BranchStmt, r *region) syntax.Stmt {
	how := leaveBreak
	switch s.Token {
	case syntax.PASS:
		return s
	case syntax.CONTINUE:
		how = leaveContinue
	}
	switch {
	case !r.part || r.loops > 0:
		return s // the resolver checks the loop
	case r.allLoops == 0:
		t.fail(s.TokenPos, "%s not in a loop", s.Token)
		return s
	}
	return r.leave(s.TokenPos, how, nil)
}

// leave returns the statement for leaving a part early.
func (r *region) leave(pos syntax.Position, how leaveKind, value syntax.Expr) syntax.Stmt {
	r.leaves[how] = true
	if value == nil {
		value = ident(pos, "None")
	}
	return &syntax.ReturnStmt{Return: pos, Result: operator(pos, leaveNames[how], value)}
}

// try appends the replacement of a try statement.
func (t *tryRewriter) try(s *parse.Try, r *region, out []syntax.Stmt) []syntax.Stmt {
	plan := &tryPlan{hasElse: s.OrElse != nil, hasFinally: s.Finally != nil}
	pos := s.If
	vars := ident(pos, "None")
	if r.scope.vars != "" {
		vars = ident(pos, r.scope.vars)
	}
	call := &syntax.CallExpr{Lparen: pos, Args: []syntax.Expr{vars}, Rparen: pos}
	var leaves [3]bool
	part := func(pos syntax.Position, body []syntax.Stmt) {
		inner := &region{scope: r.scope, part: true, allLoops: r.allLoops}
		name := t.name("p")
		out = append(out, &syntax.DefStmt{Def: pos, Name: ident(pos, name), Body: t.block(body, inner)})
		call.Args = append(call.Args, ident(pos, name))
		for i, used := range inner.leaves {
			leaves[i] = leaves[i] || used
		}
	}
	part(pos, s.True)
	for _, c := range s.Clauses {
		plan.handlers = append(plan.handlers, handler{classes: t.knownClasses(c.Class), slot: -1})
		part(c.Pos, c.Body)
	}
	if plan.hasElse {
		part(pos, s.OrElse)
	}
	if plan.hasFinally {
		part(pos, s.Finally)
	}
	for i, c := range s.Clauses {
		t.caught(&plan.handlers[i], c, r, call)
		if plan.handlers[i].classes == nil {
			plan.handlers[i].asked = len(call.Args)
			call.Args = append(call.Args, &syntax.LambdaExpr{Lambda: c.Pos, Body: t.expr(c.Class, r.scope)})
		}
	}
	call.Fn = ident(pos, t.value(plan))
	if leaves == [3]bool{} {
		return append(out, &syntax.ExprStmt{X: call})
	}
	result := t.name("r")
	return append(out, assign(pos, result, call), r.completeLeave(pos, result, leaves))
}

// caught sets where a clause keeps the caught error. If the name was declared global or nonlocal,
// the place is among the variables of another function, which the call gets as another argument.
func (t *tryRewriter) caught(h *handler, c *parse.Except, r *region, call *syntax.CallExpr) {
	if c.As == nil {
		return
	}
	vars, i, ok := r.scope.find(c.As.Name)
	if !ok {
		return // checkScope has refused the declaration
	}
	if h.slot = i; vars != r.scope.vars {
		h.vars = len(call.Args)
		call.Args = append(call.Args, ident(c.As.NamePos, vars))
	}
}

// knownClasses returns the classes named by an except clause, or nil if they are only known when
// the clause is reached.
func (t *tryRewriter) knownClasses(e syntax.Expr) []*class {
	switch e := e.(type) {
	case nil:
		return []*class{exceptionClass}
	case *syntax.Ident:
		if c := errorClasses[e.Name]; c != nil && !t.bound[e.Name] {
			return []*class{c}
		}
	case *syntax.ParenExpr:
		return t.knownClasses(e.X)
	case *syntax.TupleExpr:
		var all []*class
		for _, x := range e.List {
			some := t.knownClasses(x)
			if some == nil {
				return nil
			}
			all = append(all, some...)
		}
		return all
	}
	return nil
}

// completeLeave returns the statement after a try statement that completes the break, continue or
// return of a part: if result: ...
func (r *region) completeLeave(pos syntax.Position, result string, leaves [3]bool) syntax.Stmt {
	field := func(name string) syntax.Expr {
		return &syntax.DotExpr{X: ident(pos, result), Dot: pos, NamePos: pos, Name: ident(pos, name)}
	}
	var do []syntax.Stmt
	if r.part && r.loops == 0 {
		for how, used := range leaves {
			r.leaves[how] = r.leaves[how] || used
		}
		do = []syntax.Stmt{&syntax.ReturnStmt{Return: pos, Result: ident(pos, result)}}
	} else {
		for _, how := range []leaveKind{leaveBreak, leaveContinue} {
			if leaves[how] {
				do = append(do, &syntax.IfStmt{
					If: pos, Cond: field(leaveFields[how]),
					True: []syntax.Stmt{&syntax.BranchStmt{Token: leaveTokens[how], TokenPos: pos}},
				})
			}
		}
		if leaves[leaveReturn] {
			value := field("value")
			if r.part {
				r.leaves[leaveReturn] = true
				value = ident(pos, result)
			}
			do = append(do, &syntax.ReturnStmt{Return: pos, Result: value})
		}
	}
	return &syntax.IfStmt{If: pos, Cond: ident(pos, result), True: do}
}

// params rewrites the defaults of parameters.
func (t *tryRewriter) params(params []syntax.Expr, s *scope) {
	for _, p := range params {
		if p, ok := p.(*syntax.BinaryExpr); ok {
			p.Y = t.expr(p.Y, s)
		}
	}
}

// expr rewrites an expression or target; nil stays nil.
func (t *tryRewriter) expr(e syntax.Expr, s *scope) syntax.Expr {
	switch e := e.(type) {
	case *syntax.Ident:
		if vars, i, ok := s.find(e.Name); ok {
			return slot(e.NamePos, vars, i)
		}
	case *syntax.ParenExpr:
		e.X = t.expr(e.X, s)
	case *syntax.UnaryExpr:
		e.X = t.expr(e.X, s)
	case *syntax.BinaryExpr:
		if id, ok := e.X.(*syntax.Ident); ok && e.Op == syntax.EQ {
			e.Y = t.expr(e.Y, s)
			if vars, i, ok := s.find(id.Name); ok { // see variables.Binary
				pair := &syntax.TupleExpr{Lparen: e.OpPos, List: []syntax.Expr{number(e.OpPos, i), e.Y}, Rparen: e.OpPos}
				return &syntax.BinaryExpr{X: ident(id.NamePos, vars), OpPos: e.OpPos, Op: syntax.AMP, Y: pair}
			}
			return e
		}
		e.X, e.Y = t.expr(e.X, s), t.expr(e.Y, s)
	case *syntax.CondExpr:
		e.Cond, e.True, e.False = t.expr(e.Cond, s), t.expr(e.True, s), t.expr(e.False, s)
	case *syntax.DotExpr:
		e.X = t.expr(e.X, s)
	case *syntax.IndexExpr:
		e.X, e.Y = t.expr(e.X, s), t.expr(e.Y, s)
	case *syntax.SliceExpr:
		e.X, e.Lo, e.Hi, e.Step = t.expr(e.X, s), t.expr(e.Lo, s), t.expr(e.Hi, s), t.expr(e.Step, s)
	case *syntax.CallExpr:
		e.Fn = t.expr(e.Fn, s)
		for i, a := range e.Args {
			if named, ok := a.(*syntax.BinaryExpr); ok && named.Op == syntax.EQ {
				named.Y = t.expr(named.Y, s)
				continue
			}
			e.Args[i] = t.expr(a, s)
		}
	case *syntax.ListExpr:
		t.exprs(e.List, s)
	case *syntax.TupleExpr:
		t.exprs(e.List, s)
	case *syntax.DictExpr:
		t.exprs(e.List, s)
	case *syntax.DictEntry:
		e.Key, e.Value = t.expr(e.Key, s), t.expr(e.Value, s)
	case *syntax.Comprehension:
		t.comprehension(e, s)
	case *syntax.LambdaExpr:
		t.params(e.Params, s)
		inner := &scope{outer: s, names: make(map[string]bool)}
		for _, id := range paramNames(e.Params) {
			inner.names[id.Name] = true
		}
		e.Body = t.expr(e.Body, inner)
	}
	return e
}

func (t *tryRewriter) exprs(list []syntax.Expr, s *scope) {
	for i := range list {
		list[i] = t.expr(list[i], s)
	}
}

// comprehension rewrites a comprehension. The first sequence belongs to the enclosing scope.
func (t *tryRewriter) comprehension(e *syntax.Comprehension, outer *scope) {
	s := &scope{outer: outer, names: make(map[string]bool)}
	for _, c := range e.Clauses {
		if c, ok := c.(*syntax.ForClause); ok {
			for _, id := range parse.TargetNames(c.Vars, nil) {
				s.names[id.Name] = true
			}
		}
	}
	for i, c := range e.Clauses {
		switch c := c.(type) {
		case *syntax.ForClause:
			in := s
			if i == 0 {
				in = outer
			}
			c.X = t.expr(c.X, in)
			c.Vars = t.expr(c.Vars, s)
		case *syntax.IfClause:
			c.Cond = t.expr(c.Cond, s)
		}
	}
	e.Body = t.expr(e.Body, s)
}

// variables holds the variables shared by a function with the function's try statements. The value
// in the rewritten tree has only the names; (value | None) makes the variables of a call.
type variables struct {
	operandOnly
	names  []string
	values []starlark.Value // nil for an unbound variable
}

var (
	_ starlark.Mapping   = (*variables)(nil)
	_ starlark.HasSetKey = (*variables)(nil)
	_ starlark.HasBinary = (*variables)(nil)
)

// Binary makes the variables of a call of the function, or sets a variable: v & (i, value) is
// value.
func (v *variables) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	if op == syntax.AMP {
		pair := y.(starlark.Tuple)
		return pair[1], v.SetKey(pair[0], pair[1])
	}
	return &variables{names: v.names, values: make([]starlark.Value, len(v.names))}, nil
}

func (v *variables) Get(k starlark.Value) (starlark.Value, bool, error) {
	i, _ := k.(starlark.Int).Int64()
	if value := v.values[i]; value != nil {
		return value, true, nil
	}
	return nil, false, fmt.Errorf("local variable %s referenced before assignment", v.names[i])
}

func (v *variables) SetKey(k, value starlark.Value) error {
	i, _ := k.(starlark.Int).Int64()
	v.values[i] = value
	return nil
}
