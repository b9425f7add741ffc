package interp

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
)

const (
	// maxReached limits the tools in abi.Lint.Reach. Beyond the limit, Reach has whole servers.
	maxReached = 1000
	// maxKnownTexts limits the known texts of a variable, and maxJoined the length in bytes of a
	// joined text: x + x doubles the length in every line.
	maxKnownTexts, maxJoined = 100, 1000
	// maxFlows limits how often the tree is read until nothing new is found. A variable with new
	// texts after lateFlows can have any text.
	maxFlows, lateFlows = 20, 5
)

// reach returns every tool that a rewritten script can call, and whether the result is known: it is
// unknown if the tree does not resolve, and then the script does not run either.
//
// A value of a server comes into a program in one way only: an identifier found to be predeclared
// by the resolver, in the very tree that is compiled. So the uses of these identifiers are enough.
// server.tool and server["tool"] are the tool. A variable with an assigned server is treated like
// the server. Everything else (an argument, an element of a list, a result, an attribute, an
// operand) is not followed: the code that gets the value can call every tool of the server.
//
// The order of statements does not count: a variable has all values ever assigned. So the tree is
// read until no variable has a new value.
func (r *rewriter) reach(file *syntax.File) ([]abi.Reached, bool) {
	isPredeclared := func(name string) bool {
		_, ok := meaning(r.env, name)
		return ok
	}
	if resolve.File(file, isPredeclared, starlark.Universe.Has) != nil {
		return nil, false
	}
	walk := &reacher{env: r.env, vars: make(map[*syntax.Ident]*variable)}
	for n := 0; ; n++ {
		walk.found, walk.changed, walk.late = make(map[reached]syntax.Position), false, n >= lateFlows
		walk.stmts(file.Stmts)
		if !walk.changed {
			break
		}
		if n == maxFlows {
			walk.everything()
			break
		}
	}
	return walk.list(r.parsed.Path), true
}

// reached is a tool, or with no name every tool of a server.
type reached struct {
	server, tool string
	exact        bool
}

// A reacher reads a tree. Methods with the name of a node read the node; a value of a server may be
// a part of the node.
type reacher struct {
	env     starlark.StringDict
	vars    map[*syntax.Ident]*variable // by the first binding identifier
	found   map[reached]syntax.Position
	changed bool // a variable has a new value
	late    bool
}

// A variable has the relevant assigned values.
type variable struct {
	servers []string
	texts   []string // if !any
	any     bool     // the variable has values other than texts
}

// known is the knowledge about the value of an expression: the value may be any of these servers,
// and is among these texts if any is not set.
type known variable

var unknown = known{any: true}

// list returns the result, in order.
func (r *reacher) list(path string) []abi.Reached {
	if len(r.found) > maxReached {
		for t, pos := range r.found {
			r.whole(t.server, pos)
		}
	}
	out := make([]abi.Reached, 0, len(r.found))
	for t, pos := range r.found {
		if _, all := r.found[reached{server: t.server}]; all && t.tool != "" {
			continue
		}
		out = append(out, abi.Reached{Server: t.server, Tool: t.tool, Exact: t.exact, Line: int(pos.Line), Column: int(pos.Col)})
	}
	slices.SortFunc(out, func(a, b abi.Reached) int {
		exact := 0
		if a.Exact != b.Exact {
			exact = map[bool]int{false: -1, true: 1}[a.Exact]
		}
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Tool, b.Tool), exact)
	})
	return out
}

// everything adds all servers, if the values of variables are not found in time.
func (r *reacher) everything() {
	for _, v := range r.env {
		if s, ok := v.(server); ok {
			r.whole(s.name, syntax.Position{})
		}
	}
	r.whole(abi.Composites, syntax.Position{})
}

func (r *reacher) add(t reached, pos syntax.Position) {
	if at, ok := r.found[t]; !ok || before(pos, at) {
		r.found[t] = pos
	}
}

func before(a, b syntax.Position) bool {
	return a.Line < b.Line || a.Line == b.Line && a.Col < b.Col
}

func (r *reacher) whole(server string, pos syntax.Position) { r.add(reached{server: server}, pos) }

// variable returns the variable of an identifier, nil without a variable.
func (r *reacher) variable(id *syntax.Ident) *variable {
	b, ok := id.Binding.(*resolve.Binding)
	if !ok || b.First == nil {
		return nil
	}
	v := r.vars[b.First]
	if v == nil {
		v = &variable{}
		r.vars[b.First] = v
	}
	return v
}

