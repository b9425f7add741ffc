package interp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// errorValue is an error as seen by scripts: bound by except Error as e, or made by Error("...").
type errorValue struct {
	kind         abi.ErrorType
	class        *class
	args         starlark.Tuple
	attrs        starlark.StringDict // set by a class of the script
	message      string              // without the name of the tool
	server, name string              // of a ToolError
	details      starlark.Value

	raised bool                // by the script, with raise or fail
	origin *starlark.EvalError // has the backtrace; set when the error is caught
	cause  *errorValue         // the error being handled, or the operand of from
}

var (
	_ starlark.HasAttrs  = (*errorValue)(nil)
	_ starlark.Mapping   = (*errorValue)(nil)
	_ starlark.HasBinary = (*errorValue)(nil)
)

func (e *errorValue) String() string {
	if fn := e.class.find("__repr__"); fn != nil {
		v, err := e.class.run.callback(fn, starlark.Tuple{e})
		if s, ok := v.(starlark.String); ok && err == nil {
			return string(s)
		}
	}
	return e.class.name + "(" + e.message + ")"
}

// text returns str(e).
func (e *errorValue) text() string {
	if fn := e.class.find("__str__"); fn != nil {
		v, err := e.class.run.callback(fn, starlark.Tuple{e})
		if s, ok := v.(starlark.String); ok && err == nil {
			return string(s)
		}
	}
	if e.server == "" && e.name == "" {
		if len(e.args) == 1 && e.message == text(e.args[0]) && e.class.derives(errorClasses[stdlib.KeyError]) {
			return repr(e.args[0])
		}
		return e.message
	}
	return fmt.Sprintf("%s.%s: %s", e.server, e.name, e.message)
}

func (e *errorValue) Type() string {
	if e.class == exceptionClass {
		return "Error"
	}
	return e.class.name
}

func (e *errorValue) Freeze()               { e.details.Freeze() }
func (*errorValue) Truth() starlark.Bool    { return true }
func (e *errorValue) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable type: %s", e.Type()) }

var errorAttrs = []string{"details", "message", "server", "tool", "type"}

func (e *errorValue) AttrNames() []string { return errorAttrs }

func (e *errorValue) Attr(name string) (starlark.Value, error) {
	orNone := func(s string) starlark.Value {
		if s == "" {
			return starlark.None
		}
		return starlark.String(s)
	}
	switch name {
	case "type":
		return starlark.String(e.kind), nil
	case "message":
		return starlark.String(e.message), nil
	case "server":
		return orNone(e.server), nil
	case "tool":
		return orNone(e.name), nil
	case "details":
		return e.details, nil
	case "args":
		return e.arguments(), nil
	case "__class__":
		return e.class, nil
	case "__cause__":
		if e.cause == nil {
			return starlark.None, nil
		}
		return e.cause, nil
	}
	if v, ok := e.attrs[name]; ok {
		return v, nil
	}
	switch v := e.class.find(name).(type) {
	case nil:
	case *property:
		return e.class.run.callback(v.fn, starlark.Tuple{e})
	case *starlark.Function:
		return &boundMethod{v, e}, nil
	default:
		return v, nil
	}
	if name == "code" && e.class.derives(errorClasses["SystemExit"]) {
		return starlark.String(e.message), nil
	}
	return nil, fmt.Errorf("%s has no .%s%s", e.Type(), name, suggest(name, errorAttrs, errorAttrs))
}

// arguments returns the arguments of the error's creation.
func (e *errorValue) arguments() starlark.Tuple {
	if e.args == nil && e.message != "" {
		return starlark.Tuple{starlark.String(e.message)}
	}
	return e.args
}

// SetField implements e.name = v, for methods of the script's own error classes.
func (e *errorValue) SetField(name string, v starlark.Value) error {
	switch name {
	case "message":
		e.message = text(v)
	case "details":
		e.details = v
	case "args":
		args, ok := v.(starlark.Tuple)
		if !ok {
			return fmt.Errorf("%s.args is a tuple, not %s", e.Type(), v.Type())
		}
		e.args = args
	case "type", "server", "tool":
		return fmt.Errorf("%s.%s cannot change", e.Type(), name)
	default:
		if e.attrs == nil {
			e.attrs = make(starlark.StringDict)
		}
		e.attrs[name] = v
	}
	return nil
}

