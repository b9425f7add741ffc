package interp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// errorValue is an error as scripts see it: except Error as e binds one, and
// Error("...") makes one.
type errorValue struct {
	kind         abi.ErrorType
	tool         bool   // it is a ToolError
	message      string // without the name of the tool
	server, name string // of a ToolError
	details      starlark.Value

	raised bool                // by the script, with raise or fail
	origin *starlark.EvalError // has its backtrace; set when it is caught
	cause  *errorValue         // the error being handled, or the operand of from
}

var (
	_ starlark.HasAttrs  = (*errorValue)(nil)
	_ starlark.Mapping   = (*errorValue)(nil)
	_ starlark.HasBinary = (*errorValue)(nil)
)

func (e *errorValue) String() string {
	return fmt.Sprintf("%s(%s)", e.Type(), starlark.String(e.message))
}

// text returns what str(e) returns.
func (e *errorValue) text() string {
	if e.server == "" && e.name == "" {
		return e.message
	}
	return fmt.Sprintf("%s.%s: %s", e.server, e.name, e.message)
}

func (e *errorValue) Type() string {
	if e.tool {
		return "ToolError"
	}
	return "Error"
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
	}
	return nil, fmt.Errorf("%s has no .%s%s", e.Type(), name, suggest(name, errorAttrs, errorAttrs))
}

// object returns the fields that are set, for JSON.
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

// encodedDetails returns the details as JSON, nil if there are none. A value that
// JSON does not have becomes text.
func (e *errorValue) encodedDetails() []byte {
	if e.details == starlark.None {
		return nil
	}
	const most = 1 << 20 // no reader of an error needs more
	out, err := encodeWithin(most, "details", e.details)
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

// reraise returns the Go error that raises e again. It is the one that was caught, if
// any, so that the position and backtrace of the first raise are kept.
func (e *errorValue) reraise() error {
	if e.origin != nil {
		return e.origin
	}
	return &raised{e}
}

// raised is the Go error for an error that the script has raised.
type raised struct{ value *errorValue }

func (r *raised) Error() string { return r.value.text() }

// errorOf returns the error that scripts see when a call fails.
func errorOf(err error) *errorValue {
	var origin *starlark.EvalError
	errors.As(err, &origin)
	var own *raised
	if errors.As(err, &own) {
		own.value.origin = origin
		return own.value
	}
	e := &errorValue{kind: abi.ErrRuntime, message: clip(explain(err.Error()), maxErrorText), details: starlark.None, origin: origin}
	var failed *toolError
	if errors.As(err, &failed) {
		e.kind, e.tool, e.message = failed.call.Type, true, failed.call.Message
		e.server, e.name = failed.call.Server, failed.call.Tool
		if v, err := decodeJSON(failed.call.Details); len(failed.call.Details) > 0 && err == nil {
			e.details = v
		}
	}
	return e
}

// errorMaker is a class of errors: Error or ToolError.
type errorMaker struct{ tool bool }

var _ starlark.Callable = (*errorMaker)(nil)

var (
	makeError     = &errorMaker{}
	makeToolError = &errorMaker{tool: true}
)

func (m *errorMaker) Name() string {
	if m.tool {
		return "ToolError"
	}
	return "Error"
}

func (m *errorMaker) kind() abi.ErrorType {
	if m.tool {
		return abi.ErrTool
	}
	return abi.ErrRuntime
}

func (m *errorMaker) String() string        { return "<class " + m.Name() + ">" }
func (*errorMaker) Type() string            { return "class" }
func (*errorMaker) Freeze()                 {}
func (*errorMaker) Truth() starlark.Bool    { return true }
func (m *errorMaker) Hash() (uint32, error) { return starlark.String(m.Name()).Hash() }

// CallInternal implements Error(message, details=None), and ToolError, which also has
// server and tool.
func (m *errorMaker) CallInternal(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	e := &errorValue{kind: m.kind(), tool: m.tool, details: starlark.None}
	var message starlark.Value = starlark.String(m.Name())
	pairs := []any{"message?", &message, "details?", &e.details}
	if m.tool {
		pairs = append(pairs, "server?", &e.server, "tool?", &e.name)
	}
	if err := starlark.UnpackArgs(m.Name(), args, kwargs, pairs...); err != nil {
		return nil, err
	}
	e.message = strings.ToValidUTF8(text(message), "\uFFFD")
	return e, nil
}