// assign records an assignment to a variable.
func (r *reacher) assign(id *syntax.Ident, k known) {
	v := r.variable(id)
	if v == nil { // a predeclared identifier, which the resolver refuses
		for _, s := range k.servers {
			r.whole(s, id.NamePos)
		}
		return
	}
	for _, s := range k.servers {
		if !slices.Contains(v.servers, s) {
			v.servers, r.changed = append(v.servers, s), true
		}
	}
	if v.any {
		return
	}
	more := false
	for _, t := range k.texts {
		if !slices.Contains(v.texts, t) {
			v.texts, r.changed, more = append(v.texts, t), true, true
		}
	}
	if k.any || len(v.texts) > maxKnownTexts || more && r.late {
		v.texts, v.any, r.changed = nil, true, true
	}
}

// ident returns the knowledge about the value of a name.
func (r *reacher) ident(id *syntax.Ident) known {
	if v := r.variable(id); v != nil {
		return known(*v)
	}
	if v, ok := meaning(r.env, id.Name); ok {
		if s, ok := v.(server); ok {
			return known{servers: []string{s.name}, any: true}
		}
	}
	return unknown
}

// either returns the knowledge about a value from either of two.
func either(a, b known) known {
	out := known{servers: slices.Concat(a.servers, b.servers), any: a.any || b.any}
	if !out.any {
		out.texts = slices.Concat(a.texts, b.texts)
	}
	return out
}

// value reads an expression and returns the knowledge about the value. The caller must account for
// the servers, unless only the truth of the value is used.
func (r *reacher) value(e syntax.Expr) known {
	switch e := e.(type) {
	case *syntax.Ident:
		return r.ident(e)
	case *syntax.ParenExpr:
		return r.value(e.X)
	case *syntax.Literal:
		if text, ok := e.Value.(string); ok && e.Token == syntax.STRING {
			return known{texts: []string{text}}
		}
	case *syntax.CondExpr:
		r.value(e.Cond)
		return either(r.value(e.True), r.value(e.False))
	case *syntax.BinaryExpr:
		return r.binary(e)
	case *syntax.DotExpr:
		for _, s := range r.value(e.X).servers {
			r.add(reached{server: s, tool: e.Name.Name}, e.Name.NamePos)
		}
	case *syntax.IndexExpr:
		r.named(r.value(e.X), r.use(e.Y), true, syntax.Start(e.Y))
	case *syntax.CallExpr:
		r.call(e)
	default:
		r.parts(e)
	}
	return unknown
}

func (r *reacher) binary(e *syntax.BinaryExpr) known {
	if id, ok := e.X.(*syntax.Ident); ok {
		if e.Op == syntax.EQ { // x := y
			y := r.value(e.Y)
			r.assign(id, y)
			return y
		}
		if t, ok := r.env[id.Name].(*template); ok && e.Op == syntax.PIPE {
			return r.template(t, e.Y.(*syntax.TupleExpr).List)
		}
	}
	switch e.Op {
	case syntax.AND, syntax.OR:
		return either(r.value(e.X), r.value(e.Y))
	case syntax.PLUS:
		return joined(r.use(e.X), r.use(e.Y))
	}
	r.expr(e.X)
	r.expr(e.Y)
	return unknown
}

// joined returns the knowledge about x + y.
func joined(x, y known) known {
	if x.any || y.any || len(x.texts)*len(y.texts) > maxKnownTexts {
		return unknown
	}
	var out known
	for _, a := range x.texts {
		for _, b := range y.texts {
			if len(a)+len(b) > maxJoined {
				return unknown
			}
			if text := a + b; !slices.Contains(out.texts, text) {
				out.texts = append(out.texts, text)
			}
		}
	}
	return out
}

// template returns the knowledge about an f-string.
func (r *reacher) template(t *template, values []syntax.Expr) known {
	out := known{texts: t.texts[:1]}
	for i, x := range values {
		out = joined(joined(out, r.use(x)), known{texts: t.texts[i+1 : i+2]})
	}
	return out
}

// named records the tools of servers with a name.
func (r *reacher) named(of, name known, exact bool, pos syntax.Position) {
	for _, s := range of.servers {
		if name.any {
			r.whole(s, pos)
		}
		for _, tool := range name.texts {
			if tool != "" { // which is an error
				r.add(reached{s, tool, exact}, pos)
			}
		}
	}
}

