package interp

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// server is a server as seen by scripts: every attribute and index is a tool. Only the host knows
// which tools exist.
type server struct{ name string }

var (
	_ starlark.HasAttrs = server{}
	_ starlark.Mapping  = server{}
)

func (s server) String() string        { return fmt.Sprintf("<server %s>", s.name) }
func (server) Type() string            { return "server" }
func (server) Freeze()                 {}
func (server) Truth() starlark.Bool    { return true }
func (s server) Hash() (uint32, error) { return starlark.String(s.name).Hash() }
func (server) AttrNames() []string     { return nil }

// Attr is server.tool: the tool by script name.
func (s server) Attr(name string) (starlark.Value, error) {
	if name == "" { // of getattr
		return nil, s.noName()
	}
	return tool{server: s.name, name: name}, nil
}

// Get is server["tool"]: the tool by the server's own name.
func (s server) Get(k starlark.Value) (starlark.Value, bool, error) {
	name, ok := starlark.AsString(k)
	if !ok {
		return nil, false, fmt.Errorf("server %s: the name of a tool is a string, got %s", s.name, k.Type())
	}
	if name == "" {
		return nil, false, s.noName()
	}
	return tool{server: s.name, name: name, exact: true}, true, nil
}

func (s server) noName() error {
	return fmt.Errorf("server %s: the name of a tool cannot be empty", s.name)
}

// tool is a callable tool.
type tool struct {
	server, name string
	exact, raw   bool
}

var (
	_ starlark.Callable = tool{}
	_ starlark.HasAttrs = tool{}
)

// Name is the name in backtraces.
func (t tool) Name() string {
	name := t.server + "." + t.name
	if t.exact {
		name = fmt.Sprintf("%s[%q]", t.server, t.name)
	}
	if t.raw {
		name += ".raw"
	}
	return name
}

func (t tool) String() string        { return fmt.Sprintf("<tool %s>", t.Name()) }
func (tool) Type() string            { return "tool" }
func (tool) Freeze()                 {}
func (tool) Truth() starlark.Bool    { return true }
func (t tool) Hash() (uint32, error) { return starlark.String(t.Name()).Hash() }
func (tool) AttrNames() []string     { return []string{"raw"} }

// Attr has only .raw: the same tool, with whole results.
func (t tool) Attr(name string) (starlark.Value, error) {
	if name != "raw" || t.raw {
		return nil, fmt.Errorf("tool %s has no .%s (it must be called to get a value: %s({...}).%s)", t.Name(), name, t.Name(), name)
	}
	t.raw = true
	return t, nil
}

// CallInternal makes the call and waits for the answer.
func (t tool) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	r := runOf(thread)
	call, err := t.request(r, args, kwargs)
	if err != nil {
		return nil, err
	}
	answers, err := r.callTools(thread, []abi.ToolCall{call})
	if err != nil {
		return nil, err
	}
	if answers[0].Err != nil {
		return nil, &toolError{answers[0].Err}
	}
	v, err := r.answerValue(answers[0])
	if err != nil {
		return nil, fmt.Errorf("%s: its answer cannot be read: %w", t.Name(), err)
	}
	return v, nil
}

// request returns the call with the arguments from a positional dict and keywords. With a dict, the
// keywords timeout and meta are options of the call. Without a dict, all keywords are arguments, so
// no name of an argument is reserved.
func (t tool) request(r *run, args starlark.Tuple, kwargs []starlark.Tuple) (abi.ToolCall, error) {
	call := abi.ToolCall{Server: t.server, Tool: t.name, Exact: t.exact, Raw: t.raw}
	var err error
	if len(args) > 0 {
		rest := make([]starlark.Tuple, 0, len(kwargs))
		for _, kv := range kwargs {
			switch kv[0].(starlark.String) {
			case "timeout":
				call.Timeout, err = t.timeout(kv[1])
			case "meta":
				call.Meta, err = t.meta(r, kv[1])
			default:
				rest = append(rest, kv)
			}
			if err != nil {
				return call, err
			}
		}
		kwargs = rest
	}
	object, err := t.arguments(args, kwargs)
	if err != nil {
		return call, err
	}
	call.Caught = r.guarded(r.current)
	if call.Arguments, err = r.encode("arguments", object); err != nil {
		return call, r.encodeFailed(t.Name(), err)
	}
	return call, nil
}

