package interp

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"go.starlark.net/syntax"
)

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
