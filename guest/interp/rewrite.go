package interp

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Names that only rewritten trees hold: no script can write the dot.
const (
	wrapDictName    = "·dict"
	markInPlaceName = "·inplace"
	markFormatName  = "·format"
	markMethodName  = "·method"
	// outerPrefix before a name is that name as predeclared, whatever the
	// script assigns to it.
	outerPrefix = "·outer·"
)

const (
	// maxNesting bounds how deep the syntax tree may be. The parser has a limit
	// of its own for brackets and blocks, but builds chains (a.b.c, a + b + c,
	// elif) without one, and the resolver and compiler recurse over them.
	maxNesting = 500
	// maxBranches bounds the branches in one function, because the library's
	// compiler recurses once or more for each.
	maxBranches = 2000
)

// A rewriter turns the tree of a script into the tree that is run:
//
//   - all of it becomes the body of one function, whose last statement, if it
//     is an expression, is returned;
//   - what makes a bare dict is wrapped, so that scripts see only Objects;
//   - the operand of |= is marked, so that it changes dicts in place;
//   - what the library formats itself, for % and .format, is marked, so that
//     it is written as str writes it (format.go);
//   - a built-in name that the script assigns to starts with its built-in
//     value, as at the top level of Python: type = type(x).
//
// Each new node has the position of the old one it stands for.
type rewriter struct {
	bound    map[string]bool // every name the script binds, anywhere
	depth    int
	branches int // so far in the function being walked
	err      *syntax.Error
}

func (r *rewriter) fail(pos syntax.Position, format string, args ...any) {
	if r.err == nil {
		r.err = &syntax.Error{Pos: pos, Msg: fmt.Sprintf(format, args...)}
	}
}

// file rewrites a whole script. env gains the values of outerPrefix names.
func (r *rewriter) file(f *syntax.File, env starlark.StringDict) {
	r.block(f.Stmts)
	if r.err != nil {
		return
	}
	start := syntax.MakePosition(&f.Path, 1, 1)
	body := f.Stmts
	if len(body) == 0 {
		body = []syntax.Stmt{&syntax.BranchStmt{Token: syntax.PASS, TokenPos: start}}
	}
	if last, ok := body[len(body)-1].(*syntax.ExprStmt); ok {
		body[len(body)-1] = &syntax.ReturnStmt{Return: syntax.Start(last), Result: last.X}
	}
	var prologue []syntax.Stmt
	for _, id := range bindings(body, nil) {
		outer := outerPrefix + id.Name
		if _, done := env[outer]; done {
			continue
		}
		v, ok := env[id.Name]
		if !ok {
			v, ok = starlark.Universe[id.Name]
		}
		if ok {
			env[outer] = v
			prologue = append(prologue, assign(id.NamePos, id.Name, ident(id.NamePos, outer)))
		}
	}
	f.Stmts = []syntax.Stmt{&syntax.DefStmt{
		Def: start, Name: ident(start, toplevel), Body: append(prologue, body...),
	}}
}

// setParams gives env its params, under all the names a program has for them.
func setParams(env starlark.StringDict, params starlark.Value) {
	env["params"] = params
	if _, ok := env[outerPrefix+"params"]; ok {
		env[outerPrefix+"params"] = params
	}
}

// nest counts a level of the tree and says whether to go on; undo with unnest.
func (r *rewriter) nest(n syntax.Node) bool {
	r.depth++
	if r.depth > maxNesting {
		r.fail(firstPos(n), "nested or chained more than %d levels deep (use several statements)", maxNesting)
	}
	return r.err == nil
}

func (r *rewriter) unnest() { r.depth-- }

// firstPos is a position of n that is found without walking down the tree, as
// Span does.
func firstPos(n syntax.Node) syntax.Position {
	switch n := n.(type) {
	case *syntax.BinaryExpr:
		return n.OpPos
	case *syntax.UnaryExpr:
		return n.OpPos
	case *syntax.DotExpr:
		return n.Dot
	case *syntax.CallExpr:
		return n.Lparen
	case *syntax.IndexExpr:
		return n.Lbrack
	case *syntax.SliceExpr:
		return n.Lbrack
	case *syntax.CondExpr:
		return n.If
	case *syntax.LambdaExpr:
		return n.Lambda
	case *syntax.TupleExpr:
		if len(n.List) > 0 {
			return firstPos(n.List[0])
		}
	case *syntax.AssignStmt:
		return n.OpPos
	case *syntax.ExprStmt:
		return firstPos(n.X)
	case *syntax.IfStmt:
		return n.If
	case *syntax.ForStmt:
		return n.For
	case *syntax.WhileStmt:
		return n.While
	case *syntax.DefStmt:
		return n.Def
	case *syntax.ReturnStmt:
		return n.Return
	}
	return syntax.Start(n)
}

func (r *rewriter) branch(pos syntax.Position) {
	if r.branches++; r.branches > maxBranches {
		r.fail(pos, "more than %d branches in one function (split it)", maxBranches)
	}
}

