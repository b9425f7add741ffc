// Parts of this file are derived from go.starlark.net/syntax,
// Copyright 2017 The Bazel Authors. All rights reserved.
// Use of that source code is governed by a BSD-style license: see THIRD_PARTY_NOTICES.

package parse

import (
	"fmt"
	"math/big"
	"unicode"
	"unicode/utf8"

	"go.starlark.net/syntax"
)

// A scanner splits source into tokens.
type scanner struct {
	in        Portion
	rest      string          // the unread rest
	start     string          // the rest at the start of the token being scanned
	pos       syntax.Position // of the rest
	depth     int             // nesting of brackets
	indents   []int           // columns of the blocks around
	dents     int             // INDENT (> 0) or OUTDENT (< 0) tokens to return
	lineStart bool            // after a NEWLINE
	script    bool            // and not an expression: the first line sets the indentation
	inBlock   bool            // the script has ended within an indented block
}

func newScanner(file *string, p Portion) *scanner {
	return &scanner{
		in: p, rest: p.Code, pos: syntax.MakePosition(file, int32(p.Line), int32(p.Col)),
		indents: make([]int, 1, 10), lineStart: true,
	}
}

// error ends the statement being parsed: it panics.
func (sc *scanner) error(pos syntax.Position, format string, args ...any) {
	panic(&Error{Error: syntax.Error{Pos: pos, Msg: fmt.Sprintf(format, args...)}, In: sc.in})
}

// peekRune returns the next character, 0 at the end. \n, \r\n and \r are \n.
func (sc *scanner) peekRune() rune {
	if len(sc.rest) == 0 {
		return 0
	}
	if b := sc.rest[0]; b < utf8.RuneSelf {
		if b == '\r' {
			return '\n'
		}
		return rune(b)
	}
	r, _ := utf8.DecodeRuneInString(sc.rest)
	return r
}

// readRune consumes the next character. A character must be left.
func (sc *scanner) readRune() rune {
	if b := sc.rest[0]; b < utf8.RuneSelf {
		r := rune(b)
		sc.rest = sc.rest[1:]
		if r == '\r' {
			if len(sc.rest) > 0 && sc.rest[0] == '\n' {
				sc.rest = sc.rest[1:]
			}
			r = '\n'
		}
		if r == '\n' {
			sc.pos.Line++
			sc.pos.Col = 1
		} else {
			sc.pos.Col++
		}
		return r
	}
	r, size := utf8.DecodeRuneInString(sc.rest)
	sc.rest = sc.rest[size:]
	sc.pos.Col++
	return r
}

// read consumes n characters, which must exist.
func (sc *scanner) read(n int) {
	for range n {
		sc.readRune()
	}
}

// readBytes consumes the characters of the next n bytes.
func (sc *scanner) readBytes(n int) {
	for end := len(sc.rest) - n; len(sc.rest) > end && len(sc.rest) > 0; {
		sc.readRune()
	}
}

// skipLine consumes the rest of the line, with its end.
func (sc *scanner) skipLine() {
	for len(sc.rest) > 0 && sc.readRune() != '\n' {
	}
	sc.lineStart, sc.depth = true, 0
	sc.resume()
}

// resume makes the rest the portion of errors.
func (sc *scanner) resume() {
	sc.in = Portion{Code: sc.rest, Line: int(sc.pos.Line), Col: int(sc.pos.Col), Field: sc.in.Field}
}

// refuse is error with the exact position of the mistake.
func (sc *scanner) refuse(pos syntax.Position, format string, args ...any) {
	panic(&Error{Error: syntax.Error{Pos: pos, Msg: fmt.Sprintf(format, args...)}, In: sc.in, Exact: true})
}

// tokenValue is the data of a token.
type tokenValue struct {
	raw   string // as in the source
	int   int64
	big   *big.Int // of integers with more than 64 bits
	float float64
	text  string // of a string or bytes literal
	pos   syntax.Position
}

func (sc *scanner) startToken(val *tokenValue) {
	sc.start = sc.rest
	val.raw = ""
	val.pos = sc.pos
}

func (sc *scanner) endToken(val *tokenValue) {
	val.raw = sc.start[:len(sc.start)-len(sc.rest)]
}

// nextToken scans the next token, and sets val to the token's data.
func (sc *scanner) nextToken(val *tokenValue) syntax.Token {
	for {
		blank, afterNewline := false, sc.lineStart
		if sc.lineStart {
			blank = sc.indentation()
		}
		if sc.dents != 0 {
			sc.startToken(val)
			if sc.dents < 0 {
				sc.dents++
				return syntax.OUTDENT
			}
			sc.dents--
			return syntax.INDENT
		}
		switch c := sc.skipBlanks(); {
		case c == '\n':
			sc.lineStart = true
			if sc.depth > 0 || blank {
				sc.readRune()
				continue
			}
			sc.startToken(val)
			sc.readRune()
			val.raw = "\n"
			return syntax.NEWLINE
		case c == 0:
			if len(sc.indents) == 1 {
				sc.startToken(val)
				return syntax.EOF
			}
			if afterNewline {
				sc.inBlock = true
				sc.dents = 1 - len(sc.indents)
				sc.indents = sc.indents[:1]
				continue
			}
			sc.lineStart = true
			sc.startToken(val)
			val.raw = "\n"
			return syntax.NEWLINE
		case c == '\\':
			sc.readRune()
			if sc.peekRune() != '\n' {
				sc.error(sc.pos, "stray backslash in program")
			}
			sc.readRune()
		default:
			sc.startToken(val)
			return sc.token(val, c)
		}
	}
}

