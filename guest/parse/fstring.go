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