func (r *rewriter) block(stmts []syntax.Stmt) {
	for _, s := range stmts {
		if !r.nest(s) {
			return
		}
		r.stmt(s)
		r.unnest()
	}
}

func (r *rewriter) stmt(s syntax.Stmt) {
	switch s := s.(type) {
	case *syntax.ExprStmt:
		s.X = r.expr(s.X)
	case *syntax.AssignStmt:
		s.LHS = r.target(s.LHS)
		s.RHS = r.expr(s.RHS)
		switch s.Op {
		case syntax.PIPE_EQ:
			s.RHS = operator(s.OpPos, markInPlaceName, s.RHS)
		case syntax.PERCENT_EQ:
			s.RHS = formatted(s.OpPos, s.RHS)
		}
	case *syntax.IfStmt:
		r.branch(s.If)
		s.Cond = r.expr(s.Cond)
		r.block(s.True)
		r.block(s.False)
	case *syntax.ForStmt:
		r.branch(s.For)
		s.X = r.expr(s.X)
		s.Vars = r.target(s.Vars)
		r.block(s.Body)
	case *syntax.WhileStmt:
		r.branch(s.While)
		s.Cond = r.expr(s.Cond)
		r.block(s.Body)
	case *syntax.ReturnStmt:
		if s.Result != nil {
			s.Result = r.expr(s.Result)
		}
	case *syntax.DefStmt:
		r.bound[s.Name.Name] = true
		kwargs := r.params(s.Params)
		outer := r.branches
		r.branches = 0
		r.block(s.Body)
		r.branches = outer
		if kwargs != nil {
			pos := kwargs.NamePos
			wrapped := operator(pos, wrapDictName, ident(pos, kwargs.Name))
			s.Body = append([]syntax.Stmt{assign(pos, kwargs.Name, wrapped)}, s.Body...)
		}
	case *syntax.LoadStmt:
		r.fail(s.Load, "load is not available: a script stands alone (json and math are always there, and tools are called as server.tool({...}))")
	}
}

// params walks the defaults of parameters and returns the **kwargs one.
func (r *rewriter) params(params []syntax.Expr) (kwargs *syntax.Ident) {
	for _, p := range params {
		switch p := p.(type) {
		case *syntax.Ident:
			r.bound[p.Name] = true
		case *syntax.BinaryExpr:
			r.target(p.X)
			p.Y = r.expr(p.Y)
		case *syntax.UnaryExpr:
			id, ok := p.X.(*syntax.Ident)
			if !ok {
				continue // a bare *
			}
			r.bound[id.Name] = true
			if p.Op == syntax.STARSTAR {
				kwargs = id
			}
		}
	}
	return kwargs
}

// target walks what is assigned to.
func (r *rewriter) target(e syntax.Expr) syntax.Expr {
	if !r.nest(e) {
		return e
	}
	defer r.unnest()
	switch e := e.(type) {
	case *syntax.Ident:
		r.bound[e.Name] = true
	case *syntax.ParenExpr:
		e.X = r.target(e.X)
	case *syntax.TupleExpr:
		for i := range e.List {
			e.List[i] = r.target(e.List[i])
		}
	case *syntax.ListExpr:
		for i := range e.List {
			e.List[i] = r.target(e.List[i])
		}
	case *syntax.DotExpr:
		e.X = r.expr(e.X)
	case *syntax.IndexExpr:
		e.X, e.Y = r.expr(e.X), r.expr(e.Y)
	}
	return e // of anything else the resolver says that it is no target
}

func (r *rewriter) exprs(list []syntax.Expr) {
	for i := range list {
		list[i] = r.expr(list[i])
	}
}

// expr rewrites an expression and returns what stands in its place; nil is nil.
func (r *rewriter) expr(e syntax.Expr) syntax.Expr {
	if e == nil || !r.nest(e) {
		return e
	}
	defer r.unnest()
	switch e := e.(type) {
	case *syntax.ParenExpr:
		e.X = r.expr(e.X)
	case *syntax.UnaryExpr:
		e.X = r.expr(e.X)
	case *syntax.BinaryExpr:
		if e.Op == syntax.AND || e.Op == syntax.OR {
			r.branch(e.OpPos)
		}
		e.X, e.Y = r.expr(e.X), r.expr(e.Y)
		if e.Op == syntax.PERCENT {
			e.Y = formatted(e.OpPos, e.Y)
		}
	case *syntax.CondExpr:
		r.branch(e.If)
		e.Cond, e.True, e.False = r.expr(e.Cond), r.expr(e.True), r.expr(e.False)
	case *syntax.DotExpr:
		e.X = r.expr(e.X)
		if e.Name.Name == formatMethod {
			return operator(e.Dot, markMethodName, e)
		}
	case *syntax.IndexExpr:
		e.X, e.Y = r.expr(e.X), r.expr(e.Y)
	case *syntax.SliceExpr:
		e.X, e.Lo, e.Hi, e.Step = r.expr(e.X), r.expr(e.Lo), r.expr(e.Hi), r.expr(e.Step)
	case *syntax.CallExpr:
		e.Fn = r.expr(e.Fn)
		r.args(e.Args)
	case *syntax.ListExpr:
		r.exprs(e.List)
	case *syntax.TupleExpr:
		r.exprs(e.List)
	case *syntax.DictExpr:
		for _, x := range e.List {
			entry := x.(*syntax.DictEntry)
			entry.Key, entry.Value = r.expr(entry.Key), r.expr(entry.Value)
		}
		return operator(e.Lbrace, wrapDictName, e)
	case *syntax.Comprehension:
		r.comprehension(e)
		if e.Curly {
			return operator(e.Lbrack, wrapDictName, e)
		}
	case *syntax.LambdaExpr:
		r.lambda(e)
	}
	return e
}

