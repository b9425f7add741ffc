package parse

import (
	"strings"

	"go.starlark.net/syntax"
)

// stringLiteral parses string literals side by side. A single string other than an f-string is an
// ordinary literal.
func (p *parser) stringLiteral() syntax.Expr {
	lit := &syntax.Literal{Token: p.tok, TokenPos: p.val.pos, Raw: p.val.raw, Value: p.val.text}
	joined := &Joined{Bytes: p.tok == syntax.BYTES}
	count, plain := 0, p.tok != fstringToken
	for ; p.tok == syntax.STRING || p.tok == syntax.BYTES || p.tok == fstringToken; count++ {
		if (p.tok == syntax.BYTES) != joined.Bytes {
			p.refuse(p.val.pos, "text and bytes cannot be joined")
		}
		if p.tok == fstringToken {
			plain = false
			joined.Pieces = append(joined.Pieces, p.fString()...)
		} else {
			joined.Pieces = append(joined.Pieces, Piece{Text: p.val.text})
		}
		p.next()
	}
	if count == 1 && plain {
		return lit
	}
	if !joined.Bytes {
		lit.Token = syntax.STRING
	}
	if plain {
		var b strings.Builder
		for _, piece := range joined.Pieces {
			b.WriteString(piece.Text)
		}
		lit.Value = b.String()
		return lit
	}
	lit.Value = ""
	p.file.Strings[lit] = joined
	return lit
}

// fString returns the pieces of the f-string in the current token.
func (p *parser) fString() []Piece {
	raw := p.val.raw
	_, parts, _ := ScanFString(raw, p.fields) // the scanner has checked the literal
	f := fieldParser{parser: p, literal: raw, line: int(p.val.pos.Line), col: int(p.val.pos.Col)}
	f.raw = strings.ContainsAny(raw[:strings.IndexAny(raw, `"'`)], "rR")
	return f.pieces(parts)
}

// A fieldParser parses the parts of an f-string in order, and keeps the position.
type fieldParser struct {
	*parser
	literal   string
	raw       bool
	at        int // offset in the literal
	line, col int
}

// moveTo goes on to an offset of the literal.
func (f *fieldParser) moveTo(offset int) {
	sc := scanner{rest: f.literal[f.at:offset], pos: syntax.MakePosition(f.name, int32(f.line), int32(f.col))}
	for len(sc.rest) > 0 {
		sc.readRune()
	}
	f.at, f.line, f.col = offset, int(sc.pos.Line), int(sc.pos.Col)
}

func (f *fieldParser) pieces(parts []FPart) []Piece {
	var out []Piece
	for _, part := range parts {
		f.moveTo(part.Start)
		if !part.Field {
			out = append(out, Piece{Text: f.decode(part.Text)})
			continue
		}
		if part.DebugEnd > 0 {
			out = append(out, Piece{Text: f.literal[part.ExprStart:part.DebugEnd]})
			if !part.HasSpec && part.Conversion == 0 {
				part.Conversion = 'r'
			}
		}
		piece := Piece{
			Pos: syntax.MakePosition(f.name, int32(f.line), int32(f.col)), Conversion: part.Conversion, HasSpec: part.HasSpec,
		}
		code := "(" + f.literal[part.ExprStart:part.ExprEnd] + ")"
		piece.Expr = f.field(Portion{Code: code, Line: f.line, Col: f.col, Field: true})
		piece.Spec = f.pieces(part.Spec)
		out = append(out, piece)
	}
	return out
}

// field parses the expression of a field. The expression gets parentheses with the positions of the
// braces.
func (f *fieldParser) field(portion Portion) syntax.Expr {
	sub := *f.parser
	sub.in = newScanner(f.name, portion)
	sub.fields++
	sub.next()
	e := sub.test()
	if sub.tok == syntax.NEWLINE {
		sub.next()
	}
	if sub.tok != syntax.EOF {
		sub.fail(sub.in.pos, "got %s after expression, want EOF", describe(sub.tok))
	}
	f.temps = sub.temps
	return e
}