// object returns the set fields, for JSON.
func (e *errorValue) object() Object {
	o := newObject(len(errorAttrs))
	for _, name := range []string{"type", "message", "server", "tool", "details"} {
		if v, err := e.Attr(name); err == nil && v != starlark.None {
			_ = o.Dict.SetKey(starlark.String(name), v) // text can be a key
		}
	}
	return o
}

// Get is e["message"], the same as e.message.
func (e *errorValue) Get(k starlark.Value) (starlark.Value, bool, error) {
	name, ok := starlark.AsString(k)
	if !ok {
		return nil, false, fmt.Errorf("%s has named fields, such as e.message, and no %s", e.Type(), repr(k))
	}
	v, err := e.Attr(name)
	return v, err == nil, err
}

// encodedDetails returns the details as JSON, nil without details. A value without a JSON form
// becomes text.
func (e *errorValue) encodedDetails() []byte {
	if e.details == starlark.None {
		return nil
	}
	const most = 1 << 20 // no reader of an error needs more
	out, err := (&encoder{limit: most, shows: true}).encode("details", e.details)
	if err != nil || len(out) > most {
		return appendString(nil, clip(repr(e.details), maxErrorText))
	}
	return out
}

// Binary only returns an error with a hint, for "text" + e.
func (e *errorValue) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	if _, ok := y.(starlark.String); ok && op == syntax.PLUS {
		return nil, fmt.Errorf("text and an %s cannot be joined with + (write str(e), or f\"...{e}\")", e.Type())
	}
	return nil, nil
}

// reraise returns the Go error that raises e again. A caught error is returned itself, to keep the
// position and backtrace of the first raise.
func (e *errorValue) reraise() error {
	if e.origin != nil {
		return e.origin
	}
	return &raised{e}
}

// raised is the Go error for an error raised by the script.
type raised struct{ value *errorValue }

// Error names the class, except for the general class and the class of tools.
func (r *raised) Error() string {
	e := r.value
	text := e.text()
	switch {
	case e.class == exceptionClass || e.class.tool:
		return text
	case text == "":
		return e.class.name
	}
	return e.class.name + ": " + text
}

// errorOf returns the error seen by scripts after a failed call.
func errorOf(err error) *errorValue {
	var origin *starlark.EvalError
	errors.As(err, &origin)
	var own *raised
	if errors.As(err, &own) {
		own.value.origin = origin
		return own.value
	}
	e := &errorValue{
		kind: abi.ErrRuntime, class: errorClassOf(err), message: clip(explain(err.Error()), maxErrorText), details: starlark.None, origin: origin,
	}
	var typed *stdlib.Error
	if errors.As(err, &typed) {
		e.attrs = maps.Clone(typed.Attrs)
	}
	var missing *missingKey
	if errors.As(err, &missing) && !missing.attribute {
		e.args = starlark.Tuple{missing.key}
	}
	var failed *toolError
	if errors.As(err, &failed) {
		e.kind, e.message = failed.call.Type, failed.call.Message
		e.server, e.name = failed.call.Server, failed.call.Tool
		if v, err := decodeJSON(failed.call.Details); len(failed.call.Details) > 0 && err == nil {
			e.details = v
		}
	}
	return e
}

// errorTree has Python's error classes, each with the derived classes.
var errorTree = map[string]string{
	"BaseException":   "Exception KeyboardInterrupt SystemExit GeneratorExit",
	"Exception":       "ToolError ArithmeticError AssertionError AttributeError EOFError ImportError LookupError MemoryError NameError OSError RuntimeError StopIteration SyntaxError TypeError ValueError Warning",
	"ArithmeticError": "FloatingPointError OverflowError ZeroDivisionError",
	"ImportError":     "ModuleNotFoundError",
	"LookupError":     "IndexError KeyError",
	"NameError":       "UnboundLocalError",
	"OSError":         "ConnectionError FileExistsError FileNotFoundError InterruptedError PermissionError TimeoutError",
	"RuntimeError":    "NotImplementedError RecursionError",
	"UnicodeError":    "UnicodeDecodeError UnicodeEncodeError",
	"ValueError":      "UnicodeError",
	"Warning":         "DeprecationWarning UserWarning",
}

