package interp

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/syntax"
)

// Syntax that Starlark's grammar lacks is replaced before parsing: the keywords of try
// statements and raise, f-strings, and adjacent literals become text that the library's
// parser accepts, of the same length and on the same lines. So all positions stay
// correct. A mark records what each placeholder stands for, and
// shape.go changes the tree accordingly:
//
//	try:                  if 1:
//	except:               elif 1:
//	except Error as e:    elif   Error or e:
//	finally:              if    1:
//	raise x               rais= x
//	raise                 pass
//	raise x from y        rais= x ,    y
//	f"a{b}"  "c"          ""
//	x is not None         x !=     None
//
// This is only done for a script that does not parse as it is.

type markKind int

const (
	tryMark markKind = iota + 1
	exceptMark
	finallyMark
	raiseMark
	bareRaiseMark
	stringMark
	isMark // of an operator
)

// A place is a position in the script.
type place struct{ line, col int32 }

func placeOf(pos syntax.Position) place { return place{pos.Line, pos.Col} }

func placeOfToken(t token) place { return place{int32(t.line), int32(t.col)} }

// A mark says what a placeholder stands for.
type mark struct {
	kind   markKind
	as     place // of the or that stands for as; zero if there is none
	from   bool  // raise x from y
	pieces []piece
	bytes  bool // of a string: the pieces are text of a bytes literal
}

// A piece is a part of an f-string or of adjacent literals: text or a field.
type piece struct {
	text       string
	expr       syntax.Expr     // nil for text
	pos        syntax.Position // of the field's {
	conversion byte
	spec       []piece
	hasSpec    bool
}

type marks map[place]*mark

// find returns the mark of one of the kinds at a position, or nil.
func (m marks) find(pos syntax.Position, kinds ...markKind) *mark {
	found := m[placeOf(pos)]
	if found == nil {
		return nil
	}
	for _, k := range kinds {
		if found.kind == k {
			return found
		}
	}
	return nil
}

var parseOptions = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// parse returns the tree of a script, and its marks, nil if it has none.
func (s *source) parse() (*syntax.File, marks, *abi.Error) {
	file, err := parseOptions.Parse(s.name, s.code, 0)
	if err == nil {
		return file, nil, nil
	}
	text, found, failure := s.mark(s.whole(), true, 0)
	if failure != nil {
		return nil, nil, failure
	}
	if text == s.code {
		return nil, nil, s.syntaxError(err, s.whole())
	}
	file, err = parseOptions.Parse(s.name, text, 0)
	if err != nil {
		return nil, nil, s.syntaxError(err, s.whole())
	}
	return file, found, nil
}

// A portion is a part of a script, and where it begins.
type portion struct {
	code      string
	line, col int
	field     bool // of an f-string, in parentheses instead of the braces
}

func (s *source) whole() portion { return portion{code: s.code, line: 1, col: 1} }

// parseField returns the tree of an expression in an f-string. The portion is in
// parentheses, which have the columns of the field's braces.
func (s *source) parseField(p portion, found marks, depth int) (syntax.Expr, *abi.Error) {
	content := func(text string) syntax.FilePortion {
		return syntax.FilePortion{Content: []byte(text), FirstLine: int32(p.line), FirstCol: int32(p.col)}
	}
	expr, err := parseOptions.ParseExpr(s.name, content(p.code), 0)
	if err == nil {
		return expr, nil
	}
	text, inner, failure := s.mark(p, false, depth+1)
	if failure != nil {
		return nil, failure
	}
	for at, m := range inner {
		found[at] = m
	}
	if text != p.code {
		expr, err = parseOptions.ParseExpr(s.name, content(text), 0)
	}
	if err != nil {
		return nil, s.syntaxError(err, p)
	}
	return expr, nil
}

// mark replaces what the library cannot parse. statements tells that p is a script,
// not an expression.
func (s *source) mark(p portion, statements bool, depth int) (string, marks, *abi.Error) {
	m := marker{
		src: s, statements: statements, depth: depth, marks: make(marks),
		lexer: lexer{code: p.code, line: p.line, col: p.col, statement: true},
		prev:  token{kind: newlineToken},
	}
	for m.pos < len(m.code) && m.err == nil {
		m.scan()
		if len(m.tokens) > 0 {
			m.next(m.tokens[0])
			m.tokens = m.tokens[:0]
		}
	}
	m.next(token{kind: endToken, pos: len(m.code), line: m.line, col: m.col})
	m.out.WriteString(m.code[m.written:])
	return m.out.String(), m.marks, m.err
}

