package interp

import (
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"go.starlark.net/syntax"
)

// sharedNames returns the variables of a function to be shared with the parts of try statements, in
// the order of their bindings. Parameters are included if a part assigns to them.
func sharedNames(params []syntax.Expr, body []syntax.Stmt, walrus bool) []string {
	u := usage{total: make(mentions), shared: make(map[string]bool), walrus: walrus}
	tries := false
	eachTry(body, false, func(*parse.Try, bool) { tries = true })
	if !tries {
		return nil
	}
	u.total.params(params)
	u.total.block(body)
	u.decide(body, false)
	var names []string
	all := bindings(body, paramNames(params))
	if walrus {
		all = walrusNames(body, all)
	}
	for _, id := range all {
		if u.shared[id.Name] {
			names = append(names, id.Name)
			delete(u.shared, id.Name)
		}
	}
	return names
}

// usage counts where the variables of a function are mentioned and bound.
type usage struct {
	total  mentions
	shared map[string]bool
	walrus bool // expressions contain assignments
}

// decide checks the parts of try statements. A name bound by a part is shared, unless the name is
// mentioned nowhere else and the part runs only once in a call of the function. (If an inner part
// binds the name too, the name is shared because of the inner part.)
func (u *usage) decide(stmts []syntax.Stmt, inLoop bool) {
	eachTry(stmts, inLoop, func(s *parse.Try, inLoop bool) {
		for _, c := range s.Clauses {
			if c.As != nil {
				u.shared[c.As.Name] = true
			}
		}
		for _, part := range s.Parts() {
			here := make(mentions)
			here.block(part)
			bound := parse.Bindings(part, nil, false)
			if u.walrus {
				bound = walrusNames(part, bound)
			}
			for _, id := range bound {
				if inLoop || here[id.Name] != u.total[id.Name] {
					u.shared[id.Name] = true
				}
			}
			u.decide(part, inLoop)
		}
	})
}

// eachTry calls f with the outermost try statements of some code of a function, and
// whether they are in a loop.
func eachTry(stmts []syntax.Stmt, inLoop bool, f func(s *parse.Try, inLoop bool)) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *parse.Try:
			f(s, inLoop)
		case *syntax.IfStmt:
			eachTry(s.True, inLoop, f)
			eachTry(s.False, inLoop, f)
		case *syntax.ForStmt:
			eachTry(s.Body, true, f)
		case *syntax.WhileStmt:
			eachTry(s.Body, true, f)
		}
	}
}

// mentions counts how often each name occurs in some code, whatever the name means there.
type mentions map[string]int

func (m mentions) block(stmts []syntax.Stmt) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.ExprStmt:
			m.expr(s.X)
		case *syntax.AssignStmt:
			m.expr(s.LHS)
			m.expr(s.RHS)
		case *syntax.ReturnStmt:
			m.expr(s.Result)
		case *syntax.IfStmt:
			m.expr(s.Cond)
			m.block(s.True)
			m.block(s.False)
		case *syntax.ForStmt:
			m.expr(s.Vars)
			m.expr(s.X)
			m.block(s.Body)
		case *syntax.WhileStmt:
			m.expr(s.Cond)
			m.block(s.Body)
		case *syntax.DefStmt:
			m[s.Name.Name]++
			m.params(s.Params)
			m.block(s.Body)
		case *parse.Try:
			for _, c := range s.Clauses {
				if c.As != nil {
					m[c.As.Name]++
				}
			}
			for _, part := range s.Parts() {
				m.block(part)
			}
		}
	}
}

func (m mentions) params(params []syntax.Expr) {
	for _, p := range params {
		if u, ok := p.(*syntax.UnaryExpr); ok {
			p = u.X // nil after a bare *
		}
		m.expr(p)
	}
}

func (m mentions) expr(e syntax.Expr) {
	if e == nil {
		return
	}
	syntax.Walk(e, func(n syntax.Node) bool {
		if id, ok := n.(*syntax.Ident); ok {
			m[id.Name]++
		}
		return true
	})
}
