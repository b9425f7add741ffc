package interp

import (
	"fmt"

	"go.starlark.net/starlark"
)

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
