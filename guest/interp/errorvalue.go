package interp

import (
	"errors"
	"fmt"
	"maps"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
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
