// Package compile compiles the policy of a configuration, with its conditions in CEL
// (github.com/google/cel-spec). Begin with [Policy] and [Of]. Only programs that judge by a policy
// link this package; all other code gets by with package policy.
package compile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// Bounds of conditions. A unit of cost is about ten nanoseconds.
const (
	maxCost      = 1_000_000 // of an evaluation; more is a failure
	maxItems     = 2_000     // items for exists(), all() and the like in an evaluation; more is a failure
	maxLiteral   = 100       // length of texts inserted by replace() and join(), in code points
	maxCondition = 10_000    // length of a condition in code points
	maxRegexp    = 1_000     // instructions of the program of a regular expression
	maxNested    = 50        // depth of a condition

	// Assumptions for the estimated cost of a condition before the first evaluation.
	assumedText  = 1_000 // length of a text in the arguments
	assumedItems = 100   // members of an object, items of an array
)

// variables are the variables of conditions. A name with dots is a variable of its own, so the
// compiler finds a misspelled name.
var variables = []struct {
	name     string
	kind     *cel.Type
	stateful bool
}{
	{"args", cel.MapType(cel.StringType, cel.DynType), false},
	{"kind", cel.StringType, false},
	{"target", cel.StringType, false},
	{"server", cel.StringType, false},
	{"name", cel.StringType, false},
	{"tool.name", cel.StringType, false},
	{"tool.server", cel.StringType, false},
	{"tool.digest", cel.StringType, false},
	{"tool.annotations.title", cel.StringType, false},
	{"tool.annotations.readOnlyHint", cel.BoolType, false},
	{"tool.annotations.destructiveHint", cel.BoolType, false},
	{"tool.annotations.idempotentHint", cel.BoolType, false},
	{"tool.annotations.openWorldHint", cel.BoolType, false},
	{"client", cel.StringType, false},
	{"client.token", cel.BoolType, false},
	{"script", cel.StringType, false},
	{"session.called", cel.ListType(cel.StringType), true},
	{"session.servers", cel.ListType(cel.StringType), true},
	{"session.private", cel.BoolType, true},
	{"session.untrusted", cel.BoolType, true},
	{"run.called", cel.ListType(cel.StringType), true},
	{"run.servers", cel.ListType(cel.StringType), true},
	{"calls.session", cel.IntType, true},
	{"calls.run", cel.IntType, true},
	{"calls.minute", cel.IntType, true},
	{"calls.tool.session", cel.IntType, true},
	{"calls.tool.run", cel.IntType, true},
	{"calls.tool.minute", cel.IntType, true},
}

// environment returns the environment for compiling conditions.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	opts := []cel.EnvOption{
		ext.Strings(ext.StringsVersion(5)), // the first with costs
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxCondition),
		cel.ParserRecursionLimit(maxNested),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}
	opts = append(opts, searching()...)
	for _, v := range variables {
		opts = append(opts, cel.Variable(v.name, v.kind))
	}
	return cel.NewEnv(opts...)
})

// condition is a compiled condition. Concurrent use is safe.
type condition struct {
	program cel.Program
	reads   policy.Reads
	// names are the names of members in the condition, by the form in which parsers that ignore
	// case and separators compare names.
	names map[string][]string
}

// newCondition compiles the text of a condition. The errors lack the index of the
// rule.
func newCondition(text string) (policy.Condition, []*policy.RuleError) {
	fail := func(offset int, format string, args ...any) []*policy.RuleError {
		return []*policy.RuleError{{Offset: offset, Text: fmt.Sprintf(format, args...)}}
	}
	env, err := environment()
	if err != nil {
		return nil, fail(-1, "cannot be compiled: %v", err)
	}
	checked, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		var errs []*policy.RuleError
		for _, e := range issues.Errors() {
			offset := offsetOf(text, e.Location.Line(), e.Location.Column())
			errs = append(errs, &policy.RuleError{Offset: offset, Text: explainIssue(text, offset, e.Message)})
		}
		return nil, errs
	}
	if checked.OutputType() != cel.BoolType {
		return nil, fail(-1, "is %s, not a boolean (compare it with something, such as == true)", cel.FormatCELType(checked.OutputType()))
	}
	c := &condition{names: map[string][]string{}}
	costs := costs{patterns: map[string]uint64{}}
	if at, mistake := c.analyse(checked.NativeRep(), costs); mistake != "" {
		return nil, fail(int(at), "%s", mistake)
	}
	estimate, err := env.EstimateCost(checked, sizes{})
	if err != nil {
		return nil, fail(-1, "cannot be compiled: %v", err)
	}
	if estimate.Max > maxCost {
		return nil, fail(-1, "may cost %s, more than %d (use fewer nested exists() and all(), or patterns in place of matches())", costText(estimate.Max), maxCost)
	}
	c.program, err = env.Program(checked, cel.EvalOptions(cel.OptOptimize), costs.matching(),
		cel.CostTracking(costs), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(maxItems))
	if err != nil {
		return nil, fail(-1, "cannot be compiled: %v", err)
	}
	return c, nil
}

func costText(n uint64) string {
	if n > 1_000_000_000 {
		return "over 1000000000"
	}
	return fmt.Sprint(n)
}

