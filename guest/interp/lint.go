package interp

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
)

const (
	maxWarnings   = 100
	maxNamedTools = 1000
)

// Lint finds unused variables and functions, unreachable code, names that hide built-in names, and
// calls of unknown servers; servers are the script names of all servers. The result also has the
// names and bindings of the code, and whether the code is complete: see abi.Lint.
func Lint(code string, servers []string) abi.Lint { return lint(newSource("", code), servers) }

func lint(src *source, servers []string) abi.Lint {
	out := abi.Lint{Warnings: []abi.Warning{}, Calls: []abi.NamedTool{}, Bound: []abi.Binding{}}
	file, failure := src.parse()
	if failure != nil {
		out.Open = src.more || src.incomplete(failure)
		return out
	}
	out.Parses = true
	src.outline(&out, file)
	// A tree accepted by the rewriter is not nested too deep.
	rw := newRewriter(file, predeclared(servers))
	if rw.file(file.File); rw.err != nil {
		return out
	}
	out.Reach, out.Derived = rw.reach(file.File)
	if file, failure = src.parse(); failure != nil {
		return out
	}
	l := linter{src: src, env: predeclared(servers), parsed: file, out: &out, named: make(map[syntax.Expr]bool)}
	l.function(nil, file.Stmts)
	l.bound(file.Stmts)
	l.result(file.Stmts)
	slices.SortStableFunc(out.Warnings, func(a, b abi.Warning) int {
		if a.Position.Line != b.Position.Line {
			return a.Position.Line - b.Position.Line
		}
		return a.Position.Column - b.Position.Column
	})
	out.Warnings = out.Warnings[:min(len(out.Warnings), maxWarnings)]
	return out
}

// lintResult is the result of abi.OpLint.
func lintResult(src *source, servers []string) ([]byte, *abi.Error) {
	result, err := json.Marshal(lint(src, servers))
	if err != nil {
		return nil, &abi.Error{Type: abi.ErrInternal, Message: "lint: " + err.Error()}
	}
	return result, nil
}

type linter struct {
	src    *source
	env    starlark.StringDict
	parsed *parse.File
	scope  *lintScope
	out    *abi.Lint
	named  map[syntax.Expr]bool // tools already in out
}

// A lintScope has the names bound by a function or comprehension.
type lintScope struct {
	outer *lintScope
	names map[string]*lintVar
}

type lintVar struct {
	id     *syntax.Ident
	unused string // the format of the warning for an unused name; "" for none
	used   bool
}

func (l *linter) warn(pos syntax.Position, format string, args ...any) {
	if at := l.src.position(pos); at != nil {
		l.out.Warnings = append(l.out.Warnings, abi.Warning{Position: *at, Message: fmt.Sprintf(format, args...)})
	}
}

// bind adds a name to the innermost scope.
func (l *linter) bind(id *syntax.Ident, unused string) {
	if _, known := l.scope.names[id.Name]; known {
		return
	}
	if isHidden(id.Name) {
		unused = ""
	}
	l.scope.names[id.Name] = &lintVar{id: id, unused: unused}
	if slices.ContainsFunc(l.parsed.Imports, func(im *parse.Import) bool { return im.As == id }) {
		return
	}
	v, ok := meaning(l.env, id.Name)
	if !ok {
		v, ok = starlark.Universe[id.Name]
	}
	if !ok {
		return
	}
	switch v.(type) {
	case server:
		l.warn(id.NamePos, "%s hides the server of that name", id.Name)
	default:
		l.warn(id.NamePos, "%s hides the built-in of that name", id.Name)
	}
}

// function checks a function, which has a separate scope.
func (l *linter) function(params []syntax.Expr, body []syntax.Stmt) {
	l.scope = &lintScope{outer: l.scope, names: make(map[string]*lintVar)}
	for _, id := range paramNames(params) {
		l.bind(id, "")
	}
	l.bindings(body)
	l.block(body)
	l.leave()
}

func (l *linter) leave() {
	for _, v := range l.scope.names {
		if !v.used && v.unused != "" && !strings.HasPrefix(v.id.Name, "_") {
			l.warn(v.id.NamePos, v.unused, v.id.Name)
		}
	}
	l.scope = l.scope.outer
}

