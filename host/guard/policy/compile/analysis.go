package compile

import (
	"fmt"
	"math"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// analysis finds the inputs of a condition, and mistakes beyond CEL's own.
type analysis struct {
	*condition
	costs costs
	tree  *ast.AST
	// computed reports computed names of members of args, which make each text in quotes a possible
	// name.
	computed bool
	texts    []string
	// at is the offset of a mistake, which mistake describes; "" for none.
	at      int32
	mistake string
}

// analyse sets the inputs of a condition, and notes the sizes of regular expressions in costs.
// mistake describes the mistake at an offset, "" for none.
func (c *condition) analyse(tree *ast.AST, costs costs) (at int32, mistake string) {
	for _, ref := range tree.ReferenceMap() {
		for _, v := range variables {
			if ref.Name == v.name {
				c.reads.Calls = c.reads.Calls || v.stateful
				c.reads.Arguments = c.reads.Arguments || v.name == "args"
				c.reads.Given = c.reads.Given || v.name == "session.private" || v.name == "session.untrusted"
				c.reads.Definition = c.reads.Definition || v.name == "tool.digest" || strings.HasPrefix(v.name, "tool.annotations.")
			}
		}
	}
	a := &analysis{condition: c, costs: costs, tree: tree}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(a.visit))
	if a.computed {
		for _, text := range a.texts {
			a.mention(text)
		}
	}
	return a.at, a.mistake
}

func (a *analysis) visit(e ast.Expr) {
	switch e.Kind() {
	case ast.SelectKind:
		a.mention(e.AsSelect().FieldName())
	case ast.CallKind:
		a.call(e.AsCall())
	case ast.ComprehensionKind:
		a.computed = a.computed || a.isMap(e.AsComprehension().IterRange())
	case ast.LiteralKind:
		switch v := e.AsLiteral().(type) {
		case types.String:
			a.texts = append(a.texts, string(v))
		case types.Double:
			if math.Abs(float64(v)) >= policy.ExactFloats {
				a.wrong(e, "is a number with a fraction that is too large to compare exactly (write it without a fraction)")
			}
		}
	}
}

func (a *analysis) call(call ast.CallExpr) {
	args := call.Args()
	var inserted ast.Expr // as often as the arguments of the request say
	switch name := call.FunctionName(); {
	case name == operators.Index:
		a.key(args[1], args[0])
	case name == operators.In:
		a.key(args[0], args[1])
	case name == "replace" && len(args) > 1:
		inserted = args[1]
	case name == "join" && len(args) > 0:
		inserted = args[0]
	case name == overloads.Matches && len(args) > 0:
		a.pattern(args[len(args)-1])
	}
	if inserted != nil && !isShort(inserted) {
		a.wrong(inserted, fmt.Sprintf("what %s() inserts must be a text in quotes of at most %d characters (the result could be as large as the memory)",
			call.FunctionName(), maxLiteral))
	}
}

// pattern compiles the regular expression of a call of matches().
func (a *analysis) pattern(e ast.Expr) {
	text, ok := types.String(""), false
	if e.Kind() == ast.LiteralKind {
		text, ok = e.AsLiteral().(types.String)
	}
	if !ok {
		a.wrong(e, "the pattern of matches() must be a text in quotes (one out of a request could take as long as it likes)")
		return
	}
	if mistake := a.costs.compilePattern(string(text)); mistake != "" {
		a.wrong(e, mistake)
	}
}

// isShort reports whether an expression is a short text in quotes.
func isShort(e ast.Expr) bool {
	if e.Kind() != ast.LiteralKind {
		return false
	}
	text, ok := e.AsLiteral().(types.String)
	return ok && len([]rune(string(text))) <= maxLiteral
}

// key notes the name of a member of an object.
func (a *analysis) key(key, of ast.Expr) {
	if key.Kind() != ast.LiteralKind {
		a.computed = a.computed || a.isMap(of)
	} else if text, ok := key.AsLiteral().(types.String); ok {
		a.mention(string(text))
	}
}

func (a *analysis) isMap(e ast.Expr) bool { return a.tree.GetType(e.ID()).Kind() == types.MapKind }

// mention notes the name of a member in the condition.
func (a *analysis) mention(name string) {
	folded := wire.Fold(name)
	a.names[folded] = append(a.names[folded], name)
}

func (a *analysis) wrong(e ast.Expr, text string) {
	place, _ := a.tree.SourceInfo().GetOffsetRange(e.ID())
	a.at, a.mistake = place.Start, text
}