// args walks the arguments of a call; a name before = is none.
func (r *rewriter) args(args []syntax.Expr) {
	for i, a := range args {
		if named, ok := a.(*syntax.BinaryExpr); ok && named.Op == syntax.EQ {
			named.Y = r.expr(named.Y)
			continue
		}
		args[i] = r.expr(a)
	}
}

func (r *rewriter) comprehension(e *syntax.Comprehension) {
	depth := r.depth
	for _, c := range e.Clauses {
		r.depth++ // the compiler recurses over clauses
		switch c := c.(type) {
		case *syntax.ForClause:
			r.branch(c.For)
			c.Vars = r.target(c.Vars)
			c.X = r.expr(c.X)
		case *syntax.IfClause:
			r.branch(c.If)
			c.Cond = r.expr(c.Cond)
		}
	}
	if entry, ok := e.Body.(*syntax.DictEntry); ok {
		entry.Key, entry.Value = r.expr(entry.Key), r.expr(entry.Value)
	} else {
		e.Body = r.expr(e.Body)
	}
	r.depth = depth
}

// lambda rewrites lambda **kw: body as lambda **kw: [body for kw in [wrapped]][0],
// which needs no frame of its own.
func (r *rewriter) lambda(e *syntax.LambdaExpr) {
	kwargs := r.params(e.Params)
	outer := r.branches
	r.branches = 0
	e.Body = r.expr(e.Body)
	r.branches = outer
	if kwargs == nil {
		return
	}
	pos := kwargs.NamePos
	wrapped := operator(pos, wrapDictName, ident(pos, kwargs.Name))
	e.Body = &syntax.IndexExpr{
		X: &syntax.Comprehension{
			Lbrack: pos, Body: e.Body, Rbrack: pos,
			Clauses: []syntax.Node{&syntax.ForClause{
				For: pos, Vars: ident(pos, kwargs.Name), In: pos,
				X: &syntax.ListExpr{Lbrack: pos, List: []syntax.Expr{wrapped}, Rbrack: pos},
			}},
		},
		Lbrack: pos, Rbrack: pos,
		Y: &syntax.Literal{Token: syntax.INT, TokenPos: pos, Raw: "0", Value: int64(0)},
	}
}

func ident(pos syntax.Position, name string) *syntax.Ident {
	return &syntax.Ident{NamePos: pos, Name: name}
}

// operator is (name | x); what it does is up to the value that name stands for.
func operator(pos syntax.Position, name string, x syntax.Expr) syntax.Expr {
	return &syntax.BinaryExpr{X: ident(pos, name), OpPos: pos, Op: syntax.PIPE, Y: x}
}

// formatted marks the right operand of %. A literal is left alone: it needs no
// care, and x % 2 is common in loops.
func formatted(pos syntax.Position, x syntax.Expr) syntax.Expr {
	if _, ok := x.(*syntax.Literal); ok {
		return x
	}
	return operator(pos, markFormatName, x)
}

func assign(pos syntax.Position, name string, x syntax.Expr) syntax.Stmt {
	return &syntax.AssignStmt{OpPos: pos, Op: syntax.EQ, LHS: ident(pos, name), RHS: x}
}

// bindings appends the names that statements bind in their own function, in
// order. The tree is known not to be too deep.
func bindings(stmts []syntax.Stmt, out []*syntax.Ident) []*syntax.Ident {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.AssignStmt:
			out = targetNames(s.LHS, out)
		case *syntax.DefStmt:
			out = append(out, s.Name)
		case *syntax.ForStmt:
			out = bindings(s.Body, targetNames(s.Vars, out))
		case *syntax.WhileStmt:
			out = bindings(s.Body, out)
		case *syntax.IfStmt:
			out = bindings(s.False, bindings(s.True, out))
		}
	}
	return out
}

func targetNames(e syntax.Expr, out []*syntax.Ident) []*syntax.Ident {
	switch e := e.(type) {
	case *syntax.Ident:
		out = append(out, e)
	case *syntax.ParenExpr:
		out = targetNames(e.X, out)
	case *syntax.TupleExpr:
		for _, x := range e.List {
			out = targetNames(x, out)
		}
	case *syntax.ListExpr:
		for _, x := range e.List {
			out = targetNames(x, out)
		}
	}
	return out
}
