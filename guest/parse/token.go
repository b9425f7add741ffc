package parse

import (
	"fmt"

	"go.starlark.net/syntax"
)

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
