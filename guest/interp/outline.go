package interp

import (
	"math"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"go.starlark.net/syntax"
)

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
