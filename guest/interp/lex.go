package interp

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
)

// tokenKind is the kind of a token, as needed for hints.
type tokenKind int

const (
	wordToken tokenKind = iota
	numberToken
	stringToken
	punctToken
	newlineToken
	endToken
)

// A token is a piece of source. Lines and columns count from 1, columns in code points; the end is
// the position after the token.
type token struct {
	kind             tokenKind
	text             string
	pos              int // offset in bytes
	line, col        int
	endLine, endCol  int
	spaceBefore      bool
	insideBrackets   bool
	startsStatement  bool
	innermostBracket byte // '(', '[', '{', or 0
}

func (t token) is(text string) bool { return t.kind != stringToken && t.text == text }

// lex splits any text into tokens; the last token is the end. lex is only used for error messages:
// the library's own scanner decides what is valid.
func lex(code string) []token {
	return lexAround(parse.Portion{Code: code, Line: 1, Col: 1}, math.MaxInt, 0, math.MaxInt)
}

// lexAround returns only the tokens around a position: at least keep tokens before the position,
// and as many after. All tokens of a long script could take more memory than the run may use.
func lexAround(p parse.Portion, line, col, keep int) []token {
	l := lexer{code: p.Code, line: p.Line, col: p.Col, statement: true}
	for after := 0; l.pos < len(l.code) && after < keep; {
		l.scan()
		if l.line > line || l.line == line && l.col > col {
			after++
		}
		if n := len(l.tokens); after == 0 && n > 512 && n/2 > keep {
			l.tokens = l.tokens[:copy(l.tokens, l.tokens[n-keep-1:])]
		}
	}
	return append(l.tokens, token{kind: endToken, line: l.line, col: l.col, endLine: l.line, endCol: l.col})
}

type lexer struct {
	code      string
	pos       int
	line, col int
	brackets  []byte
	space     bool // after white space
	statement bool // at the start of a statement
	tokens    []token
}

var punctuation = []string{
	"**=", "//=", "<<=", ">>=", "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
}

func (l *lexer) scan() {
	c := l.code[l.pos]
	rest := l.code[l.pos:]
	switch {
	case c == ' ' || c == '\t' || strings.HasPrefix(rest, "\\\n") || strings.HasPrefix(rest, "\\\r"):
		l.space = true
		l.advance(1)
		if c == '\\' {
			l.advance(1)
		}
	case c == '\n' || c == '\r':
		if len(l.brackets) > 0 {
			l.advance(1)
			l.space = true
			return
		}
		l.emit(newlineToken, 1)
		l.statement = true
	case c == '#':
		n := strings.IndexAny(rest, "\r\n")
		if n < 0 {
			n = len(rest)
		}
		l.advance(n)
	case c == '"' || c == '\'':
		l.emit(stringToken, parse.StringLength(rest))
	case '0' <= c && c <= '9':
		l.emit(numberToken, parse.RunLength(rest))
	case parse.IsWordStart(rest):
		n := parse.RunLength(rest)
		if n < len(rest) && (rest[n] == '"' || rest[n] == '\'') && parse.IsStringPrefix(rest[:n]) {
			l.emit(stringToken, parse.LiteralLength(rest, n))
			return
		}
		l.emit(wordToken, n)
	default:
		l.punct(rest)
	}
}

func (l *lexer) punct(rest string) {
	for _, p := range punctuation {
		if strings.HasPrefix(rest, p) {
			l.emit(punctToken, len(p))
			return
		}
	}
	_, n := utf8.DecodeRuneInString(rest)
	l.emit(punctToken, n)
	switch rest[0] {
	case '(', '[', '{':
		l.brackets = append(l.brackets, rest[0])
	case ')', ']', '}':
		if n := len(l.brackets); n > 0 {
			l.brackets = l.brackets[:n-1]
		}
	}
}

// emit appends a token of n bytes and skips the bytes.
func (l *lexer) emit(kind tokenKind, n int) {
	t := token{
		kind: kind, text: l.code[l.pos : l.pos+n], pos: l.pos, line: l.line, col: l.col,
		spaceBefore: l.space, insideBrackets: len(l.brackets) > 0, startsStatement: l.statement,
	}
	if b := len(l.brackets); b > 0 {
		t.innermostBracket = l.brackets[b-1]
	}
	l.advance(n)
	l.space, l.statement = false, kind != newlineToken && t.text == ";"
	t.endLine, t.endCol = l.line, l.col
	l.tokens = append(l.tokens, t)
}

// advance skips n bytes. \n, \r and \r\n each end a line; \r\n is skipped as a
// whole.
func (l *lexer) advance(n int) {
	for end := l.pos + n; l.pos < end && l.pos < len(l.code); {
		r, size := utf8.DecodeRuneInString(l.code[l.pos:])
		l.pos += size
		l.col++
		if r == '\r' && l.pos < len(l.code) && l.code[l.pos] == '\n' {
			l.pos++
			r = '\n'
		}
		if r == '\n' || r == '\r' {
			l.line++
			l.col = 1
		}
	}
}

// isIdentifier reports whether s has the form of a name, as reserved words do too.
func isIdentifier(s string) bool {
	return s != "" && parse.IsWordStart(s) && parse.RunLength(s) == len(s)
}
