package stdlib

import (
	"fmt"

	"go.starlark.net/starlark"
)

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
