package interp

import (
	"slices"

	"go.starlark.net/syntax"
)

// The grammar has no is, but reserves the word. Of None, True and False there is
// one value each, and type(x) is text, so with these == means the same; with
// anything else it would not, and is refused.
//
//	x is None         x == None
//	x is not None     x !=     None

// identity replaces is, and the not after it, if t is that. It stands between
// operands: anywhere else it is a name that cannot be one, and stays.
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

// isOperandEnd says whether an operator can follow a token.
func isOperandEnd(t token) bool {
	switch t.kind {
	case wordToken:
		return isName(t.text)
	case numberToken, stringToken:
		return true
	}
	return t.is(")") || t.is("]") || t.is("}")
}

// isOperandStart says whether a token can follow an operator.
func isOperandStart(t token) bool {
	switch t.kind {
	case wordToken:
		return isName(t.text)
	case numberToken, stringToken:
		return true
	}
	return t.is("(") || t.is("[") || t.is("{") || t.is("-")
}

// isName says whether a word is neither a keyword nor reserved.
func isName(word string) bool {
	_, reserved := reservedWords[word]
	return !reserved && !slices.Contains(keywords, word)
}

// identical refuses a comparison that stands for is, and that == does not mean
// the same as.
func (r *rewriter) identical(e *syntax.BinaryExpr) {
	if r.marks.find(e.OpPos, isMark) == nil {
		return
	}
	word, operator := "is", "=="
	if e.Op == syntax.NEQ {
		word, operator = "is not", "!="
	}
	switch {
	case isSingle(e.X) || isSingle(e.Y):
	case isTypeCall(e.X) || isTypeCall(e.Y):
		r.typesAre = append(r.typesAre, e.OpPos)
	default:
		r.fail(e.OpPos, "syntax error: %s compares only with None, True, False, and type(x) with a type: write %s", word, operator)
	}
}

// isSingle says whether an expression is one of the values that there is one of.
func isSingle(e syntax.Expr) bool {
	id, ok := unparen(e).(*syntax.Ident)
	return ok && (id.Name == "None" || id.Name == "True" || id.Name == "False")
}
