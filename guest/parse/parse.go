// Parts of this file are derived from go.starlark.net/syntax,
// Copyright 2017 The Bazel Authors. All rights reserved.
// Use of that source code is governed by a BSD-style license: see THIRD_PARTY_NOTICES.

// Package parse reads the source of scripts, in the grammar of Python, and does not stop at the
// first error: begin with [Script]. It makes trees of go.starlark.net/syntax, with a few additional
// nodes (parse.go); package interp gives these their meaning. Much of Python's syntax is expressed
// by other syntax at the positions of the original:
//
//	a < f() < c          a < (·t1 := f()) and ·t1 < c
//	{1, 2}               ·set | [1, 2]
//	a, *b = xs           a, b = ·unpack·1·0 | xs
//	class C: ...         a function that returns the names, and a call of ·class
package parse

import (
	"fmt"

	"go.starlark.net/syntax"
)

const (
	// maxDepth is how deep brackets, blocks and expressions may be nested.
	maxDepth = 1000
	tooDeep  = "excessive nesting"
	// maxErrors is the number of errors after which the parser gives up.
	maxErrors = 50
)

// A Portion is a part of a script with its beginning.
type Portion struct {
	Code      string
	Line, Col int
	Field     bool // of an f-string, in parentheses instead of the braces
}

// An Error is an error of the source.
type Error struct {
	syntax.Error
	In Portion // of the mistake
	// Exact reports the exact position of the mistake. Otherwise the position may be the end of the
	// token.
	Exact bool
	// Open reports code that more lines could complete.
	Open bool
}

// A File is a parsed script.
type File struct {
	*syntax.File
	// Strings are the composed literals, by their placeholders.
	Strings map[*syntax.Literal]*Joined
	Imports []*Import
	// Annotated are the names mentioned in annotations, which are not in the tree.
	Annotated map[string]bool
	// Walrus reports assignments in expressions, including temporary variables.
	Walrus bool
	// Nonlocal reports global or nonlocal statements.
	Nonlocal bool
	// InBlock reports a last line in an indented block.
	InBlock bool
}

// Script parses a script. With errors, the file has the parsed part. exports returns the names of a
// module, for from module import *.
func Script(name, code string, exports func(module string) []string) (*File, []*Error) {
	p := &parser{
		in:   newScanner(&name, Portion{Code: code, Line: 1, Col: 1}),
		name: &name, fn: &function{}, exports: exports,
		file: &File{Strings: make(map[*syntax.Literal]*Joined)},
	}
	p.in.script = true
	stmts := p.script()
	p.file.InBlock = p.in.inBlock
	p.file.File = &syntax.File{Path: name, Stmts: stmts, Options: options}
	return p.file, p.errors
}

// options are the compiler's options for scripts.
var options = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

type parser struct {
	in     *scanner
	tok    syntax.Token
	val    tokenValue
	depth  int
	errors []*Error
	file   *File
	name   *string
	// scanning reports an error of the scanner: tok is out of date.
	scanning bool
	temps    int       // names of temporary variables so far
	fn       *function // the innermost function
	fields   int       // f-strings in f-strings
	exports  func(module string) []string
	// originals are displays with stars, by their forms as values.
	originals map[*syntax.BinaryExpr]syntax.Expr
}

// A function is the parser's knowledge about the current function.
type function struct {
	outer  *function
	yields bool
	def    bool   // and not a script, a lambda or a class
	class  *class // whose body is this function
	method *class // with this function as a method
	self   string // the name of a method's first parameter
}