// A marker processes the tokens of a portion, one token behind the lexer.
type marker struct {
	lexer
	src        *source
	statements bool
	depth      int
	marks      marks
	out        strings.Builder
	written    int // how much of code is in out
	err        *abi.Error

	prev, held token
	hasHeld    bool
	literals   []token // string literals side by side
	header     *mark   // of the except or raise statement that the tokens belong to
}

func (m *marker) fail(line, col int, format string, args ...any) {
	if m.err == nil {
		m.err = m.src.invalid(m.src.at(line, col), fmt.Sprintf("syntax error: "+format, args...))
	}
}

// edit replaces n bytes of the code at an offset.
func (m *marker) edit(at, n int, text string) {
	m.out.WriteString(m.code[m.written:at])
	m.out.WriteString(text)
	m.written = at + n
}

func (m *marker) add(t token, found *mark) *mark {
	m.marks[placeOfToken(t)] = found
	return found
}

// next handles the token before t, which needs to know what follows it, and holds t
// back.
func (m *marker) next(t token) {
	if m.hasHeld && m.err == nil {
		m.token(m.held, t)
		m.prev = m.held
	}
	m.held, m.hasHeld = t, true
}

func (m *marker) token(t, next token) {
	if t.kind == stringToken {
		m.literals = append(m.literals, t)
		if next.kind != stringToken {
			m.join(m.literals)
			m.literals = m.literals[:0]
		}
		return
	}
	if m.identity(t, next) || !m.statements || t.kind != wordToken && m.header == nil {
		return
	}
	switch {
	case m.header != nil && !t.insideBrackets:
		m.inHeader(t)
	case t.startsStatement && t.text == "try" && next.is(":"):
		m.try(t, next)
	case t.startsStatement && t.text == "except":
		word := "elif  "
		if next.is(":") {
			word = "elif 1"
		}
		m.edit(t.pos, len(t.text), word)
		m.header = m.add(t, &mark{kind: exceptMark})
	case t.startsStatement && t.text == "finally" && next.is(":"):
		m.edit(t.pos, len(t.text), "if    1")
		m.add(t, &mark{kind: finallyMark})
	case t.text == "raise" && !strings.HasPrefix(next.text, "=") && (t.startsStatement || m.prev.is(":") && !m.prev.insideBrackets):
		if next.kind == newlineToken || next.kind == endToken || next.is(";") {
			m.edit(t.pos, len(t.text), "pass ")
			m.add(t, &mark{kind: bareRaiseMark})
			return
		}
		m.edit(t.pos, len(t.text), "rais=")
		m.header = m.add(t, &mark{kind: raiseMark})
	}
}

// try replaces "try:", which is one byte shorter than the shortest header of a
// statement. The placeholder takes the space before or after the colon, or one more
// byte at the end of the line.
func (m *marker) try(t, colon token) {
	m.add(t, &mark{kind: tryMark})
	if colon.pos > t.pos+len(t.text) {
		m.edit(t.pos, len(t.text)+1, "if 1")
		return
	}
	n := len("try:")
	if after := m.code[t.pos+n:]; after != "" {
		switch after[0] {
		case ' ', '\t':
			n++
		case '\n', '\r', '#', '\\':
		default:
			m.fail(colon.line, colon.col+1, "the body of try begins on a line of its own")
			return
		}
	}
	m.edit(t.pos, n, "if 1:")
}

// inHeader handles a token of an except or raise statement.
func (m *marker) inHeader(t token) {
	switch {
	case t.kind == newlineToken, t.is(";"), t.is(":") && m.header.kind == exceptMark:
		m.header = nil
	case t.is("as") && m.header.kind == exceptMark && m.header.as == place{}:
		m.edit(t.pos, len(t.text), "or")
		m.header.as = place{int32(t.line), int32(t.col)}
	case t.is("from") && m.header.kind == raiseMark && !m.header.from:
		m.edit(t.pos, len(t.text), ",   ")
		m.header.from = true
	}
}

// join replaces adjacent string literals, or an f-string, by a placeholder in the
// place of the first one. A single literal without f stays.
func (m *marker) join(run []token) {
	if len(run) == 1 && !isFString(run[0].text) {
		prefix := strings.IndexAny(run[0].text, `"'`)
		if known := knownPrefix(run[0].text[:prefix]); known != run[0].text[:prefix] {
			m.edit(run[0].pos, prefix, known)
		}
		return
	}
	found := m.add(run[0], &mark{kind: stringMark})
	for i, t := range run {
		if isFString(t.text) {
			m.fString(found, t)
		} else {
			m.plain(found, t, i > 0)
		}
		if m.err != nil {
			return
		}
		m.edit(t.pos, len(t.text), blank(t.text, i == 0))
	}
}

