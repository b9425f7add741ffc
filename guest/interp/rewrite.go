package interp

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
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

func (r *rewriter) exprs(list []syntax.Expr) {
	for i := range list {
		list[i] = r.expr(list[i])
	}
}

// expr rewrites an expression and returns the replacement; nil stays nil.
func (r *rewriter) expr(e syntax.Expr) syntax.Expr {
	if e == nil || !r.nest(e) {
		return e
	}
	defer r.unnest()
	switch e := e.(type) {
	case *syntax.Literal:
		if found := r.parsed.Strings[e]; found != nil {
			return r.joined(found, e)
		}
	case *syntax.ParenExpr:
		e.X = r.expr(e.X)
	case *syntax.UnaryExpr:
		e.X = r.expr(e.X)
	case *syntax.BinaryExpr:
		switch e.Op {
		case syntax.EQ: // an assignment
			e.X, e.Y = r.target(e.X), r.expr(e.Y)
			return e
		case syntax.AND, syntax.OR:
			r.branch(e.OpPos)
		}
		e.X, e.Y = r.expr(e.X), r.expr(e.Y)
		r.compared(e)
		if e.Op == syntax.PERCENT {
			return modulo(e.OpPos, e.X, e.Y)
		}
	case *syntax.CondExpr:
		r.branch(e.If)
		e.Cond, e.True, e.False = r.expr(e.Cond), r.expr(e.True), r.expr(e.False)
	case *syntax.DotExpr:
		e.X = r.expr(e.X)
		if id, ok := e.X.(*syntax.Ident); ok && (isType(id.Name) || registry[id.Name] != nil) {
			r.dots = append(r.dots, e)
		}
		switch {
		case e.Name.Name == formatMethod:
			return operator(e.Dot, markMethodName, e)
		case e.Name.Name == "__name__" && isTypeCall(e.X) && !r.bound["type"]:
			return operator(e.Dot, typeNameName, e.X)
		}
	case *syntax.IndexExpr:
		e.X, e.Y = r.expr(e.X), r.expr(e.Y)
	case *syntax.SliceExpr:
		e.X, e.Lo, e.Hi, e.Step = r.expr(e.X), r.expr(e.Lo), r.expr(e.Hi), r.expr(e.Step)
	case *syntax.CallExpr:
		e.Fn = r.expr(e.Fn)
		namedFirst(e.Args)
		r.args(e.Args)
		if len(e.Args) == 1 {
			if _, ok := e.Args[0].(*syntax.CallExpr); ok {
				r.lazy = append(r.lazy, e)
			}
		}
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

// namedFirst moves named arguments before *args, where Starlark wants them. Python
// allows them on both sides.
func namedFirst(args []syntax.Expr) {
	star := slices.IndexFunc(args, func(a syntax.Expr) bool {
		u, ok := a.(*syntax.UnaryExpr)
		return ok && u.Op == syntax.STAR
	})
	if star < 0 {
		return
	}
	slices.SortStableFunc(args[star:], func(a, b syntax.Expr) int {
		rank := func(e syntax.Expr) int {
			if b, ok := e.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
}

// args rewrites the arguments of a call, without the names before =.
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

// lambda rewrites lambda **kw: body as lambda **kw: [body for kw in [wrapped]][0], which needs no
// additional frame.
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

// operator returns (name | x); the value of name decides the result.
func operator(pos syntax.Position, name string, x syntax.Expr) syntax.Expr {
	return &syntax.BinaryExpr{X: ident(pos, name), OpPos: pos, Op: syntax.PIPE, Y: x}
}

// modulo rewrites x % y. A possible text x is marked for format.go. With a number on the right
// nothing is marked: x % 2 is common in loops.
func modulo(pos syntax.Position, x, y syntax.Expr) syntax.Expr {
	if number, ok := y.(*syntax.Literal); !ok || number.Token != syntax.INT || isText(x) {
		x = operator(pos, markModuloName, x)
	}
	return &syntax.BinaryExpr{X: x, OpPos: pos, Op: syntax.PERCENT, Y: y}
}

func isText(x syntax.Expr) bool {
	if p, ok := x.(*syntax.ParenExpr); ok {
		return isText(p.X)
	}
	text, ok := x.(*syntax.Literal)
	return ok && text.Token == syntax.STRING
}

// formatOperand marks the right operand of x.y %= ...
func formatOperand(pos syntax.Position, x syntax.Expr) syntax.Expr {
	return operator(pos, markFormatName, x)
}

func assign(pos syntax.Position, name string, x syntax.Expr) syntax.Stmt {
	return &syntax.AssignStmt{OpPos: pos, Op: syntax.EQ, LHS: ident(pos, name), RHS: x}
}

// hoist moves functions used before their definition to the first statement that mentions them, so
// a script may begin with main(). Only functions bound once move, and only if evaluating their
// defaults early changes nothing.
func hoist(stmts []syntax.Stmt) []syntax.Stmt {
	late := make(map[string]*syntax.DefStmt)
	code := false // an earlier statement is not a definition
	for _, s := range stmts {
		def, ok := s.(*syntax.DefStmt)
		if !ok {
			code = true
		} else if code && constantDefaults(def.Params) {
			late[def.Name.Name] = def
		}
	}
	if len(late) == 0 {
		return stmts
	}
	times := make(map[string]int)
	for _, id := range bindings(stmts, nil) {
		if times[id.Name]++; times[id.Name] > 1 {
			delete(late, id.Name)
		}
	}
	moved := make(map[syntax.Stmt]bool)
	var out []syntax.Stmt
	for _, s := range stmts {
		if moved[s] {
			continue
		}
		if def, ok := s.(*syntax.DefStmt); ok {
			delete(late, def.Name.Name)
		} else if len(late) > 0 {
			out = bring(s, late, moved, out)
		}
		out = append(out, s)
	}
	return out
}

// bring appends the late functions needed by a statement, directly or indirectly.
func bring(s syntax.Stmt, late map[string]*syntax.DefStmt, moved map[syntax.Stmt]bool, out []syntax.Stmt) []syntax.Stmt {
	used := make(mentions)
	used.block([]syntax.Stmt{s})
	var names []string
	for name := range used {
		if late[name] != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		def := late[name]
		if def == nil {
			continue
		}
		delete(late, name)
		moved[def] = true
		out = bring(def, late, moved, out)
		out = append(out, def)
	}
	return out
}

func constantDefaults(params []syntax.Expr) bool {
	for _, p := range params {
		b, ok := p.(*syntax.BinaryExpr)
		if !ok {
			continue
		}
		switch y := b.Y.(type) {
		case *syntax.Literal, *syntax.UnaryExpr:
		case *syntax.Ident:
			if y.Name != "None" && y.Name != "True" && y.Name != "False" {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// consumers are functions that use up their only argument, so a generator expression may as well be
// a list.
var consumers = map[string]bool{
	"bytes": true, "dict": true, "frozenset": true, "list": true, "max": true, "min": true,
	"set": true, "sorted": true, "sum": true, "tuple": true,
}

// consumingMethods are methods of the same kind.
var consumingMethods = map[string]bool{"extend": true, "join": true}

// unlazy turns generator expressions into lists where only the cost differs.
func (r *rewriter) unlazy() {
	for _, call := range r.lazy {
		switch fn := call.Fn.(type) {
		case *syntax.Ident:
			if !consumers[fn.Name] || r.bound[fn.Name] {
				continue
			}
		case *syntax.DotExpr:
			if !consumingMethods[fn.Name.Name] {
				continue
			}
		default:
			continue
		}
		if list := parse.ListOf(call.Args[0]); list != nil {
			call.Args[0] = list
		}
	}
}

// joined returns the replacement of adjacent string literals and f-strings: a
// literal, or (template | (value, ...)).
func (r *rewriter) joined(m *parse.Joined, placeholder *syntax.Literal) syntax.Expr {
	texts, values := r.pieces(m.Pieces)
	if len(values) == 0 {
		placeholder.Value = texts[0]
		if m.Bytes {
			placeholder.Token = syntax.BYTES
		}
		return placeholder
	}
	return r.fill(placeholder.TokenPos, texts, values)
}

// pieces divides pieces into the texts before, between and after the values.
func (r *rewriter) pieces(pieces []parse.Piece) (texts []string, values []syntax.Expr) {
	var text strings.Builder
	for _, p := range pieces {
		if p.Expr == nil {
			text.WriteString(p.Text)
			continue
		}
		texts = append(texts, text.String())
		text.Reset()
		values = append(values, r.field(p))
	}
	return append(texts, text.String()), values
}

func (r *rewriter) fill(pos syntax.Position, texts []string, values []syntax.Expr) syntax.Expr {
	name := r.value(&template{texts: texts})
	return operator(pos, name, &syntax.TupleExpr{Lparen: pos, List: values, Rparen: pos})
}

// field returns the value of a field: the expression, or (field | (expression,
// spec)).
func (r *rewriter) field(p parse.Piece) syntax.Expr {
	x := r.expr(p.Expr)
	if p.Conversion == 0 && !p.HasSpec {
		return x
	}
	f := &formatField{conversion: p.Conversion}
	texts, values := r.pieces(p.Spec)
	if len(values) == 0 {
		spec, err := parseSpec(texts[0])
		if err != nil {
			r.fail(p.Pos, "%v", err)
		}
		f.spec, f.known = spec, true
		return operator(p.Pos, r.value(f), x)
	}
	pair := []syntax.Expr{x, r.fill(p.Pos, texts, values)}
	return operator(p.Pos, r.value(f), &syntax.TupleExpr{Lparen: p.Pos, List: pair, Rparen: p.Pos})
}

// template makes (template | (value, ...)) the text with the values filled in.
type template struct {
	operandOnly
	texts []string // one more than values
}

func (t *template) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	var b strings.Builder
	b.WriteString(t.texts[0])
	for i, v := range y.(starlark.Tuple) {
		if instanceOf(v) == nil {
			b.WriteString(text(v))
		} else if out, err := (formatSpec{}).format(v); err == nil {
			b.WriteString(out)
		} else {
			return nil, err
		}
		b.WriteString(t.texts[i+1])
	}
	return starlark.String(b.String()), nil
}

// formatField makes (field | value), or (field | (value, spec)), the text of a
// value.
type formatField struct {
	operandOnly
	conversion byte
	spec       formatSpec
	known      bool // spec is set, and is not part of the operand
}

func (f *formatField) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	spec := f.spec
	if !f.known {
		pair := y.(starlark.Tuple)
		y = pair[0]
		var err error
		if spec, err = parseSpec(string(pair[1].(starlark.String))); err != nil {
			return nil, err
		}
	}
	out, err := spec.format(convert(y, f.conversion))
	return starlark.String(out), err
}

// convert implements !r, !s and !a.
func convert(v starlark.Value, conversion byte) starlark.Value {
	switch conversion {
	case 'r', 'a':
		return starlark.String(repr(v))
	case 's':
		return starlark.String(text(v))
	}
	return v
}
