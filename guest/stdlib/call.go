package stdlib

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Call is a call of a function of a module.
type Call struct {
	Thread   *starlark.Thread
	Name     string
	Receiver starlark.Value // of a method
	Args     starlark.Tuple
	Kwargs   []starlark.Tuple
}

// Func is a function of a module.
type Func func(c *Call) (starlark.Value, error)

// NewFunc returns a function for scripts.
func NewFunc(name string, f Func) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		v, err := f(&Call{Thread: thread, Name: name, Receiver: b.Receiver(), Args: args, Kwargs: kwargs})
		return v, mustKnow(err, args, kwargs)
	})
}

// mustKnow returns the error of a call. If an argument is a withheld value, the run ends, as for a
// query of the value's type: with the real value the call might succeed, so the script must not
// learn of the error.
func mustKnow(err error, args starlark.Tuple, kwargs []starlark.Tuple) error {
	if err == nil {
		return nil
	}
	for _, v := range args {
		v.Type()
	}
	for _, kv := range kwargs {
		kv[1].Type()
	}
	return err
}

// Funcs returns the functions of a module.
func Funcs(funcs map[string]Func) starlark.StringDict {
	members := make(starlark.StringDict, len(funcs)+8)
	for name, f := range funcs {
		members[name] = NewFunc(name, f)
	}
	return members
}

// Method returns the method of the name bound to a receiver; nil for an unknown name.
func Method(receiver starlark.Value, name string, methods map[string]Func) starlark.Value {
	f, ok := methods[name]
	if !ok {
		return nil
	}
	return NewFunc(name, f).BindReceiver(receiver)
}

// Env returns the services of the run.
func (c *Call) Env() *Env { return EnvOf(c.Thread) }

// Call calls a function of the script.
func (c *Call) Call(f starlark.Value, args ...starlark.Value) (starlark.Value, error) {
	return starlark.Call(c.Thread, f, args, nil)
}

// Errorf returns an error with the name of the function in front.
func (c *Call) Errorf(class, format string, args ...any) error {
	return Errorf(class, c.Name+"() "+format, args...)
}

// Unpack stores the arguments in variables. pairs are names and pointers:
//
//	"x", &x    is required
//	"x?", &x   may be left out
//	"x??", &x  may be left out or None
//	"/", nil   everything before goes by position only
//	"*", nil   everything after goes by keyword only
//
// The variables are string, bool (the truth of any value), int, float64, starlark.Int,
// starlark.Value and starlark.Callable. As in Python, True is 1.
func (c *Call) Unpack(pairs ...any) error {
	var given uint64
	taken := 0
	for i := 0; i < len(pairs) && pairs[i] != "*"; i += 2 {
		if pairs[i] == "/" {
			continue
		}
		if taken == len(c.Args) {
			break
		}
		if err := c.store(i/2, pairs, c.Args[taken], &given); err != nil {
			return err
		}
		taken++
	}
	if taken < len(c.Args) {
		return c.Errorf(TypeError, "takes at most %d positional arguments (%d given)", taken, len(c.Args))
	}
	for _, kv := range c.Kwargs {
		i := c.keyword(string(kv[0].(starlark.String)), pairs)
		if i < 0 {
			return c.Errorf(TypeError, "got an unexpected keyword argument %s", quote(string(kv[0].(starlark.String))))
		}
		if given&(1<<i) != 0 {
			return c.Errorf(TypeError, "got multiple values for argument %s", quote(string(kv[0].(starlark.String))))
		}
		if err := c.store(i, pairs, kv[1], &given); err != nil {
			return err
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		if pairs[i+1] != nil && !strings.HasSuffix(name, "?") && given&(1<<(i/2)) == 0 {
			return c.Errorf(TypeError, "missing required argument %s", quote(name))
		}
	}
	return nil
}

func quote(s string) string { return "'" + s + "'" }

// keyword returns the index of the parameter of the name, -1 for an unknown name.
func (c *Call) keyword(name string, pairs []any) int {
	byPosition := 0
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].(string) == "/" {
			byPosition = i
		}
	}
	for i := byPosition; i < len(pairs); i += 2 {
		if pairs[i+1] != nil && strings.TrimRight(pairs[i].(string), "?") == name {
			return i / 2
		}
	}
	return -1
}