// bindings adds the names bound by statements to the scope of their function.
func (l *linter) bindings(stmts []syntax.Stmt) {
	// Loop variables, names of errors and elements of tuples may be unused.
	unused := make(map[*syntax.Ident]string)
	eachStmt(stmts, func(s syntax.Stmt) {
		switch s := s.(type) {
		case *syntax.AssignStmt:
			if id, ok := s.LHS.(*syntax.Ident); ok {
				unused[id] = "%s is assigned but never used"
			}
		case *syntax.DefStmt:
			unused[s.Name] = "function %s is never used"
		}
	})
	for _, im := range l.parsed.Imports {
		unused[im.As] = "import %s is never used"
		if mayBeUnused[im.Module] || l.parsed.Annotated[im.As.Name] {
			unused[im.As] = ""
		}
	}
	for _, id := range bindings(stmts, nil) {
		l.bind(id, unused[id])
	}
}

// eachStmt calls f with every statement of a function.
func eachStmt(stmts []syntax.Stmt, f func(syntax.Stmt)) {
	for _, s := range stmts {
		f(s)
		switch s := s.(type) {
		case *syntax.ForStmt:
			eachStmt(s.Body, f)
		case *syntax.WhileStmt:
			eachStmt(s.Body, f)
		case *parse.Try:
			for _, part := range s.Parts() {
				eachStmt(part, f)
			}
		case *syntax.IfStmt:
			for {
				eachStmt(s.True, f)
				next := elif(s)
				if next == nil {
					eachStmt(s.False, f)
					break
				}
				s = next
			}
		}
	}
}

// block checks statements, and reports whether the code after them is reachable.
func (l *linter) block(stmts []syntax.Stmt) (reachable bool) {
	reachable = true
	warned := false
	for _, s := range stmts {
		if !reachable && !warned {
			l.warn(syntax.Start(s), "this is never reached")
			warned = true
		}
		if !l.stmt(s) {
			reachable = false
		}
	}
	return reachable
}

// stmt checks a statement, and reports whether the next statement is reachable.
func (l *linter) stmt(s syntax.Stmt) bool {
	switch s := s.(type) {
	case *syntax.ExprStmt:
		l.expr(s.X)
		call, ok := s.X.(*syntax.CallExpr)
		if !ok {
			return true
		}
		fn, ok := call.Fn.(*syntax.Ident)
		return !ok || fn.Name != raiseName && (fn.Name != "fail" || l.find("fail") != nil)
	case *syntax.AssignStmt:
		l.expr(s.RHS)
		l.target(s.LHS)
	case *syntax.ReturnStmt:
		l.expr(s.Result)
		return false
	case *syntax.BranchStmt:
		return s.Token == syntax.PASS
	case *syntax.ForStmt:
		l.expr(s.X)
		l.target(s.Vars)
		l.block(s.Body)
	case *syntax.WhileStmt:
		l.expr(s.Cond)
		l.block(s.Body)
	case *syntax.DefStmt:
		l.params(s.Params)
		l.function(s.Params, s.Body)
	case *parse.Try:
		return l.try(s)
	case *syntax.IfStmt:
		reachable := false
		for {
			l.expr(s.Cond)
			reachable = l.block(s.True) || reachable
			next := elif(s)
			if next == nil {
				return l.block(s.False) || reachable
			}
			s = next
		}
	}
	return true
}

func (l *linter) try(s *parse.Try) bool {
	reachable := l.block(s.True)
	if reachable {
		reachable = l.block(s.OrElse)
	} else if len(s.OrElse) > 0 {
		l.warn(syntax.Start(s.OrElse[0]), "this is never reached")
	}
	for _, c := range s.Clauses {
		reachable = l.block(c.Body) || reachable
	}
	return l.block(s.Finally) && reachable
}

// target checks the target of an assignment, which does not use the assigned names.
func (l *linter) target(e syntax.Expr) {
	parse.EachTarget(e, func(e syntax.Expr) {
		if _, ok := e.(*syntax.Ident); !ok {
			l.expr(e)
		}
	})
}

