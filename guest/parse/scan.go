// Parts of this file are derived from go.starlark.net/syntax,
// Copyright 2017 The Bazel Authors. All rights reserved.
// Use of that source code is governed by a BSD-style license: see THIRD_PARTY_NOTICES.

package parse

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
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

// Tokens missing from the library's grammar.
const (
	fstringToken syntax.Token = 100 + iota
	walrus                    // :=
	arrow                     // ->
	at                        // @
	ellipsis                  // ...
	powEQ                     // **=
	assert
)

var extraTokens = map[syntax.Token]string{
	fstringToken: "string literal", walrus: ":=", arrow: "->", at: "@", ellipsis: "...", powEQ: "**=", assert: "assert",
}

// describe returns a token in the form of messages.
func describe(tok syntax.Token) string {
	if text, ok := extraTokens[tok]; ok {
		if tok == fstringToken {
			return text
		}
		return "'" + text + "'"
	}
	return fmt.Sprintf("%#v", tok)
}

// plain is describe without quotes.
func plain(tok syntax.Token) string {
	if text, ok := extraTokens[tok]; ok {
		return text
	}
	return tok.String()
}

// keywords are the words not allowed as names.
var keywords = map[string]syntax.Token{
	"and":      syntax.AND,
	"break":    syntax.BREAK,
	"continue": syntax.CONTINUE,
	"def":      syntax.DEF,
	"elif":     syntax.ELIF,
	"else":     syntax.ELSE,
	"for":      syntax.FOR,
	"if":       syntax.IF,
	"in":       syntax.IN,
	"lambda":   syntax.LAMBDA,
	"load":     syntax.LOAD,
	"not":      syntax.NOT,
	"or":       syntax.OR,
	"pass":     syntax.PASS,
	"return":   syntax.RETURN,
	"while":    syntax.WHILE,
	"as":       syntax.AS,
	"assert":   assert,
	"async":    syntax.ASYNC,
	"await":    syntax.AWAIT,
	"class":    syntax.CLASS,
	"del":      syntax.DEL,
	"except":   syntax.EXCEPT,
	"finally":  syntax.FINALLY,
	"from":     syntax.FROM,
	"global":   syntax.GLOBAL,
	"import":   syntax.IMPORT,
	"is":       syntax.IS,
	"nonlocal": syntax.NONLOCAL,
	"raise":    syntax.RAISE,
	"try":      syntax.TRY,
	"with":     syntax.WITH,
	"yield":    syntax.YIELD,
}

// Comparisons have one level and may be chained; the other operators associate to
// the left. Unary operators and ** bind more closely: see power.
var levels = [...][]syntax.Token{
	{syntax.OR},
	{syntax.AND},
	{syntax.NOT},
	{syntax.EQL, syntax.NEQ, syntax.LT, syntax.GT, syntax.LE, syntax.GE, syntax.IN, syntax.NOT_IN, syntax.IS},
	{syntax.PIPE},
	{syntax.CIRCUMFLEX},
	{syntax.AMP},
	{syntax.LTLT, syntax.GTGT},
	{syntax.MINUS, syntax.PLUS},
	{syntax.STAR, syntax.PERCENT, syntax.SLASH, syntax.SLASHSLASH},
}

const (
	notLevel        = 2
	comparisonLevel = 3
)

// precedence maps each operator to its level, and other tokens to -1.
var precedence = func() (out [128]int8) {
	for i := range out {
		out[i] = -1
	}
	for level, tokens := range levels {
		for _, tok := range tokens {
			out[tok] = int8(level)
		}
	}
	return out
}()