// enter counts a level of recursion, which leave ends.
func (p *parser) enter() {
	p.depth++
	if p.depth > maxDepth {
		p.fail(p.in.pos, tooDeep)
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) fail(pos syntax.Position, format string, args ...any) {
	p.in.error(pos, format, args...)
}

// next reads a token and returns the position of the token before.
func (p *parser) next() syntax.Position {
	old := p.val.pos
	p.scanning = true
	p.tok = p.in.nextToken(&p.val)
	p.scanning = false
	return old
}

func (p *parser) consume(tok syntax.Token) syntax.Position {
	if p.tok != tok {
		p.fail(p.in.pos, "got %s, want %s", describe(p.tok), describe(tok))
	}
	return p.next()
}

// accept consumes a token if it is the next token.
func (p *parser) accept(tok syntax.Token) bool {
	if p.tok != tok {
		return false
	}
	p.next()
	return true
}

// operator returns the expression in which a helper is applied to operands.
func (p *parser) operator(pos syntax.Position, name string, operands ...syntax.Expr) syntax.Expr {
	y := syntax.Expr(&syntax.TupleExpr{Lparen: pos, List: operands, Rparen: pos})
	if len(operands) == 1 {
		y = operands[0]
	}
	return &syntax.BinaryExpr{X: ident(pos, name), OpPos: pos, Op: syntax.PIPE, Y: y}
}

// temp returns a new name for a temporary variable.
func (p *parser) temp() string {
	p.temps++
	return fmt.Sprintf("%st%d", Hidden, p.temps)
}

func ident(pos syntax.Position, name string) *syntax.Ident {
	return &syntax.Ident{NamePos: pos, Name: name}
}

func text(pos syntax.Position, s string) *syntax.Literal {
	return &syntax.Literal{Token: syntax.STRING, TokenPos: pos, Raw: `"` + s + `"`, Value: s}
}

func assign(pos syntax.Position, target, value syntax.Expr) *syntax.AssignStmt {
	return &syntax.AssignStmt{OpPos: pos, Op: syntax.EQ, LHS: target, RHS: value}
}

// script parses statements up to the end.
func (p *parser) script() (stmts []syntax.Stmt) {
	if !p.try(func() { p.next() }) {
		p.recover()
	}
	for p.tok != syntax.EOF && len(p.errors) < maxErrors {
		if p.tok == syntax.NEWLINE {
			if !p.try(func() { p.next() }) {
				p.recover()
			}
			continue
		}
		stmts = p.statement(stmts)
	}
	return stmts
}

// try calls f, and reports whether it succeeded. Otherwise the error is recorded.
func (p *parser) try(f func()) (ok bool) {
	depth, fn, fields := p.depth, p.fn, p.fields
	defer func() {
		if ok {
			return
		}
		e, isError := recover().(*Error)
		if !isError {
			e = &Error{Error: syntax.Error{Pos: p.in.pos, Msg: "internal error of the parser"}, In: p.in.in}
			p.errors = append(p.errors, e)
			p.giveUp()
			return
		}
		p.depth, p.fn, p.fields = depth, fn, fields
		p.errors = append(p.errors, e)
		if e.Msg == tooDeep {
			p.giveUp()
		}
	}()
	f()
	return true
}

// giveUp makes the rest of the source empty.
func (p *parser) giveUp() {
	p.in.rest, p.in.dents, p.in.indents = "", 0, p.in.indents[:1]
	p.tok = syntax.EOF
	p.scanning = false
}

// statement appends the next statement. After an error, parsing continues after the statement with
// its block and clauses.
func (p *parser) statement(stmts []syntax.Stmt) []syntax.Stmt {
	out := stmts
	if p.try(func() { out = p.stmt(stmts) }) {
		return out
	}
	p.recover()
	return stmts
}

func (p *parser) recover() {
	for more := true; more && p.tok != syntax.EOF; {
		p.skipLine()
		if p.tok == syntax.INDENT {
			p.skipBlock()
		}
		switch p.tok {
		case syntax.ELIF, syntax.ELSE, syntax.EXCEPT, syntax.FINALLY:
		default:
			more = false
		}
	}
}

// skipLine goes on to the next line; a token of the scanner may be wrong there too.
func (p *parser) skipLine() {
	if !p.scanning {
		switch p.tok {
		case syntax.INDENT, syntax.OUTDENT, syntax.EOF:
			if p.in.depth == 0 {
				return
			}
		case syntax.NEWLINE:
			p.in.resume()
			p.advance()
			return
		}
	}
	p.in.skipLine()
	p.advance()
}

// advance reads tokens until a valid token.
func (p *parser) advance() {
	for len(p.errors) < maxErrors {
		if p.try(func() { p.next() }) {
			return
		}
		p.in.skipLine()
	}
	p.giveUp()
}

// skipBlock skips an indented block.
func (p *parser) skipBlock() {
	for level := 0; p.tok != syntax.EOF; p.advance() {
		switch p.tok {
		case syntax.INDENT:
			level++
		case syntax.OUTDENT:
			if level--; level == 0 {
				p.advance()
				return
			}
		}
	}
}

func (p *parser) stmt(stmts []syntax.Stmt) []syntax.Stmt {
	switch p.tok {
	case syntax.DEF:
		return append(stmts, p.def(nil)...)
	case syntax.IF:
		return append(stmts, p.ifStmt())
	case syntax.FOR:
		return append(stmts, p.forStmt()...)
	case syntax.WHILE:
		return append(stmts, p.whileStmt()...)
	case syntax.TRY:
		return append(stmts, p.tryStmt())
	case syntax.CLASS:
		return append(stmts, p.classStmt(nil)...)
	case at:
		return append(stmts, p.decorated()...)
	}
	if p.isMatch() {
		return p.matchStmt(stmts)
	}
	return p.simple(stmts)
}

// suite parses the block after a colon.
func (p *parser) suite() []syntax.Stmt {
	p.enter()
	defer p.leave()
	if p.tok != syntax.NEWLINE {
		return p.simple(nil)
	}
	p.next()
	p.consume(syntax.INDENT)
	var stmts []syntax.Stmt
	for p.tok != syntax.OUTDENT && p.tok != syntax.EOF {
		stmts = p.statement(stmts)
	}
	if p.tok != syntax.EOF || len(p.errors) == 0 { // otherwise the block was skipped
		p.consume(syntax.OUTDENT)
	}
	return stmts
}

// isOver reports whether nothing follows but the ends of blocks.
func (p *parser) isOver() bool {
	return p.tok == syntax.EOF || p.tok == syntax.OUTDENT && p.in.rest == ""
}

func (p *parser) ident() *syntax.Ident {
	if p.tok != syntax.IDENT {
		p.fail(p.in.pos, "not an identifier")
	}
	id := ident(p.val.pos, p.val.raw)
	p.next()
	return id
}

// refuse is fail with the exact position of the mistake.
func (p *parser) refuse(pos syntax.Position, format string, args ...any) {
	p.in.refuse(pos, format, args...)
}

// Hidden begins the names only found in trees: no script can write the dot.
const Hidden = "·"

// Names used in trees. Most stand on the left of |, with the operand on the right; several operands
// are a tuple.
const (
	Power       = "·pow"       // x, y
	PowerOf     = "·powof"     // y, on the right of x *= for x **= y
	Is          = "·is"        // x, y
	IsNot       = "·isnot"     // x, y
	Set         = "·set"       // a list
	Concat      = "·concat"    // lists, and iterables after *
	ConcatTuple = "·concattup" // the same, for a tuple
	Merge       = "·merge"     // dicts
	SetSlice    = "·setslice"  // the value, x, lo, hi, step
	DelSlice    = "·delslice"  // x, lo, hi, step
	DelItem     = "·delitem"   // x, key
	DelAttr     = "·delattr"   // x, name
	Super       = "·super"     // a class, self
	Assertion   = "·assertion" // the text of a failed assertion
	// These return False, or a tuple of True and the parts for the patterns.
	MatchSequence = "·matchseq"   // x, the number of parts, the index of the part with a star
	MatchMapping  = "·matchmap"   // x, keys, whether the rest is a part
	MatchClass    = "·matchclass" // x, the class, the number of positional parts, names of attributes
	// These are functions.
	Generate  = "·generate" // a function, and the arguments
	GenExpr   = "·genexpr"  // a function, and an iterable
	MakeClass = "·class"    // name, bases, body
	Raise     = "·raise"    // error, cause
	// Generator is the parameter of a function with yield. Applied with | to a value, Generator
	// yields the value; with & to an iterable, all elements.
	Generator = "·g"
	// Unpack is followed by the numbers of targets before and after the target with a star, with a
	// dot between them; UnpackEach is the same for each element.
	Unpack     = "·unpack·"
	UnpackEach = "·unpackeach·"
	// ImportPrefix is followed by the name of a module.
	ImportPrefix = "·import·"
	// MemberPrefix begins the names bound in the body of a class.
	MemberPrefix = "·m·"
	// BodyPrefix begins the names of functions with the body of a class or a generator.
	BodyPrefix = "·body·"
)

// Annotations is the member of a class with the names of annotated fields.
const Annotations = "__annotations__"

// A Try is a try statement.
type Try struct {
	*syntax.IfStmt // the position, and the body as True
	Clauses        []*Except
	OrElse         []syntax.Stmt
	Finally        []syntax.Stmt
}

// An Except is a clause of a try statement.
type Except struct {
	Pos   syntax.Position
	Class syntax.Expr   // nil for all classes
	As    *syntax.Ident // nil if the error has no name
	Body  []syntax.Stmt
}

// Parts returns the blocks of a try statement.
func (s *Try) Parts() [][]syntax.Stmt {
	parts := [][]syntax.Stmt{s.True}
	for _, c := range s.Clauses {
		parts = append(parts, c.Body)
	}
	return append(parts, s.OrElse, s.Finally)
}

// A Scope is a global or nonlocal statement.
type Scope struct {
	*syntax.BranchStmt // the position
	Global             bool
	Names              []*syntax.Ident
}

// A Joined is a literal composed of other literals.
type Joined struct {
	Pieces []Piece
	Bytes  bool // the pieces are text of a bytes literal
}

// A Piece is a part of a composed string: text or a field.
type Piece struct {
	Text       string
	Expr       syntax.Expr     // nil for text
	Pos        syntax.Position // of the field's {
	Conversion byte
	Spec       []Piece
	HasSpec    bool
}

// An Import is a name bound by an import statement.
type Import struct {
	Pos    syntax.Position
	Module string
	Name   string        // imported from the module; "" for the module itself
	As     *syntax.Ident // the bound name
}

// Bindings appends the names bound by statements in their own function, in order. Without tries,
// names in try statements are left out.
func Bindings(stmts []syntax.Stmt, out []*syntax.Ident, tries bool) []*syntax.Ident {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.AssignStmt:
			out = TargetNames(s.LHS, out)
		case *syntax.DefStmt:
			out = append(out, s.Name)
		case *syntax.ForStmt:
			out = Bindings(s.Body, TargetNames(s.Vars, out), tries)
		case *syntax.WhileStmt:
			out = Bindings(s.Body, out, tries)
		case *syntax.IfStmt:
			out = Bindings(s.False, Bindings(s.True, out, tries), tries)
		case *Try:
			if !tries {
				continue
			}
			for _, c := range s.Clauses {
				if c.As != nil {
					out = append(out, c.As)
				}
			}
			for _, part := range s.Parts() {
				out = Bindings(part, out, tries)
			}
		}
	}
	return out
}

