package interp

import (
	"slices"

	"go.starlark.net/syntax"
)

// The grammar reserves the word is, but has no such operator. None, True and False have
// one value each, and type(x) is text, so with these operands "is" means the same as
// ==. With other operands it does not, and is refused.
//
//	x is None         x == None
//	x is not None     x !=     None

// identity replaces "is", and "not" after it, between two operands. Anywhere else, the
// word is a misused name and is left alone.
func (m *marker) identity(t, next token) bool {
	switch {
	case t.is("is") && isOperandEnd(m.prev) && (isOperandStart(next) || next.is("not")):
		operator := "=="
		if next.is("not") {
			operator = "!="
		}
		m.edit(t.pos, len(t.text), operator)
		m.add(t, &mark{kind: isMark})
		return true
	case t.is("not") && m.prev.is("is") && m.marks[placeOfToken(m.prev)] != nil:
		m.edit(t.pos, len(t.text), "   ")
		return true
	}
	return false
}

// isOperandEnd reports whether an operator can follow a token.
func isOperandEnd(t token) bool {
	switch t.kind {
	case wordToken:
		return isName(t.text)
	case numberToken, stringToken:
		return true
	}
	return t.is(")") || t.is("]") || t.is("}")
}

// isOperandStart reports whether a token can follow an operator.
func isOperandStart(t token) bool {
	switch t.kind {
	case wordToken:
		return isName(t.text)
	case numberToken, stringToken:
		return true
	}
	return t.is("(") || t.is("[") || t.is("{") || t.is("-")
}

// isName reports whether a word is neither a keyword nor reserved.
func isName(word string) bool {
	_, reserved := reservedWords[word]
	return !reserved && !slices.Contains(keywords, word)
}

// identical refuses a comparison with "is" if == does not mean the same for its
// operands.
func (r *rewriter) identical(e *syntax.BinaryExpr) {
	if r.marks.find(e.OpPos, isMark) == nil {
		return
	}
	word, operator := "is", "=="
	if e.Op == syntax.NEQ {
		word, operator = "is not", "!="
	}
	switch {
	case isSingleton(e.X) || isSingleton(e.Y):
	case isTypeCall(e.X) || isTypeCall(e.Y):
		r.typeIdentities = append(r.typeIdentities, e.OpPos)
	default:
		r.fail(e.OpPos, "syntax error: %s only compares with None, True or False, or type(x) with a type: write %s", word, operator)
	}
}

// isSingleton reports whether an expression is None, True or False.
func isSingleton(e syntax.Expr) bool {
	id, ok := unparen(e).(*syntax.Ident)
	return ok && (id.Name == "None" || id.Name == "True" || id.Name == "False")
}