// number scans a number, or a dot or three.
func (sc *scanner) number(val *tokenValue, c rune) syntax.Token {
	start := sc.pos
	if c == '.' && (len(sc.rest) < 2 || !isdigit(rune(sc.rest[1]))) {
		if strings.HasPrefix(sc.rest, "...") {
			sc.read(3)
			sc.endToken(val)
			return ellipsis
		}
		sc.readRune()
		sc.endToken(val)
		return syntax.DOT
	}
	if c == '0' && len(sc.rest) > 1 {
		switch sc.rest[1] {
		case 'x', 'X':
			return sc.based(val, "hex", isxdigit)
		case 'o', 'O':
			return sc.based(val, "octal", func(c rune) bool { return '0' <= c && c <= '7' })
		case 'b', 'B':
			return sc.based(val, "binary", func(c rune) bool { return c == '0' || c == '1' })
		}
	}
	sc.digits(isdigit)
	fraction := false
	if sc.peekRune() == '.' {
		fraction = true
		sc.readRune()
		sc.digits(isdigit)
	}
	if c := sc.peekRune(); c == 'e' || c == 'E' {
		fraction = true
		sc.readRune()
		if c := sc.peekRune(); c == '+' || c == '-' {
			sc.readRune()
		}
		if !isdigit(sc.peekRune()) {
			sc.error(sc.pos, "invalid float literal")
		}
		sc.digits(isdigit)
	}
	sc.endToken(val)
	text := strings.ReplaceAll(val.raw, "_", "")
	if fraction {
		var err error
		if val.float, err = strconv.ParseFloat(text, 64); err != nil {
			sc.error(sc.pos, "invalid float literal")
		}
		return syntax.FLOAT
	}
	if len(text) > 1 && text[0] == '0' && strings.Trim(text, "0") != "" {
		sc.error(sc.pos, "obsolete form of octal literal; use 0o%s", text[1:])
	}
	return sc.integer(val, start, text, 10)
}

// based scans an integer with a prefix.
func (sc *scanner) based(val *tokenValue, kind string, isDigit func(rune) bool) syntax.Token {
	start := sc.pos
	sc.read(2)
	if c := sc.peekRune(); !isDigit(c) && c != '_' {
		sc.error(start, "invalid %s literal", kind)
	}
	sc.digits(isDigit)
	sc.endToken(val)
	base := map[string]int{"hex": 16, "octal": 8, "binary": 2}[kind]
	return sc.integer(val, start, strings.ReplaceAll(val.raw[2:], "_", ""), base)
}

// digits skips digits, with single underscores between them.
func (sc *scanner) digits(isDigit func(rune) bool) {
	for {
		c := sc.peekRune()
		if c == '_' && len(sc.rest) > 1 && isDigit(rune(sc.rest[1])) {
			sc.readRune()
			continue
		}
		if !isDigit(c) {
			return
		}
		sc.readRune()
	}
}

func (sc *scanner) integer(val *tokenValue, start syntax.Position, text string, base int) syntax.Token {
	val.big = nil
	n, err := strconv.ParseInt(text, base, 64)
	if err != nil {
		var ok bool
		if val.big, ok = new(big.Int).SetString(text, base); !ok {
			sc.error(start, "invalid int literal")
		}
	}
	val.int = n
	return syntax.INT
}

func isxdigit(c rune) bool {
	return isdigit(c) || 'A' <= c && c <= 'F' || 'a' <= c && c <= 'f'
}

// scanString scans a literal after its prefix of n letters.
func (sc *scanner) scanString(val *tokenValue, prefix int) syntax.Token {
	if prefix > 0 && strings.ContainsAny(sc.start[:prefix], "fF") {
		length, _, failure := ScanFString(sc.start, 0)
		if failure != nil {
			sc.readBytes(min(max(failure.At-prefix, 0), len(sc.rest)))
			at := val.pos
			if failure.At > 0 {
				at = sc.pos
			}
			sc.refuse(at, "%s", failure.Message)
		}
		sc.readBytes(length - prefix)
		sc.endToken(val)
		return fstringToken
	}
	length, quotes, closed := stringEnd(sc.rest)
	if !closed {
		what := "EOF"
		if length < len(sc.rest) {
			what = "newline"
		}
		sc.readBytes(length)
		sc.error(val.pos, "unexpected %s in string", what)
	}
	sc.readBytes(length)
	sc.endToken(val)
	letters := strings.ToLower(val.raw[:prefix])
	body := val.raw[prefix+quotes : len(val.raw)-quotes]
	isBytes := strings.Contains(letters, "b")
	text, message := unquote(body, strings.Contains(letters, "r"), isBytes)
	if message != "" {
		sc.error(val.pos, "%s", message)
	}
	val.text = text
	if isBytes {
		return syntax.BYTES
	}
	return syntax.STRING
}

