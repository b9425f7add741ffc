package interp

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
)

// syntaxHint guesses the intention from the tokens around the wrong token.
func syntaxHint(tokens []token, i int) string {
	at := func(j int) token {
		if j < 0 || j >= len(tokens) {
			return token{kind: endToken}
		}
		return tokens[j]
	}
	t, before, after := at(i), at(i-1), at(i+1)
	switch {
	case (t.is(",") || t.kind == wordToken) && startsWith(tokens, i, "except"):
		return "write except Error as e:"
	case t.is("=") && startsWith(tokens, i, "if", "elif", "while"):
		return "compare with =="
	case t.is("{") && startsWith(tokens, i, "if", "elif", "else", "for", "while", "def", "try", "except", "finally"):
		return "blocks begin with a colon, and their lines are indented"
	case t.kind == wordToken && before.startsStatement && (before.is("var") || before.is("let") || before.is("const")):
		return "assign without a word in front: x = 1"
	case t.kind == wordToken && before.startsStatement && (before.is("function") || before.is("func") || before.is("fn")):
		return "a function is def name(parameters): and its indented body"
	case t.is("then"):
		return "write a colon instead of then"
	case t.is("return") && before.is(":"):
		return "the body of a lambda is one expression, without return (write def for more)"
	case t.is("else") && t.innermostBracket != 0, t.is("if") && (before.is("[") || before.is("{")):
		return "the choice comes first: [x if a else b for x in xs]"
	case t.is("else") && t.startsStatement:
		return "there is no if, loop or try at the same indentation"
	case t.is("elif") && t.startsStatement:
		return "there is no if at the same indentation"
	case t.is("if") && before.kind != newlineToken && !t.startsStatement && !before.is("else") && !isOpening(before):
		return "write a if condition else b"
	case t.is("=") && startsWith(tokens, i, "lambda"):
		return "a lambda assigns nothing (write def)"
	case t.is("//") && t.startsStatement, t.is("/") && after.is("*"), before.is("//") && before.startsStatement:
		return "a comment begins with #"
	case t.kind == wordToken && before.kind == stringToken && !t.spaceBefore:
		return `escape a quote inside text as \' or \", or put other quotes around the text`
	case before.is("print") && before.startsStatement:
		return "print is a function: print(...)"
	case before.is("match") && before.startsStatement:
		return "a match statement ends its line with a colon, and has indented lines with case"
	case t.is("&") && (before.is("&") || after.is("&")):
		return "write and instead of &&"
	case t.is("|") && (before.is("|") || after.is("|")):
		return "write or instead of ||"
	case t.is("!"):
		return "write not instead of !"
	case t.is("?"):
		return "write a if condition else b"
	case t.is("if") && before.is("else"):
		return "write elif"
	case (before.is("+") && at(i-2).is("+")) || (before.is("-") && at(i-2).is("-")):
		return "write x += 1 or x -= 1"
	}
	return ""
}

// startsWith reports whether the statement of token i begins with any of the words.
func startsWith(tokens []token, i int, words ...string) bool {
	for i--; i >= 0; i-- {
		for _, w := range words {
			if tokens[i].is(w) && (tokens[i].startsStatement || w == "lambda") {
				return true
			}
		}
		if tokens[i].startsStatement {
			break
		}
	}
	return false
}

func isOpening(t token) bool {
	return t.kind == punctToken && strings.HasSuffix("([{,=:+-*/%<>|&", t.text)
}

// unclosed returns the bracket still open at a token that should be outside brackets: at the end,
// or on a later line.
func unclosed(in parse.Portion, at token) *token {
	l := lexer{code: in.Code, line: in.Line, col: in.Col, statement: true}
	var open []token
	for l.pos < len(l.code) && (l.line < at.line || l.line == at.line && l.col <= at.col) {
		l.scan()
		if len(l.tokens) == 0 {
			continue
		}
		t := l.tokens[0]
		l.tokens = l.tokens[:0]
		if t.line > at.line || t.line == at.line && t.col >= at.col {
			break
		}
		switch {
		case t.is("("), t.is("["), t.is("{"):
			open = append(open, t)
		case (t.is(")") || t.is("]") || t.is("}")) && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	if n := len(open); n > 0 && (at.kind == endToken || open[n-1].line < at.line) {
		return &open[n-1]
	}
	return nil
}
