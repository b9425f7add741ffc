package interp

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/syntax"
)

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