// use reads an expression with a value that may go anywhere, and returns the knowledge about the
// value.
func (r *reacher) use(e syntax.Expr) known {
	k := r.value(e)
	for _, s := range k.servers {
		r.whole(s, syntax.Start(e))
	}
	return k
}

// expr is use for an expression or nil.
func (r *reacher) expr(e syntax.Expr) {
	if e != nil {
		r.use(e)
	}
}

// call reads a call. getattr(server, "tool") is server.tool.
func (r *reacher) call(e *syntax.CallExpr) {
	args := e.Args
	if id, ok := e.Fn.(*syntax.Ident); ok && id.Name == "getattr" && r.variable(id) == nil && len(args) >= 2 && plainArgument(args[0]) && plainArgument(args[1]) {
		r.named(r.value(args[0]), r.use(args[1]), false, syntax.Start(args[1]))
		args = args[2:]
	}
	r.value(e.Fn) // a server cannot be called
	for _, a := range args {
		if b, ok := a.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ { // name=value
			a = b.Y
		}
		r.expr(a)
	}
}

// plainArgument reports whether an argument is neither name=value nor *args.
func plainArgument(e syntax.Expr) bool {
	switch e := e.(type) {
	case *syntax.BinaryExpr:
		return e.Op != syntax.EQ
	case *syntax.UnaryExpr:
		return e.Op != syntax.STAR && e.Op != syntax.STARSTAR
	}
	return true
}

// parts reads the other kinds of expressions, with operands that may go anywhere.
func (r *reacher) parts(e syntax.Expr) {
	for _, x := range operands(e) {
		r.expr(x)
	}
	switch e := e.(type) {
	case *syntax.LambdaExpr:
		r.params(e.Params)
		r.expr(e.Body)
	case *syntax.Comprehension:
		for _, c := range e.Clauses {
			switch c := c.(type) {
			case *syntax.ForClause:
				r.loop(c.Vars, c.X)
			case *syntax.IfClause:
				r.value(c.Cond)
			}
		}
		r.expr(e.Body)
	}
}

func (r *reacher) stmts(stmts []syntax.Stmt) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.ExprStmt: // not the last statement, which is returned
			r.value(s.X)
		case *syntax.ReturnStmt:
			r.expr(s.Result)
		case *syntax.AssignStmt:
			if s.Op == syntax.EQ {
				r.assignment(s.LHS, s.RHS)
				continue
			}
			r.expr(s.RHS)
			if id, ok := s.LHS.(*syntax.Ident); ok {
				r.expr(id)
			}
			r.target(s.LHS)
		case *syntax.IfStmt:
			r.value(s.Cond)
			r.stmts(s.True)
			r.stmts(s.False)
		case *syntax.ForStmt:
			r.loop(s.Vars, s.X)
			r.stmts(s.Body)
		case *syntax.WhileStmt:
			r.value(s.Cond)
			r.stmts(s.Body)
		case *syntax.DefStmt:
			r.target(s.Name)
			r.params(s.Params)
			r.stmts(s.Body)
		}
	}
}

// assignment reads target = x. Tuples are assigned element by element.
func (r *reacher) assignment(target, x syntax.Expr) {
	target, x = unparen(target), unparen(x)
	if id, ok := target.(*syntax.Ident); ok {
		r.assign(id, r.value(x))
		return
	}
	to, from := sequence(target), sequence(x)
	if to == nil || len(to) != len(from) {
		r.expr(x)
		r.target(target)
		return
	}
	for i := range to {
		r.assignment(to[i], from[i])
	}
}

// sequence returns the elements of a tuple or list display, otherwise nil.
func sequence(e syntax.Expr) []syntax.Expr {
	switch e := e.(type) {
	case *syntax.TupleExpr:
		return e.List
	case *syntax.ListExpr:
		return e.List
	}
	return nil
}

// loop reads for target in x. The elements of a display are assigned one by one.
func (r *reacher) loop(target, x syntax.Expr) {
	elements := sequence(unparen(x))
	if len(elements) == 0 {
		r.expr(x)
		r.target(target)
		return
	}
	for _, e := range elements {
		r.assignment(target, e)
	}
}

// target reads the target of unknown values.
func (r *reacher) target(e syntax.Expr) {
	parse.EachTarget(e, func(e syntax.Expr) {
		if id, ok := e.(*syntax.Ident); ok {
			r.assign(id, unknown)
		} else {
			r.expr(e)
		}
	})
}

