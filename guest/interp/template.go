package interp

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// joined returns the replacement of adjacent string literals and f-strings: a
// literal, or (template | (value, ...)).
func (r *rewriter) joined(m *parse.Joined, placeholder *syntax.Literal) syntax.Expr {
	texts, values := r.pieces(m.Pieces)
	if len(values) == 0 {
		placeholder.Value = texts[0]
		if m.Bytes {
			placeholder.Token = syntax.BYTES
		}
		return placeholder
	}
	return r.fill(placeholder.TokenPos, texts, values)
}

// pieces divides pieces into the texts before, between and after the values.
func (r *rewriter) pieces(pieces []parse.Piece) (texts []string, values []syntax.Expr) {
	var text strings.Builder
	for _, p := range pieces {
		if p.Expr == nil {
			text.WriteString(p.Text)
			continue
		}
		texts = append(texts, text.String())
		text.Reset()
		values = append(values, r.field(p))
	}
	return append(texts, text.String()), values
}

func (r *rewriter) fill(pos syntax.Position, texts []string, values []syntax.Expr) syntax.Expr {
	name := r.value(&template{texts: texts})
	return operator(pos, name, &syntax.TupleExpr{Lparen: pos, List: values, Rparen: pos})
}

// field returns the value of a field: the expression, or (field | (expression,
// spec)).
func (r *rewriter) field(p parse.Piece) syntax.Expr {
	x := r.expr(p.Expr)
	if p.Conversion == 0 && !p.HasSpec {
		return x
	}
	f := &formatField{conversion: p.Conversion}
	texts, values := r.pieces(p.Spec)
	if len(values) == 0 {
		spec, err := parseSpec(texts[0])
		if err != nil {
			r.fail(p.Pos, "%v", err)
		}
		f.spec, f.known = spec, true
		return operator(p.Pos, r.value(f), x)
	}
	pair := []syntax.Expr{x, r.fill(p.Pos, texts, values)}
	return operator(p.Pos, r.value(f), &syntax.TupleExpr{Lparen: p.Pos, List: pair, Rparen: p.Pos})
}

// template makes (template | (value, ...)) the text with the values filled in.
type template struct {
	operandOnly
	texts []string // one more than values
}

func (t *template) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	var b strings.Builder
	b.WriteString(t.texts[0])
	for i, v := range y.(starlark.Tuple) {
		if instanceOf(v) == nil {
			b.WriteString(text(v))
		} else if out, err := (formatSpec{}).format(v); err == nil {
			b.WriteString(out)
		} else {
			return nil, err
		}
		b.WriteString(t.texts[i+1])
	}
	return starlark.String(b.String()), nil
}

// formatField makes (field | value), or (field | (value, spec)), the text of a
// value.
type formatField struct {
	operandOnly
	conversion byte
	spec       formatSpec
	known      bool // spec is set, and is not part of the operand
}

func (f *formatField) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	spec := f.spec
	if !f.known {
		pair := y.(starlark.Tuple)
		y = pair[0]
		var err error
		if spec, err = parseSpec(string(pair[1].(starlark.String))); err != nil {
			return nil, err
		}
	}
	out, err := spec.format(convert(y, f.conversion))
	return starlark.String(out), err
}

// convert implements !r, !s and !a.
func convert(v starlark.Value, conversion byte) starlark.Value {
	switch conversion {
	case 'r', 'a':
		return starlark.String(repr(v))
	case 's':
		return starlark.String(text(v))
	}
	return v
}
