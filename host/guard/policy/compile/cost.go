package compile

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// The library's costs are too low for possible arguments: a list counts as a single value, whatever
// its content, a function of values of a type unknown at compile time counts 1, and a call counts
// only afterwards. So the costs here follow the values that are looked at, and no single call does
// much more work than arguments have bytes.
const (
	valueCost   = 5  // looking at a value
	bytesOfUnit = 10 // bytes of text for a unit
)

// costs are the costs of the calls of a condition. They implement interpreter.ActualCostEstimator.
type costs struct {
	patterns map[string]uint64 // sizes of the programs of regular expressions
}

// CallCost returns the cost of a call, in units of maxCost; nil if the library's is right.
func (c costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	cost := uint64(1)
	switch {
	case function == overloads.Contains, function == overloads.StartsWith, function == overloads.EndsWith:
		return nil
	case function == overloads.TypeConvertType, function == overloads.TypeConvertDyn:
	case function == overloads.Matches && len(args) == 2:
		cost += c.match(args[0], args[1])
	case function == operators.In && len(args) == 2:
		cost += contained(args[0], args[1])
	case function == overloads.Size && len(args) == 1:
		if text, ok := args[0].(types.String); ok {
			cost += uint64(len(text)) / bytesOfUnit
		}
	case function == operators.Add && len(args) == 2:
		cost += weigh(args[1])/valueCost + textLength(args[0])/bytesOfUnit
	case len(args) == 2 && compares[function]:
		cost += compared(args[0], args[1], maxCost)
	default:
		for _, arg := range args {
			cost += weigh(arg)
		}
		cost += weigh(result)
	}
	return &cost
}

// compares are the functions that compare two values up to the first difference.
var compares = map[string]bool{
	operators.Equals: true, operators.NotEquals: true,
	operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true,
}

// compared returns the cost of comparing two values, at most most.
func compared(a, b ref.Val, most uint64) uint64 {
	least := (&weighing{most: most}).of(a)
	return (&weighing{most: least}).of(b)
}

// contained returns the cost of looking for a value in a list or map.
func contained(v, in ref.Val) uint64 {
	list, ok := in.(traits.Lister)
	if !ok {
		return 0
	}
	most, cost := weigh(v), uint64(0)
	for items := list.Iterator(); items.HasNext() == types.True && cost <= maxCost; {
		cost += max(valueCost, (&weighing{most: most}).of(items.Next()))
	}
	return cost
}

func textLength(v ref.Val) uint64 {
	if text, ok := v.(types.String); ok {
		return uint64(len(text))
	}
	return 0
}

// weigh returns the cost of looking at a whole value. weigh stops soon after maxCost.
func weigh(v ref.Val) uint64 { return (&weighing{most: maxCost}).of(v) }

// weighing adds up the cost of looking at values until the sum reaches most.
type weighing struct{ most, sum uint64 }

func (w *weighing) of(v any) uint64 {
	w.add(v)
	return min(w.sum, w.most)
}

func (w *weighing) add(v any) {
	w.sum += valueCost
	if w.sum >= w.most {
		return
	}
	switch v := v.(type) {
	case string:
		w.sum += uint64(len(v)) / bytesOfUnit
	case types.String:
		w.sum += uint64(len(v)) / bytesOfUnit
	case []any:
		for i := 0; i < len(v) && w.sum < w.most; i++ {
			w.add(v[i])
		}
	case map[string]any:
		for name, member := range v {
			if w.sum >= w.most {
				return
			}
			w.sum += uint64(len(name)) / bytesOfUnit
			w.add(member)
		}
	case traits.Mapper:
		if native, ok := v.Value().(map[string]any); ok {
			w.add(native)
			return
		}
		for items := v.Iterator(); items.HasNext() == types.True && w.sum < w.most; {
			name := items.Next()
			w.add(name)
			w.add(v.Get(name))
		}
	case traits.Lister:
		for items := v.Iterator(); items.HasNext() == types.True && w.sum < w.most; {
			w.add(items.Next())
		}
	}
}

// match returns the cost of matching a text with a regular expression, in which each
// character can be compared with each instruction of the program.
func (c costs) match(text, pattern ref.Val) uint64 {
	p, _ := pattern.(types.String)
	return (textLength(text) + 1) * c.patterns[string(p)] / bytesOfUnit
}