// params checks the defaults of parameters.
func (l *linter) params(params []syntax.Expr) {
	for _, p := range params {
		if p, ok := p.(*syntax.BinaryExpr); ok {
			l.expr(p.Y)
		}
	}
}

func (l *linter) find(name string) *lintVar {
	for s := l.scope; s != nil; s = s.outer {
		if v := s.names[name]; v != nil {
			return v
		}
	}
	return nil
}

// use marks a variable as used, and reports whether the variable exists.
func (l *linter) use(name string) bool {
	if v := l.find(name); v != nil {
		v.used = true
		return true
	}
	return l.known(name)
}

// known reports whether a name has a meaning without the script.
func (l *linter) known(name string) bool {
	_, ok := meaning(l.env, name)
	return ok || starlark.Universe.Has(name) || registry[name] != nil
}

// expr checks an expression; nil is allowed.
func (l *linter) expr(e syntax.Expr) {
	switch e := e.(type) {
	case *syntax.Ident:
		l.use(e.Name)
	case *syntax.Literal:
		if m := l.parsed.Strings[e]; m != nil {
			l.pieces(m.Pieces)
		}
	case *syntax.CallExpr:
		l.param(e)
		l.call(e)
	case *syntax.DotExpr, *syntax.IndexExpr:
		l.param(e)
		l.tool(e, nil, false)
		for _, x := range operands(e) {
			l.expr(x)
		}
	case *syntax.LambdaExpr:
		l.params(e.Params)
		l.scope = &lintScope{outer: l.scope, names: make(map[string]*lintVar)}
		for _, id := range paramNames(e.Params) {
			l.bind(id, "")
		}
		l.expr(e.Body)
		l.leave()
	case *syntax.Comprehension:
		l.comprehension(e)
	default:
		for _, x := range operands(e) {
			l.expr(x)
		}
	}
}

func (l *linter) pieces(pieces []parse.Piece) {
	for _, p := range pieces {
		l.expr(p.Expr)
		l.pieces(p.Spec)
	}
}

// call checks a call, and the existence of the server.
func (l *linter) call(e *syntax.CallExpr) {
	if id := calledOn(e.Fn); id != nil && !l.use(id.Name) {
		var servers []string
		for name, v := range l.env {
			if _, ok := v.(server); ok {
				servers = append(servers, name)
			}
		}
		slices.Sort(servers)
		hint := knownServers(l.env)
		if n := nearest(id.Name, servers); n != "" {
			hint = fmt.Sprintf(" (did you mean %s?)", n)
		}
		l.warn(id.NamePos, "no server is called %s%s", id.Name, hint)
	}
	l.toolCall(e)
	l.expr(e.Fn)
	for _, a := range e.Args {
		switch a := a.(type) {
		case *syntax.BinaryExpr:
			if a.Op == syntax.EQ {
				l.expr(a.Y)
				continue
			}
			l.expr(a)
		default:
			l.expr(a)
		}
	}
}

// calledOn returns the server's name in a call of a tool: x in x.tool and x["tool"].
func calledOn(fn syntax.Expr) *syntax.Ident {
	var x syntax.Expr
	switch fn := fn.(type) {
	case *syntax.DotExpr:
		x = fn.X
	case *syntax.IndexExpr:
		x = fn.X
	}
	id, _ := x.(*syntax.Ident)
	return id
}

func (l *linter) comprehension(e *syntax.Comprehension) {
	if first, ok := e.Clauses[0].(*syntax.ForClause); ok {
		l.expr(first.X)
	}
	l.scope = &lintScope{outer: l.scope, names: make(map[string]*lintVar)}
	for i, c := range e.Clauses {
		switch c := c.(type) {
		case *syntax.ForClause:
			for _, id := range parse.TargetNames(c.Vars, nil) {
				l.bind(id, "")
			}
			if i > 0 {
				l.expr(c.X)
			}
		case *syntax.IfClause:
			l.expr(c.Cond)
		}
	}
	l.expr(e.Body)
	l.leave()
}

