package interp

import (
	"fmt"

	"go.starlark.net/syntax"
)

// A tryStmt is a try statement in the tree. shape.go makes it from placeholders, and
// try.go replaces it by calls.
type tryStmt struct {
	*syntax.IfStmt // the placeholder of try: its position, and the body as True
	clauses        []*exceptClause
	orElse         []syntax.Stmt
	finally        []syntax.Stmt
}

type exceptClause struct {
	pos     syntax.Position
	classes classSet
	as      *syntax.Ident // nil if the error has no name
	body    []syntax.Stmt
}

// maxTries limits how deep try statements may be nested. The cost of a variable that
// is used in the innermost one grows with the depth.
const maxTries = 50

// A shaper turns placeholders into statements. Its recursion is limited, because the
// parser limits the nesting of blocks and chains of elif are handled in a loop.
type shaper struct {
	marks marks
	depth int
	err   *syntax.Error
}

func (s *shaper) fail(pos syntax.Position, format string, args ...any) {
	if s.err == nil {
		s.err = &syntax.Error{Pos: pos, Msg: fmt.Sprintf(format, args...)}
	}
}

func (s *shaper) block(stmts []syntax.Stmt) []syntax.Stmt {
	out := stmts[:0]
	for i := 0; i < len(stmts) && s.err == nil; i++ {
		switch stmt := stmts[i].(type) {
		case *syntax.IfStmt:
			if s.marks.find(stmt.If, tryMark) == nil {
				s.ifChain(stmt)
				out = append(out, stmt)
				continue
			}
			try := s.try(stmt)
			if i+1 < len(stmts) && s.finally(try, stmts[i+1]) {
				i++
			}
			if len(try.clauses) == 0 && try.finally == nil {
				s.fail(stmt.If, "try needs an except or a finally at the same indentation")
			}
			out = append(out, try)
		case *syntax.ForStmt:
			stmt.Body = s.block(stmt.Body)
			out = append(out, stmt)
		case *syntax.WhileStmt:
			stmt.Body = s.block(stmt.Body)
			out = append(out, stmt)
		case *syntax.DefStmt:
			stmt.Body = s.block(stmt.Body)
			out = append(out, stmt)
		case *syntax.AssignStmt:
			out = append(out, s.raise(stmt))
		case *syntax.BranchStmt:
			if s.marks.find(stmt.TokenPos, bareRaiseMark) != nil {
				out = append(out, raiseCall(stmt.TokenPos))
				continue
			}
			out = append(out, stmt)
		default:
			out = append(out, stmt)
		}
	}
	return out
}

// ifChain handles an if statement with its elif branches.
func (s *shaper) ifChain(stmt *syntax.IfStmt) {
	for {
		switch found := s.marks.find(stmt.If, exceptMark, finallyMark); {
		case found == nil:
		case found.kind == exceptMark:
			s.fail(stmt.If, "except without a try at the same indentation")
		default:
			s.fail(stmt.If, "finally without a try at the same indentation")
		}
		stmt.True = s.block(stmt.True)
		next := elif(stmt)
		if next == nil || s.err != nil {
			stmt.False = s.block(stmt.False)
			return
		}
		stmt = next
	}
}

// elif returns the elif branch that follows, if there is one. In the tree, only its
// position distinguishes it from an else with an if in it.
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

// try turns a placeholder into a try statement without its finally.
func (s *shaper) try(stmt *syntax.IfStmt) *tryStmt {
	s.depth++
	defer func() { s.depth-- }()
	if s.depth > maxTries {
		s.fail(stmt.If, "try statements are nested more than %d deep (use functions)", maxTries)
	}
	try := &tryStmt{IfStmt: stmt}
	stmt.True = s.block(stmt.True)
	last := stmt
	for next := elif(last); next != nil && s.err == nil; next = elif(last) {
		found := s.marks.find(next.If, exceptMark)
		if found == nil {
			s.fail(next.If, "elif in a try statement: want except, else or finally")
			return try
		}
		if n := len(try.clauses); n > 0 && try.clauses[n-1].classes == anyClass {
			s.fail(try.clauses[n-1].pos, "an except without a class must be the last")
		}
		try.clauses = append(try.clauses, s.clause(next, found))
		last = next
	}
	if last.ElsePos.IsValid() && s.err == nil {
		if len(try.clauses) == 0 {
			s.fail(last.ElsePos, "else in a try statement without except")
		}
		try.orElse = s.block(last.False)
	}
	stmt.False = nil
	return try
}