// params reads parameters. Callers can pass any value; servers and possible servers have been
// accounted for at the call.
func (r *reacher) params(params []syntax.Expr) {
	for _, p := range params {
		switch p := p.(type) {
		case *syntax.Ident:
			r.assign(p, unknown)
		case *syntax.BinaryExpr:
			id := p.X.(*syntax.Ident)
			r.assign(id, r.value(p.Y))
			r.assign(id, unknown)
		case *syntax.UnaryExpr:
			if id, ok := p.X.(*syntax.Ident); ok {
				r.assign(id, unknown)
			}
		}
	}
}

const maxNamedParams = 1000

// param records an argument of the tool named by an expression: params.x, params["x"] or
// params.get("x").
func (l *linter) param(e syntax.Expr) {
	var name string
	var pos syntax.Position
	var x syntax.Expr
	switch e := e.(type) {
	case *syntax.DotExpr:
		name, pos, x = e.Name.Name, e.Name.NamePos, e.X
		if isDictMethod(name) || name == "copy" {
			return
		}
	case *syntax.IndexExpr:
		name, _ = l.text(unparen(e.Y))
		pos, x = syntax.Start(e.Y), e.X
	case *syntax.CallExpr:
		get, ok := e.Fn.(*syntax.DotExpr)
		if !ok || get.Name.Name != "get" || len(e.Args) == 0 {
			return
		}
		name, _ = l.text(unparen(e.Args[0]))
		pos, x = syntax.Start(e.Args[0]), get.X
	}
	id, ok := x.(*syntax.Ident)
	if name == "" || !ok || id.Name != "params" || l.find("params") != nil || len(l.out.Params) >= maxNamedParams {
		return
	}
	if at := l.src.position(pos); at != nil {
		l.out.Params = append(l.out.Params, abi.NamedParam{Position: *at, Name: name})
	}
}

// toolCall records the tool called, or passed to undo, with the literal arguments.
func (l *linter) toolCall(e *syntax.CallExpr) {
	fn, args := unparen(e.Fn), e.Args
	if id, ok := fn.(*syntax.Ident); ok && id.Name == "undo" && l.find("undo") == nil && len(args) > 0 {
		fn, args = unparen(args[0]), args[1:]
	}
	if dot, ok := fn.(*syntax.DotExpr); ok && dot.Name.Name == "raw" && l.isTool(unparen(dot.X)) {
		fn = unparen(dot.X)
	}
	l.tool(fn, args, true)
}

func unparen(e syntax.Expr) syntax.Expr {
	for {
		p, ok := e.(*syntax.ParenExpr)
		if !ok {
			return e
		}
		e = p.X
	}
}

// isTool reports whether e is server.tool or server["tool"].
func (l *linter) isTool(e syntax.Expr) bool {
	id := calledOn(e)
	if id == nil || l.find(id.Name) != nil {
		return false
	}
	v, _ := meaning(l.env, id.Name)
	_, ok := v.(server)
	return ok
}

// tool records e, once, if e is a tool. args are the arguments of a call.
func (l *linter) tool(e syntax.Expr, args []syntax.Expr, called bool) {
	id := calledOn(e)
	undefined := id != nil && l.find(id.Name) == nil && !l.known(id.Name)
	if l.named[e] || !undefined && !l.isTool(e) || len(l.out.Calls) >= maxNamedTools {
		return
	}
	at := l.src.position(id.NamePos)
	if at == nil {
		return
	}
	named := abi.NamedTool{Position: *at, Server: id.Name, Undefined: undefined}
	switch e := e.(type) {
	case *syntax.DotExpr:
		named.Tool = e.Name.Name
	case *syntax.IndexExpr:
		name, ok := l.text(unparen(e.Y))
		if !ok {
			return
		}
		named.Tool, named.Exact = name, true
	}
	l.named[e] = true
	if called {
		l.arguments(&named, args)
	}
	l.out.Calls = append(l.out.Calls, named)
}