// operands returns the direct operands of an expression without bindings.
func operands(e syntax.Expr) []syntax.Expr {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		return []syntax.Expr{e.X}
	case *syntax.UnaryExpr:
		return []syntax.Expr{e.X}
	case *syntax.BinaryExpr:
		return []syntax.Expr{e.X, e.Y}
	case *syntax.CondExpr:
		return []syntax.Expr{e.Cond, e.True, e.False}
	case *syntax.DotExpr:
		return []syntax.Expr{e.X}
	case *syntax.IndexExpr:
		return []syntax.Expr{e.X, e.Y}
	case *syntax.SliceExpr:
		return []syntax.Expr{e.X, e.Lo, e.Hi, e.Step}
	case *syntax.ListExpr:
		return e.List
	case *syntax.TupleExpr:
		return e.List
	case *syntax.DictExpr:
		return e.List
	case *syntax.DictEntry:
		return []syntax.Expr{e.Key, e.Value}
	}
	return nil
}

// elif returns the following elif branch, if any. In the tree, an else with only an if inside
// differs from an elif only in position.
func elif(stmt *syntax.IfStmt) *syntax.IfStmt {
	if len(stmt.False) != 1 {
		return nil
	}
	next, ok := stmt.False[0].(*syntax.IfStmt)
	if !ok || next.If != stmt.ElsePos {
		return nil
	}
	return next
}

// mayBeUnused are modules imported for annotations only.
var mayBeUnused = map[string]bool{"__future__": true, "typing": true, "collections.abc": true}

// result warns about a script with the result None although a result is computed: the last line
// assigns the result, or the script only defines functions.
func (l *linter) result(stmts []syntax.Stmt) {
	returns, runs := false, false
	eachStmt(stmts, func(s syntax.Stmt) {
		ret, ok := s.(*syntax.ReturnStmt)
		returns = returns || ok && ret.Result != nil
	})
	imported := make(map[*syntax.Ident]bool)
	for _, im := range l.parsed.Imports {
		imported[im.As] = true
	}
	var def *syntax.DefStmt
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.DefStmt:
			if !isHidden(s.Name.Name) {
				def = s
			}
			continue
		case *syntax.AssignStmt:
			if id, ok := s.LHS.(*syntax.Ident); ok && imported[id] {
				continue
			}
		}
		runs = true
	}
	if returns || len(stmts) == 0 {
		return
	}
	last, ok := stmts[len(stmts)-1].(*syntax.AssignStmt)
	if id, isName := lhs(last, ok); isName && last.Op == syntax.EQ && !isHidden(id.Name) && id.Name[0] != '_' && !imported[id] && runs {
		l.instead(id.NamePos, "the result of the script is None: end with return %s", id.Name)
	}
	if !runs && def != nil {
		l.instead(def.Name.NamePos, "the script only defines functions, so its result is None: end with return %s(...)", def.Name.Name)
	}
}

// instead is warn in place of other warnings about the position.
func (l *linter) instead(pos syntax.Position, format string, args ...any) {
	l.out.Warnings = slices.DeleteFunc(l.out.Warnings, func(w abi.Warning) bool {
		return w.Position.Line == int(pos.Line) && w.Position.Column == int(pos.Col)
	})
	l.warn(pos, format, args...)
}

func lhs(s *syntax.AssignStmt, ok bool) (*syntax.Ident, bool) {
	if !ok {
		return nil, false
	}
	id, isName := s.LHS.(*syntax.Ident)
	return id, isName
}

// incomplete reports whether code with the given syntax error could become valid with more lines.
func (s *source) incomplete(failure *abi.Error) bool {
	tokens := lexAround(parse.Portion{Code: s.code, Line: 1, Col: 1}, math.MaxInt, 0, 64)
	at, end := failure.Position, tokens[len(tokens)-1]
	if at == nil || at.Line == end.line && at.Column == end.col {
		return at != nil
	}
	last := len(tokens) - 2
	for last > 0 && tokens[last].kind == newlineToken {
		last--
	}
	if last < 0 {
		return false
	}
	t := tokens[last]
	after := at.Line > t.line || at.Line == t.line && at.Column > t.col
	return t.is(":") && after || t.kind == stringToken && unclosedLong(t.text)
}