// declaredNames adds the names of global and nonlocal statements in a function.
func declaredNames(stmts []syntax.Stmt, out map[string]bool) map[string]bool {
	if out == nil {
		out = make(map[string]bool)
	}
	for _, s := range stmts {
		switch s := s.(type) {
		case *Scope:
			for _, id := range s.Names {
				out[id.Name] = true
			}
		case *syntax.ForStmt:
			declaredNames(s.Body, out)
		case *syntax.WhileStmt:
			declaredNames(s.Body, out)
		case *syntax.IfStmt:
			declaredNames(s.False, declaredNames(s.True, out))
		case *Try:
			for _, part := range s.Parts() {
				declaredNames(part, out)
			}
		}
	}
	return out
}

// eachClause calls f with the except clauses of a function.
func eachClause(stmts []syntax.Stmt, f func(*Except)) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.ForStmt:
			eachClause(s.Body, f)
		case *syntax.WhileStmt:
			eachClause(s.Body, f)
		case *syntax.IfStmt:
			eachClause(s.True, f)
			eachClause(s.False, f)
		case *Try:
			for _, c := range s.Clauses {
				f(c)
			}
			for _, part := range s.Parts() {
				eachClause(part, f)
			}
		}
	}
}

// TargetNames appends the names bound by an assignment to a target, in order.
func TargetNames(target syntax.Expr, out []*syntax.Ident) []*syntax.Ident {
	EachTarget(target, func(e syntax.Expr) {
		if id, ok := e.(*syntax.Ident); ok {
			out = append(out, id)
		}
	})
	return out
}

