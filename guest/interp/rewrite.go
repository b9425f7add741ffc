package interp

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Names only in rewritten trees: no script can write the dot.
const (
	wrapDictName    = "·dict"
	markInPlaceName = "·inplace"
	markFormatName  = "·format"
	markModuloName  = "·modulo"
	markMethodName  = "·method"
	raiseName       = "·raise"
	// outerPrefix before a name means the predeclared value of the name, whatever the script
	// assigns.
	outerPrefix = "·outer·"
)

const (
	// maxTries is how deep try statements may be nested in a script. The cost of a variable used in
	// the innermost statement grows with the depth.
	maxTries = 50
	// maxNesting limits the depth of the syntax tree. The parser has a limit for brackets and
	// blocks, but builds chains (a.b.c, a + b + c, elif) without a limit, and the resolver and
	// compiler recurse over them.
	maxNesting = 500
	// maxBranches limits the branches in a function, because the library's compiler recurses at
	// least once for each branch.
	maxBranches = 2000
)

// A rewriter turns the tree of a script into the executed tree:
//
//   - the script becomes the body of one function, whose last statement, if
//     an expression, is returned;
//   - expressions that make a bare dict are wrapped, so that scripts see only
//     Objects;
//   - the operand of |= is marked, so that dicts are changed in place;
//   - operands of % and .format are marked, so that format.go does the formatting;
//   - a built-in name assigned by the script starts with the built-in
//     value, as at the top level of Python: type = type(x);
//   - type(x) == list compares with "list".
//
// Each new node has the position of the old node it stands for.
type rewriter struct {
	bound    map[string]bool // every name bound by the script, in any scope
	depth    int
	branches int // so far in the function being walked
	tryDepth int
	err      *syntax.Error

	env    starlark.StringDict // the names of this program, besides the names of every script
	parsed *parse.File
	shares bool               // variables of a function are assigned by other functions
	dots   []*syntax.DotExpr  // with the name of a type before the dot
	values int                // number of values added to env
	kinds  []*syntax.Expr     // compared with type(x)
	lazy   []*syntax.CallExpr // with a generator expression as the only argument
}

func newRewriter(file *parse.File, env starlark.StringDict) *rewriter {
	return &rewriter{bound: make(map[string]bool), env: env, parsed: file, shares: file.Nonlocal}
}

// value adds a value for this script only to env, and returns the name.
func (r *rewriter) value(v starlark.Value) string {
	r.values++
	name := fmt.Sprintf("·%d", r.values)
	r.env[name] = v
	return name
}

func (r *rewriter) fail(pos syntax.Position, format string, args ...any) {
	if r.err == nil {
		r.err = &syntax.Error{Pos: pos, Msg: fmt.Sprintf(format, args...)}
	}
}

// file rewrites a whole script. It adds the values of outerPrefix names and of the method value to
// env.
func (r *rewriter) file(f *syntax.File) {
	env := r.env
	r.block(f.Stmts)
	if r.err != nil {
		return
	}
	r.nameKinds()
	r.nameTypes()
	r.unlazy()
	start := syntax.MakePosition(&f.Path, 1, 1)
	body := hoist(f.Stmts)
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
		v, ok := meaning(env, id.Name)
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
	if r.shares || r.parsed.Walrus && generatorsAssign(f) {
		t := tryRewriter{rewriter: r}
		t.file(f)
	}
}

// setParams sets params in env, under both names used by programs.
func setParams(env starlark.StringDict, params starlark.Value) {
	env["params"] = params
	if _, ok := env[outerPrefix+"params"]; ok {
		env[outerPrefix+"params"] = params
	}
}

// nest counts a level of the tree and reports whether to go on; unnest undoes the count.
func (r *rewriter) nest(n syntax.Node) bool {
	r.depth++
	if r.depth > maxNesting {
		r.fail(firstPos(n), "nested or chained more than %d levels deep (use several statements)", maxNesting)
	}
	return r.err == nil
}

func (r *rewriter) unnest() { r.depth-- }

// firstPos returns a position of n. Unlike Span, firstPos does not walk down the tree.
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
	case *parse.Try:
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
			if id, ok := s.LHS.(*syntax.Ident); ok {
				s.Op, s.RHS = syntax.EQ, modulo(s.OpPos, ident(id.NamePos, id.Name), s.RHS)
			} else {
				s.RHS = formatOperand(s.OpPos, s.RHS)
			}
		}
	case *syntax.IfStmt:
		r.branch(s.If)
		s.Cond = r.expr(s.Cond)
		r.block(s.True)
		r.block(s.False)
	case *parse.Try:
		r.try(s)
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
	}
}

func (r *rewriter) try(s *parse.Try) {
	r.shares = true
	if r.tryDepth++; r.tryDepth > maxTries {
		r.fail(s.If, "try statements are nested more than %d deep (use functions)", maxTries)
	}
	defer func() { r.tryDepth-- }()
	r.branch(s.If)
	r.block(s.True)
	for _, c := range s.Clauses {
		r.branch(c.Pos)
		c.Class = r.expr(c.Class)
		if c.As != nil {
			r.bound[c.As.Name] = true
		}
		r.block(c.Body)
	}
	r.block(s.OrElse)
	r.block(s.Finally)
}

// params rewrites the defaults of parameters and returns the **kwargs parameter.
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

// target rewrites the target of an assignment.
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
	return e // the resolver refuses anything else
}

// bindings returns the names bound by statements in their own function, appended to out, in order.
// The depth of the tree must have been checked.
func bindings(stmts []syntax.Stmt, out []*syntax.Ident) []*syntax.Ident {
	return parse.Bindings(stmts, out, true)
}