// unquote decodes the text between quotes. As in Python, a backslash before a character without an
// escape stays.
func unquote(body string, raw, isBytes bool) (text, message string) {
	if strings.ContainsRune(body, '\r') {
		body = strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", "\n"), "\r", "\n")
	}
	if raw || !strings.Contains(body, `\`) {
		return body, ""
	}
	var b strings.Builder
	for body != "" {
		i := strings.IndexByte(body, '\\')
		if i < 0 || i+1 == len(body) {
			b.WriteString(body)
			break
		}
		b.WriteString(body[:i])
		body = body[i+1:]
		n, message := unescape(&b, body, isBytes)
		if message != "" {
			return "", message
		}
		body = body[n:]
	}
	return b.String(), ""
}

var simpleEscapes = map[byte]byte{
	'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '\\': '\\', '\'': '\'', '"': '"',
}

// unescape decodes the escape after a backslash, and returns its length in bytes.
func unescape(b *strings.Builder, s string, isBytes bool) (n int, message string) {
	c := s[0]
	if plain, ok := simpleEscapes[c]; ok {
		b.WriteByte(plain)
		return 1, ""
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	switch {
	case c == '\n':
		return 1, ""
	case c >= '0' && c <= '7':
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		v, _ := strconv.ParseUint(s[:n], 8, 16)
		write(b, rune(v), isBytes)
		return n, ""
	case c == 'N' && !isBytes && strings.HasPrefix(s, "N{"):
		return 0, `\N{...} is not available: write the character itself, or \uXXXX`
	case digits == 0 || isBytes && c != 'x':
		b.WriteByte('\\')
		return 0, ""
	}
	end := min(1+digits, len(s))
	v, err := strconv.ParseUint(s[1:end], 16, 32)
	switch {
	case err != nil || end != 1+digits:
		return 0, `truncated escape sequence \` + s[:end] + ` (it has ` + strconv.Itoa(digits) + " hexadecimal digits)"
	case c != 'x' && !utf8.ValidRune(rune(v)):
		return 0, `invalid Unicode code point \` + s[:end]
	}
	write(b, rune(v), isBytes)
	return end, ""
}

func write(b *strings.Builder, r rune, isBytes bool) {
	if isBytes {
		b.WriteByte(byte(r))
		return
	}
	b.WriteRune(r)
}

// IsStringPrefix reports whether a word right before a quote belongs to a string
// literal of Python.
func IsStringPrefix(word string) bool {
	switch strings.ToLower(word) {
	case "r", "b", "rb", "br", "u", "f", "fr", "rf":
		return true
	}
	return false
}

// IsFString reports whether a literal is an f-string.
func IsFString(literal string) bool {
	return strings.ContainsAny(literal[:strings.IndexAny(literal, `"'`)], "fF")
}

// LiteralLength is the length of the string literal at the start of s, with a prefix of n letters.
func LiteralLength(s string, n int) int {
	if IsFString(s) {
		length, _, _ := ScanFString(s, 0)
		return length
	}
	return n + StringLength(s[n:])
}

// StringLength is the length of the string literal at the start of s, up to the end of line if not
// closed.
func StringLength(s string) int {
	length, _, _ := stringEnd(s)
	return length
}

// stringEnd is StringLength, with the number of the literal's quotes and whether the literal is
// closed.
func stringEnd(s string) (length, quotes int, closed bool) {
	quote := s[:1]
	if strings.HasPrefix(s, strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == quote[0] && strings.HasPrefix(s[i:], quote):
			return i + len(quote), len(quote), true
		case s[i] == '\\':
			i++
		case len(quote) == 1 && (s[i] == '\n' || s[i] == '\r'):
			return i, len(quote), false
		}
	}
	return len(s), len(quote), false
}

// IsWordStart reports whether a name or keyword begins at the start of s.
func IsWordStart(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r == '_' || unicode.IsLetter(r)
}

// RunLength is the length of the letters, digits and underscores s starts with.
func RunLength(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return i
		}
	}
	return len(s)
}
