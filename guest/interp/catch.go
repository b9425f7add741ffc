package interp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A leaveKind is a way to leave a part of a try statement early.
type leaveKind int

const (
	leaveReturn leaveKind = iota
	leaveBreak
	leaveContinue
)

var (
	leaveNames  = [...]string{"·return", "·break", "·continue"}
	leaveFields = [...]string{"value", "break", "continue"}
	leaveTokens = [...]syntax.Token{syntax.RETURN, syntax.BREAK, syntax.CONTINUE}
)

// leave is the result of a part left early; a part run to the end returns None. leaveNames[kind] |
// value makes a leave.
type leave struct {
	operandOnly
	kind  leaveKind
	value starlark.Value
}

var (
	_ starlark.HasBinary = (*leave)(nil)
	_ starlark.HasAttrs  = (*leave)(nil)
)

func (l *leave) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	return &leave{kind: l.kind, value: y}, nil
}

func (l *leave) Attr(name string) (starlark.Value, error) {
	if name == leaveFields[leaveReturn] {
		return l.value, nil
	}
	return starlark.Bool(name == leaveFields[l.kind]), nil
}

func (l *leave) AttrNames() []string { return nil }

// A tryPlan runs a try statement. The arguments are the variables of the enclosing function, or
// None, the parts in the order of the source, and functions that return the classes of clauses not
// known before.
type tryPlan struct {
	operandOnly
	handlers            []handler
	hasElse, hasFinally bool
}

type handler struct {
	classes []*class // nil if they are not known before
	asked   int      // else the place of the function with the classes
	vars    int      // place, among the arguments, of the variables with the error
	slot    int      // of the error's variable; -1 if the error has no name
}

// finally returns the place of the finally part among the arguments.
func (p *tryPlan) finally() int {
	n := 2 + len(p.handlers)
	if p.hasElse {
		n++
	}
	return n
}

// tryName is the name of the frame of a try statement; no script can have it.
const tryName = "·try"

func (*tryPlan) Name() string { return tryName }

func (p *tryPlan) CallInternal(thread *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	r := runOf(thread)
	body, rest := args[1], args[2:]
	leave := r.guard(thread)
	result, err := starlark.Call(thread, body, nil, nil)
	leave()
	switch {
	case err != nil && r.uncatchable(err):
		return nil, err
	case err != nil:
		result, err = p.handle(thread, err, args)
	case p.hasElse && result == starlark.None:
		result, err = starlark.Call(thread, rest[len(p.handlers)], nil, nil)
	}
	if !p.hasFinally || err != nil && r.uncatchable(err) {
		return result, err
	}
	var failed *errorValue
	if err != nil {
		failed = errorOf(err)
	}
	left, failure := handling(thread, failed, func() (starlark.Value, error) {
		return starlark.Call(thread, args[p.finally()], nil, nil)
	})
	if failure != nil || left != starlark.None {
		return left, failure // replaces the earlier result
	}
	return result, err
}

// handle runs the first clause catching an error, or returns the error.
func (p *tryPlan) handle(thread *starlark.Thread, err error, args starlark.Tuple) (starlark.Value, error) {
	parts := args[2:]
	caught := errorOf(err)
	for i, h := range p.handlers {
		catches, failure := h.catches(thread, caught, args)
		if failure != nil {
			return nil, failure
		}
		if !catches {
			continue
		}
		if h.slot >= 0 {
			// As in Python, the name is unbound after the clause.
			values := args[h.vars].(*variables).values
			values[h.slot] = caught
			defer func() { values[h.slot] = nil }()
		}
		return handling(thread, caught, func() (starlark.Value, error) {
			return starlark.Call(thread, parts[i], nil, nil)
		})
	}
	return nil, err
}

