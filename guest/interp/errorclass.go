package interp

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

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