// knownPrefix returns the library's form, of the same length, of a Python prefix.
func knownPrefix(prefix string) string {
	switch lower := strings.ToLower(prefix); lower {
	case "u":
		return " "
	case "br":
		return "rb"
	default:
		return lower
	}
}

// blank returns white space that fills the place of a literal; if first, it begins
// with an empty literal.
func blank(literal string, first bool) string {
	var b strings.Builder
	for i, r := range literal {
		switch {
		case first && b.Len() < 2:
			b.WriteByte('"')
		case r == '\n' && i > 0 && literal[i-1] == '\r':
			b.WriteByte('\n')
		case r == '\n' || r == '\r':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// plain adds a literal that is not an f-string.
func (m *marker) plain(found *mark, t token, joined bool) {
	prefix := strings.IndexAny(t.text, `"'`)
	code := strings.TrimLeft(knownPrefix(t.text[:prefix]), " ") + t.text[prefix:]
	literal := m.literal(code, t.line, t.col)
	if literal == nil {
		return
	}
	isBytes := literal.Token == syntax.BYTES
	if joined && isBytes != found.bytes {
		m.fail(t.line, t.col, "text and bytes cannot be joined")
		return
	}
	found.bytes = isBytes
	found.pieces = append(found.pieces, piece{text: literal.Value.(string)})
}

// literal parses one literal of the library's grammar.
func (m *marker) literal(code string, line, col int) *syntax.Literal {
	content := syntax.FilePortion{Content: []byte(code), FirstLine: int32(line), FirstCol: int32(col)}
	expr, err := parseOptions.ParseExpr(m.src.name, content, 0)
	if literal, ok := expr.(*syntax.Literal); ok && err == nil {
		return literal
	}
	if m.err == nil {
		m.err = m.src.syntaxError(err, portion{code: code, line: line, col: col})
	}
	return nil
}

// fString adds an f-string.
func (m *marker) fString(found *mark, t token) {
	if found.bytes {
		m.fail(t.line, t.col, "text and bytes cannot be joined")
		return
	}
	_, parts, failure := scanFString(m.code[t.pos:], m.depth)
	at := lexer{code: m.code[t.pos:], line: t.line, col: t.col}
	if failure != nil {
		at.advance(failure.at)
		m.fail(at.line, at.col, "%s", failure.message)
		return
	}
	prefix := t.text[:strings.IndexAny(t.text, `"'`)]
	found.pieces = append(found.pieces, m.pieces(parts, t.text, &at, strings.ContainsAny(prefix, "rR"))...)
}

// pieces decodes and parses the parts of an f-string; at moves along.
func (m *marker) pieces(parts []fPart, literal string, at *lexer, raw bool) []piece {
	var out []piece
	for _, p := range parts {
		at.advance(p.start - at.pos)
		if m.err != nil {
			return out
		}
		if !p.field {
			out = append(out, piece{text: m.decode(p.text, at, raw)})
			continue
		}
		if p.debugEnd > 0 {
			out = append(out, piece{text: literal[p.exprStart:p.debugEnd]})
			if !p.hasSpec && p.conversion == 0 {
				p.conversion = 'r'
			}
		}
		field := piece{
			pos:        syntax.MakePosition(&m.src.name, int32(at.line), int32(at.col)),
			conversion: p.conversion, hasSpec: p.hasSpec,
		}
		var failure *abi.Error
		code := "(" + literal[p.exprStart:p.exprEnd] + ")"
		field.expr, failure = m.src.parseField(portion{code, at.line, at.col, true}, m.marks, m.depth)
		if failure != nil && m.err == nil {
			m.err = failure
		}
		field.spec = m.pieces(p.spec, literal, at, raw)
		out = append(out, field)
	}
	return out
}

// decode replaces the escapes in the text of an f-string.
func (m *marker) decode(text string, at *lexer, raw bool) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	if raw || !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	b.WriteString(`"""`)
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			b.WriteString(text[i : i+2])
			i++
		case text[i] == '"':
			b.WriteString(`\"`)
		default:
			b.WriteByte(text[i])
		}
	}
	b.WriteString(`"""`)
	if literal := m.literal(b.String(), at.line, at.col); literal != nil {
		return literal.Value.(string)
	}
	return ""
}