// errorClasses are the error classes by name. Error is another name for
// Exception, and so are IOError and EnvironmentError for OSError.
var errorClasses = func() map[string]*class {
	all := make(map[string]*class)
	var add func(name string, base *class)
	add = func(name string, base *class) {
		c := &class{name: name, isError: true, tool: name == "ToolError"}
		if base != nil {
			c.bases = []*class{base}
		}
		c.order, _ = linearize(c) // a single base has no contradictions
		all[name] = c
		for _, derived := range strings.Fields(errorTree[name]) {
			add(derived, c)
		}
	}
	objectClass.order = []*class{objectClass}
	add("BaseException", nil)
	all["Error"] = all["Exception"]
	all["IOError"] = all["OSError"]
	all["EnvironmentError"] = all["OSError"]
	return all
}()

var (
	exceptionClass = errorClasses["Exception"]
	toolErrorClass = errorClasses["ToolError"]
)

// moduleErrors are error classes of modules, for example json.JSONDecodeError.
var moduleErrors sync.Map

// moduleError returns the error class of a module. The bases are known after the first error of the
// class.
func moduleError(name string, bases ...string) *class {
	if c, ok := moduleErrors.Load(name); ok {
		return c.(*class)
	}
	c := &class{name: name, isError: true}
	for _, b := range bases {
		if base := errorClasses[b]; base != nil {
			c.bases = append(c.bases, base)
			break
		}
	}
	if c.bases == nil {
		c.bases = []*class{exceptionClass}
	}
	c.order, _ = linearize(c)
	if len(bases) == 0 {
		return c // the bases may come later
	}
	kept, _ := moduleErrors.LoadOrStore(name, c)
	return kept.(*class)
}

// newError makes an error of a class.
func (c *class) newError(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	e := &errorValue{kind: abi.ErrRuntime, class: c, details: starlark.None}
	if c.tool {
		e.kind = abi.ErrTool
	}
	init := c.find("__init__")
	if init == nil {
		return e, e.fill(args, kwargs)
	}
	e.setArgs(args)
	_, err := starlark.Call(thread, init, append(starlark.Tuple{e}, args...), kwargs)
	return e, err
}

func (e *errorValue) setArgs(args starlark.Tuple) {
	e.args = slices.Clone(args)
	switch len(args) {
	case 0:
		e.message = ""
	case 1:
		e.message = strings.ToValidUTF8(text(args[0]), "\uFFFD")
	default:
		e.message = strings.ToValidUTF8(repr(args), "\uFFFD")
	}
}

// fill sets the arguments of an error: any values, and details=; for a ToolError also server= and
// tool=. Error and ToolError take their details as the second value, too.
func (e *errorValue) fill(args starlark.Tuple, kwargs []starlark.Tuple) error {
	if (e.class == exceptionClass || e.class == toolErrorClass) && len(args) <= 2 {
		return e.fillFields(args, kwargs)
	}
	e.setArgs(args)
	return starlark.UnpackArgs(e.class.name, nil, kwargs, "details?", &e.details)
}

func (e *errorValue) fillFields(args starlark.Tuple, kwargs []starlark.Tuple) error {
	var message starlark.Value = starlark.String(e.Type())
	pairs := []any{"message?", &message, "details?", &e.details}
	if e.class.tool {
		pairs = append(pairs, "server?", &e.server, "tool?", &e.name)
	}
	if err := starlark.UnpackArgs(e.Type(), args, kwargs, pairs...); err != nil {
		return err
	}
	e.args = append(starlark.Tuple{}, args...)
	e.message = strings.ToValidUTF8(text(message), "\uFFFD")
	return nil
}

// errorClassOf returns the class of a failure. Errors of the library have no types: the texts are
// from a fixed version of the library, and TestErrorClasses causes each.
func errorClassOf(err error) *class {
	var own *raised
	var failed *toolError
	var typed *stdlib.Error
	var missing *missingKey
	switch {
	case errors.As(err, &own):
		return own.value.class
	case errors.As(err, &failed):
		return toolErrorClass
	case errors.As(err, &typed):
		if c := errorClasses[typed.Class]; c != nil {
			return c
		}
		return moduleError(typed.Class, append(slices.Clone(typed.Bases), "Exception")...)
	case errors.As(err, &missing):
		if missing.attribute {
			return errorClasses[stdlib.AttributeError]
		}
		return errorClasses[stdlib.KeyError]
	}
	return libraryClass(err.Error())
}