// decode replaces the escapes in text of an f-string.
func (f *fieldParser) decode(text string) string {
	out, message := unquote(text, f.raw, false)
	if message != "" {
		f.refuse(syntax.MakePosition(f.name, int32(f.line), int32(f.col)), "%s", message)
	}
	return out
}

// An FPart is a piece of an f-string, or of a format specification: text, or a field. Offsets are
// in bytes from the start of the literal.
type FPart struct {
	Text  string // of a piece of text, with {{ as {, escapes not yet decoded
	Start int    // of the text, or of the field's {
	Field bool

	ExprStart, ExprEnd int
	DebugEnd           int  // of {x=}: the end of the text shown first; else 0
	Conversion         byte // 'r', 's', 'a' or 0
	Spec               []FPart
	HasSpec            bool
}

// An FError is an error in an f-string, with an offset.
type FError struct {
	At      int
	Message string
}

// maxFNesting is how deep f-strings may be nested in fields of other f-strings.
const maxFNesting = 10

// ScanFString splits the f-string literal at the start of s into parts, and returns the literal's
// length. Fields are not parsed: brackets and strings in fields are skipped, even with the quotes
// of the literal.
func ScanFString(s string, depth int) (length int, parts []FPart, failure *FError) {
	prefix := strings.IndexAny(s, `"'`)
	f := fScanner{s: s, pos: prefix + 1, quote: s[prefix : prefix+1], depth: depth}
	f.raw = strings.ContainsAny(s[:prefix], "rR")
	if triple := strings.Repeat(f.quote, 3); strings.HasPrefix(s[prefix:], triple) {
		f.pos, f.quote = prefix+3, triple
	}
	parts = f.parts(false)
	if f.err == nil && !strings.HasPrefix(s[f.pos:], f.quote) {
		message := "unexpected EOF in string"
		if f.pos < len(s) {
			message = "unexpected newline in string"
		}
		f.fail(0, message)
	}
	if f.err != nil {
		return max(f.pos, prefix+1), nil, f.err // so no text is scanned twice
	}
	return f.pos + len(f.quote), parts, nil
}

type fScanner struct {
	s     string
	pos   int
	quote string // at the end of the literal
	raw   bool
	depth int
	err   *FError
}

func (f *fScanner) fail(at int, message string) {
	if f.err == nil {
		f.err = &FError{at, message}
	}
}

// parts reads up to the closing quote, or up to the } at the end of a format specification. It
// stops at the first error.
func (f *fScanner) parts(inSpec bool) []FPart {
	var parts []FPart
	var text strings.Builder
	start := f.pos
	flush := func() {
		if text.Len() > 0 {
			parts = append(parts, FPart{Text: text.String(), Start: start})
			text.Reset()
		}
	}
	for f.err == nil && f.pos < len(f.s) {
		rest := f.s[f.pos:]
		switch c := rest[0]; {
		case strings.HasPrefix(rest, f.quote), c == '}' && inSpec, len(f.quote) == 1 && isLineEnd(c):
			flush()
			return parts
		case strings.HasPrefix(rest, "{{") && !inSpec, strings.HasPrefix(rest, "}}"):
			text.WriteByte(c)
			f.pos += 2
		case c == '}':
			f.fail(f.pos, "single '}' in an f-string (write }} for the character)")
		case c == '{':
			flush()
			parts = append(parts, f.field(inSpec))
			start = f.pos
		case c == '\\' && len(rest) > 1 && rest[1] != '{' && rest[1] != '}':
			if strings.HasPrefix(rest, `\N{`) && !f.raw {
				f.fail(f.pos, `\N{...} is not available: write the character itself, or \uXXXX`)
			}
			text.WriteString(rest[:2])
			f.pos += 2
		default:
			text.WriteByte(c)
			f.pos++
		}
	}
	flush()
	return parts
}

func isLineEnd(c byte) bool { return c == '\n' || c == '\r' }