// compilePattern compiles a regular expression of a condition, and notes its size. mistake says why
// the expression is refused; "" for none.
func (c costs) compilePattern(text string) (mistake string) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return "invalid matches argument: " + err.Error()
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return "invalid matches argument: " + err.Error()
	}
	if len(program.Inst) > maxRegexp {
		return "the regular expression is too large (write fewer repetitions)"
	}
	c.patterns[text] = uint64(len(program.Inst))
	return ""
}

// matching returns the option that replaces the library's matching: a call that would cost too much
// is refused before, not afterwards.
func (c costs) matching() cel.ProgramOption {
	factory := func(call interpreter.InterpretableCall, text string) (interpreter.InterpretableCall, error) {
		pattern, err := regexp.Compile(text)
		if err != nil {
			return nil, err
		}
		return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(values ...ref.Val) ref.Val {
			in, ok := values[0].(types.String)
			switch {
			case !ok:
				return types.NoSuchOverloadErr()
			case c.match(in, types.String(text)) > maxCost:
				return types.WrapErr(errCostly)
			}
			return types.Bool(pattern.MatchString(string(in)))
		}), nil
	}
	var all []*interpreter.RegexOptimization
	for _, id := range []string{overloads.Matches, overloads.MatchesString} {
		all = append(all, &interpreter.RegexOptimization{Function: overloads.Matches, OverloadID: id, RegexIndex: 1, Factory: factory})
	}
	return cel.OptimizeRegex(all...)
}

// searching replaces functions of the library with a time proportional to the product of two
// lengths. The results are the same.
func searching() []cel.EnvOption {
	overload := func(id string, offset bool, f func(text, part string, from int64) ref.Val) cel.FunctionOpt {
		of := []*cel.Type{cel.StringType, cel.StringType}
		if offset {
			of = append(of, cel.IntType)
		}
		return cel.MemberOverload(id, of, cel.IntType, cel.FunctionBinding(func(args ...ref.Val) ref.Val {
			text, part := string(args[0].(types.String)), string(args[1].(types.String))
			from := int64(-1)
			if offset {
				if from = int64(args[2].(types.Int)); from < 0 {
					return types.NewErr("index out of bounds: %d", from)
				}
			}
			return f(text, part, from)
		}))
	}
	return []cel.EnvOption{
		cel.Function("indexOf", overload("string_index_of_string", false, first), overload("string_index_of_string_int", true, first)),
		cel.Function("lastIndexOf", overload("string_last_index_of_string", false, last), overload("string_last_index_of_string_int", true, last)),
	}
}

// first returns the first position of a part in a text at an offset or later, in code points; -1
// for none. An offset of -1 is the beginning.
func first(text, part string, from int64) ref.Val {
	from = max(from, 0)
	n := int64(utf8.RuneCountInString(text))
	switch {
	case part == "":
		return types.Int(min(from, n))
	case from >= n:
		return types.Int(-1)
	}
	skipped := byteOffset(text, from)
	at := strings.Index(text[skipped:], part)
	if at < 0 {
		return types.Int(-1)
	}
	return types.Int(from + int64(utf8.RuneCountInString(text[skipped:skipped+at])))
}

// last returns the last position of a part in a text at an offset or before; -1 for none. An offset
// of -1 is the end.
func last(text, part string, from int64) ref.Val {
	n := int64(utf8.RuneCountInString(text))
	switch {
	case from < 0:
		from = n
	case part != "" && from >= n:
		return types.Int(-1)
	}
	if part == "" {
		return types.Int(min(from, n))
	}
	end := len(text)
	if length := int64(utf8.RuneCountInString(part)); length < n-from {
		end = byteOffset(text, from+length)
	}
	at := strings.LastIndex(text[:end], part)
	if at < 0 {
		return types.Int(-1)
	}
	return types.Int(utf8.RuneCountInString(text[:at]))
}

// byteOffset returns the offset in bytes of a code point of a text.
func byteOffset(text string, codePoint int64) int {
	for i := range text {
		if codePoint == 0 {
			return i
		}
		codePoint--
	}
	return len(text)
}