// libraryErrors are parts of the library's messages, with the class of each. The first match
// counts.
var libraryErrors = []struct{ prefix, part, suffix, class string }{
	{"", "during iteration", "", stdlib.RuntimeError},
	{"chr: ", "", "", stdlib.ValueError},
	{"sum: ", "", "", stdlib.TypeError},
	{"format: ", "fewer values than fields", "", stdlib.IndexError},
	{"", "no argument is called", "", stdlib.KeyError},
	{"", "fewer values than fields", "", stdlib.TypeError},
	{"%: ", "is not a format type", "", stdlib.ValueError},
	{"%: ", "", "", stdlib.TypeError},
	{"format: '{' is not closed", "", "", stdlib.ValueError},
	{"format: single '}'", "", "", stdlib.ValueError},
	{"format ", " is unknown", "", stdlib.ValueError},
	{"", "empty dict", "", stdlib.KeyError},
	{"", "empty set", "", stdlib.KeyError},
	{"", "element not found", "", stdlib.ValueError},
	{"", "valid slice step", "", stdlib.ValueError},
	{"", "step argument must not be zero", "", stdlib.ValueError},
	{"", "negative shift count", "", stdlib.ValueError},
	{"", "base must be an integer", "", stdlib.ValueError},
	{"", "division by zero", "", stdlib.ZeroDivisionError},
	{"", "modulo by zero", "", stdlib.ZeroDivisionError},
	{"", "out of range", "", stdlib.IndexError},
	{"", "missing key", "", stdlib.KeyError},
	{"", " has no .", "", stdlib.AttributeError},
	{"", "can't assign to .", "", stdlib.AttributeError},
	{"", "referenced before assignment", "", "UnboundLocalError"},
	{"", "invalid literal", "", stdlib.ValueError},
	{"", "invalid float literal", "", stdlib.ValueError},
	{"float: ", "empty string", "", stdlib.ValueError},
	{"", "not in list", "", stdlib.ValueError},
	{"", "substring not found", "", stdlib.ValueError},
	{"", "empty sequence", "", stdlib.ValueError},
	{"", "empty separator", "", stdlib.ValueError},
	{"", "values to unpack", "", stdlib.ValueError},
	{"", "math domain error", "", stdlib.ValueError},
	{"", "infinity", "", stdlib.OverflowError},
	{"", "NaN", "", stdlib.ValueError},
	{"", "too large to convert to float", "", stdlib.OverflowError},
	{"json.decode", "", "", stdlib.ValueError},
	{"", "unknown binary op", "", stdlib.TypeError},
	{"", "unknown unary op", "", stdlib.TypeError},
	{"", "not implemented", "", stdlib.TypeError},
	{"", "not iterable", "", stdlib.TypeError},
	{"", "unhashable", "", stdlib.TypeError},
	{"", "for parameter ", "", stdlib.TypeError},
	{"function ", " missing ", "", stdlib.TypeError},
	{"", "missing argument", "", stdlib.TypeError},
	{"", "has no len", "", stdlib.TypeError},
	{"", "unexpected keyword argument", "", stdlib.TypeError},
	{"", "invalid call of non-function", "", stdlib.TypeError},
	{"", "want ", "", stdlib.TypeError},
	{"", "accepts ", "", stdlib.TypeError},
	{"", "cannot ", "", stdlib.TypeError},
	{"", "must be a mapping", "", stdlib.TypeError},
	{"", "does not support", "", stdlib.TypeError},
	{"", "unhandled index operation", "", stdlib.TypeError},
}

// libraryClass returns the class of an error by the message.
func libraryClass(message string) *class {
	if i := libraryError(message); i >= 0 {
		return errorClasses[libraryErrors[i].class]
	}
	return exceptionClass
}

// libraryError returns the index of the row of libraryErrors for a message, or -1.
func libraryError(message string) int {
	for i, e := range libraryErrors {
		if strings.HasPrefix(message, e.prefix) && strings.Contains(message, e.part) && strings.HasSuffix(message, e.suffix) {
			return i
		}
	}
	return -1
}