// clause turns the placeholder of except into a clause.
func (s *shaper) clause(stmt *syntax.IfStmt, found *mark) *exceptClause {
	c := &exceptClause{pos: stmt.If, classes: anyClass}
	class := stmt.Cond
	if found.as != (place{}) {
		binary, ok := class.(*syntax.BinaryExpr)
		if ok && placeOf(binary.OpPos) == found.as {
			class = binary.X
			c.as, ok = binary.Y.(*syntax.Ident)
		}
		if !ok {
			s.fail(stmt.If, "write except Error as e:")
			return c
		}
	}
	if literal, ok := class.(*syntax.Literal); !ok || literal.TokenPos.Col != stmt.If.Col+int32(len("elif ")) {
		c.classes = s.classes(class)
	}
	c.body = s.block(stmt.True)
	return c
}

// classes returns the classes that an except clause names.
func (s *shaper) classes(e syntax.Expr) classSet {
	switch e := e.(type) {
	case *syntax.Ident:
		if c, ok := classNamed(e.Name); ok {
			return c
		}
		s.fail(e.NamePos, "%s is not an error class here: there are Error (every error that can be caught) and ToolError (failed tool calls); distinguish others by e.type and e.message", e.Name)
	case *syntax.ParenExpr:
		if tuple, ok := e.X.(*syntax.TupleExpr); ok {
			return s.classes(tuple)
		}
		return s.classes(e.X)
	case *syntax.TupleExpr:
		var all classSet
		for _, x := range e.List {
			if _, nested := x.(*syntax.Ident); !nested {
				s.fail(firstPos(x), "except takes Error, ToolError, or a tuple of them")
				break
			}
			all |= s.classes(x)
		}
		return all
	default:
		s.fail(firstPos(e), "except takes Error, ToolError, or a tuple of them")
	}
	return 0
}

// finally turns the statement after a try statement into its finally part.
func (s *shaper) finally(try *tryStmt, next syntax.Stmt) bool {
	stmt, ok := next.(*syntax.IfStmt)
	if !ok || s.marks.find(stmt.If, finallyMark) == nil {
		return false
	}
	if stmt.ElsePos.IsValid() {
		s.fail(stmt.ElsePos, "finally must be the last part of a try statement")
	}
	s.depth++
	try.finally = s.block(stmt.True)
	s.depth--
	return true
}

// raise turns the placeholder of a raise statement into a call.
func (s *shaper) raise(stmt *syntax.AssignStmt) syntax.Stmt {
	id, ok := stmt.LHS.(*syntax.Ident)
	if !ok {
		return stmt
	}
	found := s.marks.find(id.NamePos, raiseMark)
	if found == nil {
		return stmt
	}
	if !found.from {
		return raiseCall(id.NamePos, stmt.RHS)
	}
	tuple, ok := stmt.RHS.(*syntax.TupleExpr)
	if !ok || len(tuple.List) != 2 {
		s.fail(id.NamePos, "write raise Error(\"message\") from e")
		return stmt
	}
	return raiseCall(id.NamePos, tuple.List...)
}

func raiseCall(pos syntax.Position, args ...syntax.Expr) syntax.Stmt {
	return &syntax.ExprStmt{X: &syntax.CallExpr{Fn: ident(pos, raiseName), Lparen: pos, Args: args, Rparen: pos}}
}