// unclosedLong reports whether a literal over several lines has no end.
func unclosedLong(literal string) bool {
	literal = strings.TrimLeft(literal, "bBfFrR")
	for _, quotes := range []string{`"""`, `'''`} {
		if strings.HasPrefix(literal, quotes) {
			return len(literal) < 2*len(quotes) || !strings.HasSuffix(literal, quotes)
		}
	}
	return false
}

// outline records the kind of the last statement. The tree comes from the parser: placeholders of
// try statements are statements with blocks, and placeholders of raise are not expressions.
func (s *source) outline(out *abi.Lint, file *parse.File) {
	if len(file.Stmts) == 0 {
		return
	}
	if file.InBlock {
		out.Block = true
		return
	}
	switch last := file.Stmts[len(file.Stmts)-1].(type) {
	case *syntax.ExprStmt:
		if call, ok := last.X.(*syntax.CallExpr); ok {
			if id, ok := call.Fn.(*syntax.Ident); ok && id.Name == parse.Raise {
				return
			}
		}
		out.Value = s.position(startOf(last.X))
	case *syntax.IfStmt, *syntax.ForStmt, *syntax.WhileStmt, *syntax.DefStmt, *parse.Try:
		out.Block = true
	}
}

// isHidden reports whether no script can use a name.
func isHidden(name string) bool { return strings.HasPrefix(name, parse.Hidden) }

// startOf returns the position at which an expression starts.
func startOf(e syntax.Expr) syntax.Position {
	for {
		switch x := e.(type) {
		case *syntax.BinaryExpr:
			e = x.X
		case *syntax.DotExpr:
			e = x.X
		case *syntax.CallExpr:
			e = x.Fn
		case *syntax.IndexExpr:
			e = x.X
		case *syntax.SliceExpr:
			e = x.X
		case *syntax.CondExpr:
			e = x.True
		case *syntax.TupleExpr:
			if x.Lparen.IsValid() || len(x.List) == 0 {
				return x.Lparen
			}
			e = x.List[0]
		default:
			start, _ := e.Span()
			return start
		}
	}
}

// bound records the variables of a script.
func (l *linter) bound(stmts []syntax.Stmt) {
	times := make(map[string]int)
	for _, id := range bindings(stmts, nil) {
		if isHidden(id.Name) {
			continue
		}
		if times[id.Name]++; times[id.Name] == 1 {
			l.out.Bound = append(l.out.Bound, abi.Binding{Name: id.Name})
		}
	}
	first, last := make(map[string]int), make(map[string]int)
	for i, s := range stmts {
		name := l.defines(s)
		start, end := s.Span()
		if name == "" || times[name] > 1 || start.Col != 1 {
			continue
		}
		if i+1 < len(stmts) {
			if next, _ := stmts[i+1].Span(); next.Line <= end.Line {
				continue
			}
		}
		first[name], last[name] = int(start.Line), int(end.Line)
	}
	for i, b := range l.out.Bound {
		l.out.Bound[i].First, l.out.Bound[i].Last = first[b.Name], last[b.Name]
	}
}

// defines returns the name of the function defined by a statement without calls and other bindings;
// otherwise "".
func (l *linter) defines(s syntax.Stmt) string {
	switch s := s.(type) {
	case *syntax.DefStmt:
		if !l.defaultsCall(s.Params) {
			return s.Name.Name
		}
	case *syntax.AssignStmt:
		id, ok := s.LHS.(*syntax.Ident)
		fn, isLambda := unparen(s.RHS).(*syntax.LambdaExpr)
		if ok && isLambda && s.Op == syntax.EQ && !l.defaultsCall(fn.Params) {
			return id.Name
		}
	}
	return ""
}

func (l *linter) defaultsCall(params []syntax.Expr) bool {
	for _, p := range params {
		if p, ok := p.(*syntax.BinaryExpr); ok && !l.plain(p.Y) {
			return true
		}
	}
	return false
}

// plain reports whether an expression calls nothing.
func (l *linter) plain(e syntax.Expr) bool {
	switch e := e.(type) {
	case *syntax.Literal:
		return l.parsed.Strings[e] == nil
	case *syntax.CallExpr, *syntax.Comprehension:
		return false
	}
	for _, x := range operands(e) {
		if x != nil && !l.plain(x) {
			return false
		}
	}
	return true
}