// EachTarget calls f with the parts of a target: names, elements, slices and attributes.
func EachTarget(target syntax.Expr, f func(syntax.Expr)) {
	if list := elements(target); list != nil {
		for _, x := range *list {
			EachTarget(x, f)
		}
	} else if paren, ok := target.(*syntax.ParenExpr); ok {
		EachTarget(paren.X, f)
	} else {
		f(target)
	}
}

// A renamer renames variables in code, but not in the functions inside.
type renamer map[string]string

func rename(stmts []syntax.Stmt, names map[string]string) { renamer(names).block(stmts) }

func (r renamer) block(stmts []syntax.Stmt) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.ExprStmt:
			r.expr(s.X)
		case *syntax.AssignStmt:
			r.expr(s.LHS)
			r.expr(s.RHS)
		case *syntax.IfStmt:
			r.expr(s.Cond)
			r.block(s.True)
			r.block(s.False)
		case *syntax.ForStmt:
			r.expr(s.Vars)
			r.expr(s.X)
			r.block(s.Body)
		case *syntax.WhileStmt:
			r.expr(s.Cond)
			r.block(s.Body)
		case *syntax.DefStmt:
			r.expr(s.Name)
			r.params(s.Params)
		case *Try:
			for _, c := range s.Clauses {
				r.expr(c.Class)
				if c.As != nil {
					r.expr(c.As)
				}
			}
			for _, part := range s.Parts() {
				r.block(part)
			}
		}
	}
}

// params renames in the defaults of parameters.
func (r renamer) params(params []syntax.Expr) {
	for _, p := range params {
		if b, ok := p.(*syntax.BinaryExpr); ok {
			r.expr(b.Y)
		}
	}
}

func (r renamer) expr(e syntax.Expr) {
	if e == nil {
		return
	}
	syntax.Walk(e, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Ident:
			if name, ok := r[n.Name]; ok {
				n.Name = name
			}
		case *syntax.DotExpr:
			r.expr(n.X)
			return false
		case *syntax.CallExpr:
			r.expr(n.Fn)
			for _, a := range n.Args {
				if b, ok := a.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
					r.expr(b.Y)
					continue
				}
				r.expr(a)
			}
			return false
		case *syntax.LambdaExpr:
			r.params(n.Params)
			return false
		}
		return true
	})
}