// catches reports whether a clause catches an error.
func (h handler) catches(thread *starlark.Thread, e *errorValue, args starlark.Tuple) (bool, error) {
	classes := h.classes
	if classes == nil {
		v, err := starlark.Call(thread, args[h.asked], nil, nil)
		if err != nil {
			return false, err
		}
		if classes, err = errorClassesIn(v); err != nil {
			return false, err
		}
	}
	return slices.ContainsFunc(classes, e.class.derives), nil
}

// errorClassesIn returns the classes named in an except clause.
func errorClassesIn(v starlark.Value) ([]*class, error) {
	switch v := v.(type) {
	case *class:
		if v.isError {
			return []*class{v}, nil
		}
	case *stdlib.Class:
		if c := errorClasses[v.Named]; c != nil {
			return []*class{c}, nil
		}
		if v.Bases != nil {
			return []*class{moduleError(v.Named, v.Bases...)}, nil
		}
	case starlark.Tuple:
		var all []*class
		for _, x := range v {
			some, err := errorClassesIn(x)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	}
	return nil, stdlib.Errorf(stdlib.TypeError, "except takes an error class or a tuple of them, got %s", text(v))
}

// A handledError is an error being handled by a clause of a try statement, in a stack with the
// innermost first. A bare raise raises the innermost error again.
type handledError struct {
	err   *errorValue
	outer *handledError
}

// handledErrorKey is the key of the stack among the locals of a thread.
const handledErrorKey = "handled error"

func handledErrorOf(thread *starlark.Thread) *handledError {
	h, _ := thread.Local(handledErrorKey).(*handledError)
	return h
}

// handling calls f while err is being handled; with a nil err, it only calls f.
func handling(thread *starlark.Thread, err *errorValue, f func() (starlark.Value, error)) (starlark.Value, error) {
	if err != nil {
		outer := handledErrorOf(thread)
		thread.SetLocal(handledErrorKey, &handledError{err, outer})
		defer thread.SetLocal(handledErrorKey, outer)
	}
	return f()
}

// uncatchable reports whether an error ends the run although the script has an
// except clause: a limit, a forbidden tool, or the end of the request.
func (r *run) uncatchable(err error) bool {
	if r.fatal != nil || errors.Is(err, errTooDeep) || errors.Is(err, errAbandoned) {
		return true
	}
	var failed *toolError
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.call.Type {
	case abi.ErrPermission, abi.ErrResource, abi.ErrCancelled, abi.ErrWithheld:
		return true
	}
	return failed.call.Limit != ""
}

// raise implements raise x, raise x from y, and a bare raise.
func raise(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	current := handledErrorOf(thread)
	if len(args) == 0 {
		if current == nil {
			return nil, errors.New("there is no error to raise again (raise without a value belongs in an except block)")
		}
		return nil, current.err.reraise()
	}
	e, err := raisable(thread, args[0])
	if err != nil {
		return nil, err
	}
	for h := current; h != nil; h = h.outer {
		if h.err == e {
			return nil, e.reraise()
		}
	}
	if e.origin != nil && !e.raised {
		return nil, e.reraise() // caught before: the error keeps its first position
	}
	e.raised = true
	switch {
	case len(args) > 1:
		if args[1] != starlark.None {
			if e.cause, err = raisable(thread, args[1]); err != nil {
				return nil, fmt.Errorf("the cause of an error: %w", err)
			}
		}
	case current != nil:
		e.cause = current.err
	}
	return nil, &raised{e}
}

// raisable returns the error for the operand of raise.
func raisable(thread *starlark.Thread, v starlark.Value) (*errorValue, error) {
	switch v := v.(type) {
	case *errorValue:
		return v, nil
	case starlark.String:
		return &errorValue{kind: abi.ErrRuntime, class: exceptionClass, message: string(v), details: starlark.None}, nil
	case *class:
		if v.isError {
			made, err := v.newError(thread, nil, nil)
			if err != nil {
				return nil, err
			}
			return made.(*errorValue), nil
		}
	}
	return nil, fmt.Errorf("raise takes an error or its text, got %s: raise Error(\"what is wrong\")", v.Type())
}