// indentation reads the start of a line, and reports whether the line is blank.
func (sc *scanner) indentation() (blank bool) {
	sc.lineStart = false
	col := 0
	c := sc.peekRune()
	for ; c == ' ' || c == '\t'; c = sc.peekRune() {
		if c == ' ' {
			col++
		} else {
			const tab = 8
			col += int(tab - (sc.pos.Col-1)%tab)
		}
		sc.readRune()
	}
	if c == '#' || c == '\n' || c == 0 {
		return true
	}
	if sc.depth > 0 {
		return false
	}
	if sc.script { // the whole script may be indented
		sc.script = false
		sc.indents[0] = col
	}
	last := len(sc.indents) - 1
	switch {
	case col > sc.indents[last]:
		sc.dents++
		sc.indents = append(sc.indents, col)
	case col < sc.indents[last]:
		for last > 0 && col < sc.indents[last] {
			sc.dents--
			last--
		}
		sc.indents = sc.indents[:last+1]
		if col != sc.indents[last] {
			sc.error(sc.pos, "unindent does not match any outer indentation level")
		}
	}
	return false
}

// skipBlanks skips spaces and a comment, and returns the next character.
func (sc *scanner) skipBlanks() rune {
	c := sc.peekRune()
	for c == ' ' || c == '\t' {
		sc.readRune()
		c = sc.peekRune()
	}
	if c == '#' {
		for c != 0 && c != '\n' {
			sc.readRune()
			c = sc.peekRune()
		}
	}
	return c
}

// token scans a token beginning with c.
func (sc *scanner) token(val *tokenValue, c rune) syntax.Token {
	switch {
	case c == ',':
		sc.readRune()
		sc.endToken(val)
		return syntax.COMMA
	case c == '"' || c == '\'':
		return sc.scanString(val, 0)
	case isIdentStart(c):
		return sc.word(val, c)
	case isdigit(c) || c == '.':
		return sc.number(val, c)
	}
	tok := sc.punctuation(c)
	sc.endToken(val)
	return tok
}

// word scans a name, a keyword, or a literal with a prefix.
func (sc *scanner) word(val *tokenValue, c rune) syntax.Token {
	for isIdent(c) {
		sc.readRune()
		c = sc.peekRune()
	}
	sc.endToken(val)
	if (c == '"' || c == '\'') && len(val.raw) <= 2 && IsStringPrefix(val.raw) {
		return sc.scanString(val, len(val.raw))
	}
	if k, ok := keywords[val.raw]; ok {
		return k
	}
	return syntax.IDENT
}

// operators of more than one character, longest first where an operator begins another.
var operators = []struct {
	text string
	tok  syntax.Token
}{
	{"**=", powEQ}, {"//=", syntax.SLASHSLASH_EQ}, {"<<=", syntax.LTLT_EQ}, {">>=", syntax.GTGT_EQ},
	{"==", syntax.EQL}, {"+=", syntax.PLUS_EQ}, {"-=", syntax.MINUS_EQ}, {"<=", syntax.LE}, {">=", syntax.GE}, {"!=", syntax.NEQ},
	{"**", syntax.STARSTAR}, {"//", syntax.SLASHSLASH}, {"<<", syntax.LTLT}, {">>", syntax.GTGT},
	{"*=", syntax.STAR_EQ}, {"/=", syntax.SLASH_EQ}, {"%=", syntax.PERCENT_EQ}, {"&=", syntax.AMP_EQ}, {"|=", syntax.PIPE_EQ},
	{"^=", syntax.CIRCUMFLEX_EQ}, {":=", walrus}, {"->", arrow},
}

var characters = map[rune]syntax.Token{
	'=': syntax.EQ, '<': syntax.LT, '>': syntax.GT, '+': syntax.PLUS, '-': syntax.MINUS, '*': syntax.STAR, '/': syntax.SLASH,
	'%': syntax.PERCENT, '&': syntax.AMP, '|': syntax.PIPE, '^': syntax.CIRCUMFLEX, '~': syntax.TILDE, ':': syntax.COLON,
	';': syntax.SEMI, '@': at, '(': syntax.LPAREN, '[': syntax.LBRACK, '{': syntax.LBRACE,
	')': syntax.RPAREN, ']': syntax.RBRACK, '}': syntax.RBRACE,
}

func (sc *scanner) punctuation(c rune) syntax.Token {
	switch c {
	case '(', '[', '{':
		sc.depth++
		if sc.depth > maxDepth {
			sc.error(sc.pos, tooDeep)
		}
	case ')', ']', '}':
		if sc.depth == 0 {
			sc.error(sc.pos, "unexpected %q", c)
		}
		sc.depth--
	case '=', '+', '-', '*', '/', '<', '>', '!', '%', '&', '|', '^', ':':
		if len(sc.rest) > 1 && (sc.rest[1] == '=' || sc.rest[1] == '>' || sc.rest[1] == byte(c)) {
			for _, o := range operators {
				if len(sc.rest) >= len(o.text) && sc.rest[:len(o.text)] == o.text {
					sc.read(len(o.text))
					return o.tok
				}
			}
		}
	}
	tok, ok := characters[c]
	if !ok {
		sc.error(sc.pos, "unexpected input character %#q", c)
	}
	sc.readRune()
	return tok
}

// isIdent reports whether c may be part of a name.
func isIdent(c rune) bool { return isdigit(c) || isIdentStart(c) }

func isIdentStart(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= utf8.RuneSelf && unicode.IsLetter(c)
}

func isdigit(c rune) bool { return '0' <= c && c <= '9' }