func (c *Call) store(i int, pairs []any, v starlark.Value, given *uint64) error {
	name := pairs[2*i].(string)
	*given |= 1 << i
	if strings.HasSuffix(name, "??") && v == starlark.None {
		return nil
	}
	want := ""
	switch p := pairs[2*i+1].(type) {
	case *starlark.Value:
		*p = v
	case *string:
		s, ok := v.(starlark.String)
		if !ok {
			want = "str"
		}
		*p = string(s)
	case *bool:
		*p = bool(v.Truth())
	case *int:
		n, err := Int(v)
		if err != nil {
			return c.argument(name, err)
		}
		*p = n
	case *starlark.Int:
		n, ok := Integer(v)
		if !ok {
			want = "int"
		}
		*p = n
	case *float64:
		f, err := Float(v)
		if err != nil {
			return c.argument(name, err)
		}
		*p = f
	case *starlark.Callable:
		f, ok := v.(starlark.Callable)
		if !ok {
			return c.Errorf(TypeError, "argument %s: '%s' object is not callable", quote(strings.TrimRight(name, "?")), TypeName(v))
		}
		*p = f
	}
	if want != "" {
		return c.Errorf(TypeError, "argument %s must be %s, not %s", quote(strings.TrimRight(name, "?")), want, TypeName(v))
	}
	return nil
}

// argument names the argument in an error.
func (c *Call) argument(name string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return Errorf(e.Class, "%s() argument %s: %s", c.Name, quote(strings.TrimRight(name, "?")), e.Message)
	}
	return err
}

// TypeName returns the name of a value's type in Python's errors.
func TypeName(v starlark.Value) string {
	if _, ok := v.(starlark.String); ok {
		return "str"
	}
	return v.Type()
}

// Integer returns an int or a bool as an int.
func Integer(v starlark.Value) (starlark.Int, bool) {
	switch v := v.(type) {
	case starlark.Int:
		return v, true
	case starlark.Bool:
		if v {
			return starlark.MakeInt(1), true
		}
		return starlark.MakeInt(0), true
	}
	return starlark.Int{}, false
}

// Int returns an integer of at most 64 bits; the errors are a TypeError or an OverflowError.
func Int(v starlark.Value) (int, error) {
	n, ok := Integer(v)
	if !ok {
		return 0, Errorf(TypeError, "'%s' object cannot be interpreted as an integer", TypeName(v))
	}
	i, ok := n.Int64()
	if !ok {
		return 0, Errorf(OverflowError, "Python int too large to convert to C ssize_t")
	}
	return int(i), nil
}

// Float returns a number as a float.
func Float(v starlark.Value) (float64, error) {
	if f, ok := v.(starlark.Float); ok {
		return float64(f), nil
	}
	if o, ok := v.(Object); ok {
		if f, err := o.CallMethod("__float__"); f != nil || err != nil {
			if err != nil {
				return 0, err
			}
			return Float(f)
		}
	}
	n, ok := Integer(v)
	if !ok {
		return 0, Errorf(TypeError, "must be real number, not %s", TypeName(v))
	}
	f := float64(n.Float())
	if math.IsInf(f, 0) {
		return 0, Errorf(OverflowError, "int too large to convert to float")
	}
	return f, nil
}

// Object is implemented by values of classes of scripts.
type Object interface {
	starlark.Value
	// CallMethod calls a method of the class. The result is nil for an unknown name.
	CallMethod(name string, args ...starlark.Value) (starlark.Value, error)
}

// Compare is x op y for scripts. Incomparable values are a TypeError.
func Compare(op syntax.Token, x, y starlark.Value) (bool, error) {
	ok, err := starlark.Compare(op, x, y)
	if err == nil {
		return ok, nil
	}
	var own *Error
	var eval *starlark.EvalError
	if errors.As(err, &own) || errors.As(err, &eval) {
		return false, err
	}
	return false, Errorf(TypeError, "'%s' not supported between instances of '%s' and '%s'", op, TypeName(x), TypeName(y))
}

// Less is x < y.
func Less(x, y starlark.Value) (bool, error) { return Compare(syntax.LT, x, y) }

// Equal is x == y.
func Equal(x, y starlark.Value) (bool, error) { return Compare(syntax.EQL, x, y) }