// explainIssue makes a message of the compiler clearer. The message is about the text of a
// condition from offset on.
func explainIssue(text string, offset int, message string) string {
	if name, ok := strings.CutPrefix(message, "undeclared reference to '"); ok {
		name, _, _ = strings.Cut(name, "'")
		// Of a name with dots, the compiler reports the first part only.
		if whole := dotted.FindString(string([]rune(text)[min(offset, utf8.RuneCountInString(text)):])); strings.HasPrefix(whole, name+".") {
			name = whole
		}
		var known []string
		for _, v := range variables {
			known = append(known, v.name)
		}
		hint := ""
		if near := nearest.Name(name, known, nearest.Limit(len(name))); near != "" {
			hint = fmt.Sprintf(" (did you mean %s?)", near)
		}
		return fmt.Sprintf("there is no variable or function %q%s", name, hint)
	}
	line, _, _ := strings.Cut(message, "\n")
	return line
}

var dotted = lazyregexp.New(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*`)

// offsetOf converts a line and column of the compiler to an offset in code points.
func offsetOf(text string, line, column int) int {
	offset := 0
	for rest := text; line > 1; line-- {
		before, after, ok := strings.Cut(rest, "\n")
		if !ok {
			break
		}
		offset += len([]rune(before)) + 1
		rest = after
	}
	return offset + max(column, 0)
}

// sizes are the sizes for estimated costs.
type sizes struct{}

// EstimateSize implements checker.CostEstimator.
func (sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	most := uint64(assumedText)
	switch node.Type().Kind() {
	case types.ListKind, types.MapKind:
		most = assumedItems
	}
	return &checker.SizeEstimate{Min: 0, Max: most}
}

// EstimateCallCost implements checker.CostEstimator.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

var errCostly = policy.Failure(fmt.Sprintf("it costs more than %d", maxCost))

// cancelled has ended. An evaluation looks at cancelled after maxItems items. The library's cost
// does not bound loops well: the record of each item makes the next item slower.
var cancelled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Reads implements policy.Condition.
func (c *condition) Reads() policy.Reads { return c.reads }

// Holds implements policy.Condition. The error is a policy.Failure.
func (c *condition) Holds(v *policy.Values) (bool, error) {
	a := activation{values: v}
	if c.reads.Arguments {
		arguments, err := v.Arguments()
		if err != nil {
			return false, err
		}
		if err := arguments.CheckNames(c.names); err != nil {
			return false, err
		}
		a.arguments = arguments.Object
	}
	out, _, err := c.program.ContextEval(cancelled, a)
	if err != nil {
		return false, c.failed(err)
	}
	held, ok := out.(types.Bool)
	if !ok {
		return false, policy.Failure("it is not a boolean")
	}
	return bool(held), nil
}

// activation gives a program the values of variables.
type activation struct {
	values    *policy.Values
	arguments map[string]any
}

// Parent implements interpreter.Activation.
func (a activation) Parent() interpreter.Activation { return nil }

// ResolveName implements interpreter.Activation.
func (a activation) ResolveName(name string) (any, bool) {
	if name == "args" {
		return a.arguments, true
	}
	value, known, err := a.values.Variable(name)
	if err != nil {
		value = types.WrapErr(err)
	}
	return value, known
}

// knownErrors are the beginnings of messages without values of arguments.
var knownErrors = []string{"no such overload", "division by zero", "modulus by zero", "integer overflow", "index out of bounds"}

// failed returns the Failure for an error of an evaluation.
func (c *condition) failed(err error) error {
	var costly interpreter.EvalCancelledError
	if errors.As(err, &costly) {
		return errCostly
	}
	if errors.Is(err, interpreter.InterruptError{}) {
		return policy.Failure(fmt.Sprintf("it looks at more than %d items", maxItems))
	}
	var own policy.Failure
	if errors.As(err, &own) {
		return own
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "no such key: "); ok && slices.Contains(c.names[wire.Fold(name)], name) {
		return policy.Failure(fmt.Sprintf("there is no member %q (ask for it with has())", name))
	}
	if i := slices.IndexFunc(knownErrors, func(known string) bool { return strings.HasPrefix(text, known) }); i >= 0 {
		line, _, _ := strings.Cut(text, "\n")
		return policy.Failure(line)
	}
	return policy.Failure("a value has another type or form than it expects")
}

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

// Policy compiles the policy of a configuration, for [config.LoadOptions].
func Policy(p *config.Policy) (config.CompiledPolicy, []config.RuleMistake) {
	var rules []policy.Rule
	for _, r := range p.Rules {
		rules = append(rules, policy.Rule{
			Name: r.Name, Clients: r.Clients, Tools: r.Tools, Resources: r.Resources, Prompts: r.Prompts,
			Completions: r.Completions, When: r.When, Action: policy.Action(r.Action), Reason: r.Reason,
		})
	}
	compiled, errs := Rules(policy.Action(p.Default), rules...)
	var mistakes []config.RuleMistake
	for _, e := range errs {
		mistakes = append(mistakes, config.RuleMistake{Rule: e.Rule, Offset: e.Offset, Text: e.Text})
	}
	return compiled, mistakes
}

// Rules compiles rules; see [policy.Compile].
func Rules(fallback policy.Action, rules ...policy.Rule) (*policy.Policy, []*policy.RuleError) {
	return policy.Compile(fallback, rules, newCondition)
}

// Of returns the compiled policy of a configuration, nil for none. If the configuration was loaded
// without [Policy], the result denies everything.
func Of(p *config.Policy) *policy.Policy {
	if p.Default == "" && p.File == "" && len(p.Rules) == 0 {
		return nil
	}
	if compiled, ok := p.Compiled().(*policy.Policy); ok {
		return compiled
	}
	denied, _ := Rules(policy.Deny, policy.Rule{Name: "not compiled", Action: policy.Deny, Reason: "the policy was not compiled when the configuration was loaded"})
	return denied
}
