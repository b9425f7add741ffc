package interp

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/syntax"
)

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