// field reads a field, from { to }.
func (f *fScanner) field(inSpec bool) FPart {
	p := FPart{Field: true, Start: f.pos}
	f.pos++
	p.ExprStart = f.pos
	p.ExprEnd = f.expression()
	if f.err != nil {
		return p
	}
	if strings.TrimSpace(f.s[p.ExprStart:p.ExprEnd]) == "" {
		f.fail(p.Start, "an f-string has an empty field (write {{ and }} for braces)")
		return p
	}
	if f.next() == '=' {
		f.pos++
		f.blanks()
		p.DebugEnd = f.pos
	}
	if f.next() == '!' {
		if f.pos+1 < len(f.s) {
			p.Conversion = f.s[f.pos+1]
		}
		if p.Conversion != 'r' && p.Conversion != 's' && p.Conversion != 'a' {
			f.fail(f.pos, "a conversion in an f-string is !r or !s")
			return p
		}
		f.pos += 2
		f.blanks()
	}
	if f.next() == ':' {
		f.pos++
		p.HasSpec = true
		if inSpec {
			f.fail(f.pos, "format specifications are nested too deep")
			return p
		}
		p.Spec = f.parts(true)
	}
	if f.next() != '}' {
		f.fail(p.Start, "'{' in an f-string is not closed (write {{ for the character)")
		return p
	}
	f.pos++
	return p
}

func (f *fScanner) next() byte {
	if f.pos < len(f.s) {
		return f.s[f.pos]
	}
	return 0
}

func (f *fScanner) blanks() {
	for f.next() == ' ' || f.next() == '\t' {
		f.pos++
	}
}

// expression skips the expression of a field and returns the end. Then pos is at the next
// character: = or ! or : or }.
func (f *fScanner) expression() int {
	brackets := 0
	for f.pos < len(f.s) {
		rest := f.s[f.pos:]
		switch c := rest[0]; {
		case len(f.quote) == 1 && isLineEnd(c):
			return f.pos
		case c == '"' || c == '\'':
			if brackets == 0 && f.closes(rest) {
				return f.pos // the literal ends here, with an unclosed field
			}
			f.pos += StringLength(rest)
		case IsWordStart(rest):
			n := RunLength(rest)
			if n < len(rest) && (rest[n] == '"' || rest[n] == '\'') && IsStringPrefix(rest[:n]) {
				n = f.nested(rest, n)
			}
			f.pos += n
		case c == '(' || c == '[' || c == '{':
			brackets++
			f.pos++
		case brackets > 0 && (c == ')' || c == ']' || c == '}'):
			brackets--
			f.pos++
		case brackets > 0:
			f.pos++
		case c == '}' || c == ':' || c == '!' && !strings.HasPrefix(rest, "!="):
			return f.pos
		case c == '=' && f.isDebug(rest):
			return f.pos
		case c == '=' || c == '!' || c == '<' || c == '>':
			f.pos++
			if f.next() == '=' {
				f.pos++
			}
		default:
			f.pos++
		}
	}
	return f.pos
}

// closes reports whether the quote at the start of rest must be the end of the literal, because no
// other quote on the line could close a string beginning here.
func (f *fScanner) closes(rest string) bool {
	if !strings.HasPrefix(rest, f.quote) {
		return false
	}
	n := StringLength(rest)
	return n < 2 || rest[n-1] != rest[0]
}

// nested returns the length of a literal with a prefix inside a field.
func (f *fScanner) nested(s string, prefix int) int {
	if !IsFString(s) {
		return prefix + StringLength(s[prefix:])
	}
	if f.depth >= maxFNesting {
		f.fail(f.pos, "f-strings are nested too deep")
		return len(s)
	}
	length, _, failure := ScanFString(s, f.depth+1)
	if failure != nil {
		f.fail(f.pos+failure.At, failure.Message)
	}
	return length
}

// isDebug reports whether the = at the start of rest ends the expression, as in
// {x=}.
func (f *fScanner) isDebug(rest string) bool {
	after := strings.TrimLeft(rest[1:], " \t")
	return after != "" && (after[0] == '}' || after[0] == ':' || after[0] == '!' && !strings.HasPrefix(after, "!="))
}