// Binary is x op y for scripts. Values without the operator are a TypeError.
func Binary(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	v, err := starlark.Binary(op, x, y)
	if err == nil {
		return v, nil
	}
	var own *Error
	var eval *starlark.EvalError
	if errors.As(err, &own) || errors.As(err, &eval) {
		return nil, err
	}
	if op == syntax.SLASH || op == syntax.SLASHSLASH || op == syntax.PERCENT {
		if n, ok := y.(starlark.Float); ok && n == 0 {
			return nil, Errorf(ZeroDivisionError, "float division by zero")
		}
		if n, ok := Integer(y); ok && n.Sign() == 0 {
			return nil, Errorf(ZeroDivisionError, "division by zero")
		}
	}
	return nil, Errorf(TypeError, "unsupported operand type(s) for %s: '%s' and '%s'", op, TypeName(x), TypeName(y))
}

// CallMethod calls a method of a value.
func (c *Call) CallMethod(v starlark.Value, name string, args ...starlark.Value) (starlark.Value, error) {
	if has, ok := v.(starlark.HasAttrs); ok {
		method, err := has.Attr(name)
		if err != nil {
			return nil, err
		}
		if method != nil {
			return c.Call(method, args...)
		}
	}
	return nil, Errorf(AttributeError, "'%s' object has no attribute '%s'", TypeName(v), name)
}

// BytesOf returns the content of bytes. Text is a TypeError.
func (c *Call) BytesOf(v starlark.Value) (string, error) {
	if b, ok := v.(starlark.Bytes); ok {
		return string(b), nil
	}
	return "", Errorf(TypeError, "a bytes-like object is required, not '%s'", TypeName(v))
}

// ASCIIOf returns the content of bytes, or of ASCII text.
func (c *Call) ASCIIOf(v starlark.Value) (string, error) {
	s, ok := starlark.AsString(v)
	if !ok {
		return c.BytesOf(v)
	}
	for i := range len(s) {
		if s[i] >= 0x80 {
			return "", Errorf(ValueError, "string argument should contain only ASCII characters")
		}
	}
	return s, nil
}

// The names of Python's error classes raised by modules.
const (
	ArithmeticError   = "ArithmeticError"
	AttributeError    = "AttributeError"
	IndexError        = "IndexError"
	KeyError          = "KeyError"
	LookupError       = "LookupError"
	OverflowError     = "OverflowError"
	RecursionError    = "RecursionError"
	RuntimeError      = "RuntimeError"
	StopIteration     = "StopIteration"
	TypeError         = "TypeError"
	UnicodeError      = "UnicodeError"
	ValueError        = "ValueError"
	ZeroDivisionError = "ZeroDivisionError"
)

// Error is an error of a class of Python.
type Error struct {
	Class   string // the name, for example ValueError
	Message string
	// Bases are the bases of a module's own class in addition to Exception, from the
	// nearest on: json.JSONDecodeError has ValueError.
	Bases []string
	// Attrs are attributes in addition to the message, for example e.pos; nil is nothing.
	Attrs starlark.StringDict
}

func (e *Error) Error() string { return e.Message }

// Errorf returns an error of a class.
func Errorf(class, format string, args ...any) error {
	return &Error{Class: class, Message: fmt.Sprintf(format, args...)}
}

// ErrorClass returns the class of a module's own errors, for except and raise. bases are
// as in Error.
func ErrorClass(name string, bases ...string) *Class {
	return &Class{Named: name, Bases: append(bases, "Exception")}
}

// Sort sorts values as sorted does: stably, by a key function of the script unless key is nil or
// None.
func (c *Call) Sort(values []starlark.Value, key starlark.Value, reverse bool) error {
	keys := values
	if key != nil && key != starlark.None {
		keys = make([]starlark.Value, len(values))
		for i, v := range values {
			k, err := c.Call(key, v)
			if err != nil {
				return err
			}
			keys[i] = k
		}
	}
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	var failed error
	slices.SortStableFunc(order, func(i, j int) int {
		if failed != nil {
			return 0
		}
		if reverse {
			i, j = j, i
		}
		less, err := Less(keys[i], keys[j])
		if err == nil && !less {
			var more bool
			if more, err = Less(keys[j], keys[i]); more {
				return 1
			}
		}
		failed = err
		if less {
			return -1
		}
		return 0
	})
	if failed != nil {
		return failed
	}
	sorted := make([]starlark.Value, len(values))
	for i, j := range order {
		sorted[i] = values[j]
	}
	copy(values, sorted)
	return nil
}