// arguments records the arguments of a call. With a dict, some keywords are options
// of the call; see tool.request.
func (l *linter) arguments(named *abi.NamedTool, args []syntax.Expr) {
	s := literals{linter: l, buf: []byte{'{'}, keys: make(map[string]bool)}
	dict := false
	for i, a := range args {
		switch a := unparen(a).(type) {
		case *syntax.DictExpr:
			if i > 0 {
				return
			}
			dict = true
			for _, entry := range a.List {
				entry := entry.(*syntax.DictEntry)
				key, ok := l.text(unparen(entry.Key))
				if !ok {
					named.More = true
					continue
				}
				s.member("", key, entry.Value)
			}
		case *syntax.BinaryExpr:
			id, ok := a.X.(*syntax.Ident)
			if a.Op != syntax.EQ || !ok {
				return
			}
			if !dict || id.Name != "timeout" && id.Name != "meta" {
				s.member("", id.Name, a.Y)
			}
		case *syntax.UnaryExpr:
			if a.Op != syntax.STARSTAR {
				return
			}
			named.More = true
		default:
			return // not literals
		}
	}
	if s.duplicate {
		return // the call itself is an error
	}
	named.Arguments, named.Unknown = append(s.buf, '}'), s.unknown
}

// text returns the value of a string literal.
func (l *linter) text(e syntax.Expr) (string, bool) {
	lit, ok := e.(*syntax.Literal)
	if !ok || lit.Token != syntax.STRING {
		return "", false
	}
	m := l.parsed.Strings[lit]
	if m == nil {
		s, ok := lit.Value.(string)
		return s, ok
	}
	var b strings.Builder
	for _, p := range m.Pieces {
		if p.Expr != nil {
			return "", false
		}
		b.WriteString(p.Text)
	}
	return b.String(), !m.Bytes
}

// literals writes the literals in a value as JSON.
type literals struct {
	*linter
	buf       []byte
	keys      map[string]bool // pointers of members
	duplicate bool            // a member is repeated
	unknown   []string
}

// member writes a member of the object at a pointer.
func (s *literals) member(pointer, key string, e syntax.Expr) {
	pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	if s.keys[pointer] {
		s.duplicate = true
		return
	}
	s.keys[pointer] = true
	if s.buf[len(s.buf)-1] != '{' {
		s.buf = append(s.buf, ',')
	}
	s.buf = append(appendString(s.buf, key), ':')
	s.value(pointer, e)
}

func (s *literals) value(pointer string, e syntax.Expr) {
	switch e := unparen(e).(type) {
	case *syntax.Literal:
		if text, ok := s.text(e); ok {
			s.buf = appendString(s.buf, text)
			return
		}
		if e.Token == syntax.INT || e.Token == syntax.FLOAT {
			s.number(e, "")
			return
		}
	case *syntax.UnaryExpr:
		if n, ok := e.X.(*syntax.Literal); ok && e.Op == syntax.MINUS && (n.Token == syntax.INT || n.Token == syntax.FLOAT) {
			s.number(n, "-")
			return
		}
	case *syntax.Ident:
		if word, ok := constants[e.Name]; ok && s.find(e.Name) == nil {
			s.buf = append(s.buf, word...)
			return
		}
	case *syntax.ListExpr:
		s.list(pointer, e.List)
		return
	case *syntax.TupleExpr:
		s.list(pointer, e.List)
		return
	case *syntax.DictExpr:
		if s.dict(pointer, e) {
			return
		}
	}
	s.unknown = append(s.unknown, pointer)
	s.buf = append(s.buf, "null"...)
}

var constants = map[string]string{"None": "null", "True": "true", "False": "false"}

func (s *literals) number(n *syntax.Literal, sign string) {
	s.buf = append(s.buf, sign...)
	if f, ok := n.Value.(float64); ok {
		s.buf = appendFloat(s.buf, f)
		return
	}
	s.buf = fmt.Append(s.buf, n.Value) // int64 or *big.Int
}

func (s *literals) list(pointer string, elements []syntax.Expr) {
	s.buf = append(s.buf, '[')
	for i, x := range elements {
		if i > 0 {
			s.buf = append(s.buf, ',')
		}
		s.value(pointer+"/"+strconv.Itoa(i), x)
	}
	s.buf = append(s.buf, ']')
}

// dict writes a dict and reports whether all keys are literals; if not, nothing is written.
func (s *literals) dict(pointer string, e *syntax.DictExpr) bool {
	for _, entry := range e.List {
		if _, ok := s.text(unparen(entry.(*syntax.DictEntry).Key)); !ok {
			return false
		}
	}
	s.buf = append(s.buf, '{')
	for _, entry := range e.List {
		entry := entry.(*syntax.DictEntry)
		key, _ := s.text(unparen(entry.Key))
		s.member(pointer, key, entry.Value)
	}
	s.buf = append(s.buf, '}')
	return true
}
