package interp

import "go.starlark.net/syntax"

// sharedNames returns the variables of a function that must be shared with the parts
// of its try statements, in the order in which they are bound. It includes
// parameters if a part assigns to them.
func sharedNames(params []syntax.Expr, body []syntax.Stmt) []string {
	u := usage{total: make(mentions), shared: make(map[string]bool)}
	tries := false
	eachTry(body, false, func(*tryStmt, bool) { tries = true })
	if !tries {
		return nil
	}
	u.total.params(params)
	u.total.block(body)
	u.decide(body, false)
	var names []string
	for _, id := range bindings(body, paramNames(params)) {
		if u.shared[id.Name] {
			names = append(names, id.Name)
			delete(u.shared, id.Name)
		}
	}
	return names
}

// usage counts where the variables of one function are mentioned and bound.
type usage struct {
	total  mentions
	shared map[string]bool
}

// decide checks the parts of try statements. A name that a part binds is shared,
// unless it is mentioned nowhere else and the part runs only once in a call of the
// function. (If a part inside this one binds the name too, the name is shared
// because of that part.)
func (u *usage) decide(stmts []syntax.Stmt, inLoop bool) {
	eachTry(stmts, inLoop, func(s *tryStmt, inLoop bool) {
		for _, c := range s.clauses {
			if c.as != nil {
				u.shared[c.as.Name] = true
			}
		}
		for _, part := range s.parts() {
			here := make(mentions)
			here.block(part)
			for _, id := range bindingsIn(part, nil, false) {
				if inLoop || here[id.Name] != u.total[id.Name] {
					u.shared[id.Name] = true
				}
			}
			u.decide(part, inLoop)
		}
	})
}

// parts returns the blocks that become functions.
func (s *tryStmt) parts() [][]syntax.Stmt {
	parts := [][]syntax.Stmt{s.True}
	for _, c := range s.clauses {
		parts = append(parts, c.body)
	}
	return append(parts, s.orElse, s.finally)
}

// eachTry calls f with the outermost try statements of some code of a function, and
// whether they are in a loop.
func eachTry(stmts []syntax.Stmt, inLoop bool, f func(s *tryStmt, inLoop bool)) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *tryStmt:
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

// mentions counts how often each name occurs in some code, whatever it means there.
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
		case *tryStmt:
			for _, c := range s.clauses {
				if c.as != nil {
					m[c.as.Name]++
				}
			}
			for _, part := range s.parts() {
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