// timeout returns the timeout of a call in seconds; 0 is none.
func (t tool) timeout(v starlark.Value) (float64, error) {
	if v == starlark.None {
		return 0, nil
	}
	seconds, err := finite("timeout", v)
	if err == nil && seconds <= 0 {
		err = fmt.Errorf("timeout must be more than 0 seconds, got %s", repr(v))
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", t.Name(), err)
	}
	return seconds, nil
}

// meta returns the members for a call's _meta.
func (t tool) meta(r *run, v starlark.Value) ([]byte, error) {
	switch v.(type) {
	case starlark.NoneType:
		return nil, nil
	case Object:
		out, err := r.encode("meta", v)
		if err != nil {
			return nil, r.encodeFailed(t.Name(), err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s: meta must be a dict, got %s", t.Name(), v.Type())
}

// arguments merges the positional dict and the keywords of a call.
func (t tool) arguments(args starlark.Tuple, kwargs []starlark.Tuple) (Object, error) {
	var given Object
	switch {
	case len(args) > 1:
		return given, fmt.Errorf("%s: got %d positional arguments, want one dict or keywords: %s({\"name\": value}) or %s(name=value)",
			t.Name(), len(args), t.Name(), t.Name())
	case len(args) == 1:
		var ok bool
		if given, ok = asObject(args[0]); !ok {
			return given, fmt.Errorf("%s: the arguments must be a dict or keywords, got %s: write %s({\"name\": value}) or %s(name=value)",
				t.Name(), args[0].Type(), t.Name(), t.Name())
		}
		if len(kwargs) == 0 {
			return given, nil
		}
	}
	all := newObject(len(kwargs))
	if given.Dict != nil {
		all = Object{given.Union(all.Dict)}
	}
	for _, kv := range kwargs {
		if found, _ := all.Has(kv[0]); found {
			return all, fmt.Errorf("%s: argument %s is given twice", t.Name(), kv[0])
		}
		if err := all.SetKey(kv[0], kv[1]); err != nil {
			return all, err
		}
	}
	return all, nil
}

// asObject returns any kind of dict as an Object.
func asObject(v starlark.Value) (Object, bool) {
	if like, ok := v.(stdlib.DictLike); ok {
		return Object{like.Underlying()}, true
	}
	return Object{}, false
}

// toolError is the failure of a call.
type toolError struct{ call *abi.CallError }

func (e *toolError) Error() string {
	if e.call.Server == "" && e.call.Tool == "" {
		return e.call.Message
	}
	return fmt.Sprintf("%s.%s: %s", e.call.Server, e.call.Tool, e.call.Message)
}

// fatalError ends the run, uncaught by scripts.
type fatalError struct {
	message string
	limit   string // see abi.Error.Limit
	cause   error  // an error of the script that the script could not catch
}

func (e *fatalError) Error() string { return e.message }

// encodeFailed returns the error for a value without an encoding. If the value was too large, the
// error ends the run.
func (r *run) encodeFailed(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	if errors.Is(err, errTooLarge) {
		fatal := &fatalError{message: err.Error()}
		r.setFatal(fatal)
		return fatal
	}
	return err
}

// undoBuiltin is undo(server.tool, {...}): it registers a call to be made if the script fails, with
// the arguments of the call.
func undoBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("%s: which tool? write %s(server.tool, {\"name\": value})", b.Name(), b.Name())
	}
	t, ok := args[0].(tool)
	if !ok {
		return nil, fmt.Errorf("%s: got %s, want a tool and its arguments, not called yet: %s(server.tool, {\"name\": value})",
			b.Name(), args[0].Type(), b.Name())
	}
	r := runOf(thread)
	call, err := t.request(r, args[1:], kwargs)
	if err != nil {
		return nil, err
	}
	failed, err := r.host.Undo(call)
	if err != nil {
		fatal := &fatalError{message: fmt.Sprintf("%s: %v", t.Name(), err)}
		r.setFatal(fatal)
		return nil, fatal
	}
	if failed != nil {
		return nil, &toolError{failed}
	}
	return starlark.None, nil
}

// commitBuiltin is commit(): it drops the calls registered with undo.
func commitBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackArgs(b.Name(), args, kwargs); err != nil {
		return nil, err
	}
	runOf(thread).host.Commit()
	return starlark.None, nil
}
