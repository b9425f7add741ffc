// Package interp is the language of composite tools: Starlark as
// go.starlark.net has it (with sets, while, recursion and control flow at top
// level), plus what scripts that glue tools together need. It is plain Go, so
// that it can be tested natively; package guest compiles it to wasm.
//
// What is added to Starlark:
//
//   - The script is the body of a function: it may return. If it ends without
//     return, and its last statement is an expression, the value of that
//     expression is the result; otherwise the result is None.
//   - params holds the arguments, read-only; json and math are modules; every
//     server is a value by its own name: server.tool({...}), server.tool(a=1),
//     server["odd-name"]({...}), and server.tool.raw({...}) for the whole
//     result of the call instead of the value in it.
//   - Dicts answer to x.name like to x["name"], for reading and assigning.
//     Methods win over keys.
//   - try, except, else, finally and raise, with two classes of errors; what is
//     a limit cannot be caught.
//   - f-strings, string literals side by side, and formats with width and
//     precision; is with None, True and False; sum, round and isinstance.
//   - parallel and parallel_map, whose calls overlap; undo and commit; tools,
//     the saved tools; content, blocks of it.
//   - log and progress beside print.
//   - Integers have any size, in JSON too, and dicts keep their order there.
//
// docs/language.md is the reference. There is no load, no clock, no random.
// Nothing a script can see depends on Go's map order, addresses or time.
//
// How source becomes a program: marks.go and fscan.go put placeholders for what
// the library's parser does not know, only in scripts that have any, identity.go
// for is; shape.go makes statements of them; rewrite.go, rewriteexpr.go,
// template.go, try.go and shared.go turn the tree into one that the library can
// run, without changing positions; compile.go brings these together. hints.go, syntaxhints.go,
// runtimehints.go, lex.go and nearest.go word what is wrong with a script;
// errors.go turns failures into abi.Error; lint.go looks for what is probably
// not meant, lintcall.go for the tools that a script names, and outline.go for
// what it binds and how it ends.
//
// What runs with it: object.go is the dict, catch.go and errorvalue.go are try
// and errors, repr.go prints values, format.go and spec.go format them,
// server.go calls tools, parallel.go many at once, undo.go names those that take
// something back, content.go makes content blocks, say.go is what a script says,
// builtins.go, numbers.go, kinds.go and jsonmodule.go are the rest of what it can
// name; decode.go and encode.go carry values across as JSON, each behind one type.
package interp

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/starlark"
)

const (
	// MaxFrames is how deep calls may nest, built-in functions included. It is
	// looked at every stepSlice steps, so a run ends at most stepSlice/2 frames
	// later (a call takes two steps at least), and always at the same one.
	MaxFrames = abi.MaxFrames
	stepSlice = 256
)

// compareDepth is how deep == and < look into values before they fail. The
// library's default of 10 is less than what answers of tools have.
const compareDepth = 200

func init() { starlark.CompareLimit = compareDepth }

// Host is what a script can reach. It is called from the goroutine that called
// Run, one call at a time.
type Host interface {
	// CallTools makes a batch of calls and returns one answer per call, in
	// order. An error means that the run has reached a limit: no script can
	// catch it. The values of the answers belong to the caller afterwards.
	CallTools(calls []abi.ToolCall) ([]abi.Answer, error)
	// Undo takes a call that is to be made if the run fails. The first result
	// says why it cannot be; an error is one as of CallTools.
	Undo(call abi.ToolCall) (*abi.CallError, error)
	// Commit drops the calls that Undo has taken.
	Commit()
	// Log takes one entry of the script's log, valid UTF-8.
	Log(level abi.LogLevel, text string)
	// Progress reports the script's own advance.
	Progress(p abi.Progress)
}

// Run serves one request: exactly one of result (JSON) and err is non-nil. The
// result of abi.OpCheck is null. It does not panic whatever the request holds,
// and keeps nothing between calls, so concurrent ones are independent.
//
// The error's type is abi.ErrValidation for source that does not parse or
// resolve, the type of the call's error for a tool that failed, abi.ErrResource
// for limits, and abi.ErrRuntime for all else a script can do wrong.
func Run(req abi.Request, h Host) (result []byte, err *abi.Error) {
	return serve(req, h, 0)
}

// serve is Run with a limit on the steps a script may take, for tests that run
// arbitrary scripts; 0 is none.
func serve(req abi.Request, h Host, maxSteps uint64) (result []byte, err *abi.Error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, panicError(p)
		}
	}()
	src := newSource(req.Name, req.Code)
	env := predeclared(req.Servers)
	switch req.Op {
	case abi.OpCheck:
		if _, err := compile(src, env); err != nil {
			return nil, err
		}
		return []byte("null"), nil
	case abi.OpLint:
		return lintResult(src, req.Servers)
	case abi.OpRun:
		prog, err := compile(src, env)
		if err != nil {
			return nil, err
		}
		params, err := readParams(req.Params)
		if err != nil {
			return nil, err
		}
		setParams(env, params)
		r := &run{host: h, src: src, maxSteps: maxSteps}
		return r.exec(prog, env)
	}
	return nil, &abi.Error{Type: abi.ErrInternal, Message: fmt.Sprintf("request: unknown op %q", req.Op)}
}

// readParams makes the read-only params dict; no JSON at all is an empty one.
func readParams(text []byte) (starlark.Value, *abi.Error) {
	if len(text) == 0 {
		text = []byte("{}")
	}
	v, err := decodeJSON(text)
	if err == nil {
		if _, ok := v.(Object); !ok {
			err = fmt.Errorf("got %s, want an object", v.Type())
		}
	}
	if err != nil {
		return nil, &abi.Error{Type: abi.ErrValidation, Message: "params: " + err.Error()}
	}
	v.Freeze()
	return v, nil
}

// A run is one execution of one script.
type run struct {
	host     Host
	src      *source
	maxSteps uint64
	steps    uint64 // of all threads, as far as onSteps has seen
	// fatal is set once, by what no script may catch; it decides what the run's
	// error is, whatever happened to the Go error on its way out.
	fatal *fatalError
}

// runKey finds the run from a built-in function's thread.
const runKey = "run"

func runOf(thread *starlark.Thread) *run { return thread.Local(runKey).(*run) }

// exec runs a compiled script and encodes what it returns.
func (r *run) exec(prog *starlark.Program, env starlark.StringDict) ([]byte, *abi.Error) {
	thread := r.newThread()
	globals, err := prog.Init(thread, env)
	if err != nil {
		return nil, r.scriptError(err)
	}
	value, err := starlark.Call(thread, globals[toplevel], nil, nil)
	if err != nil {
		return nil, r.scriptError(err)
	}
	result, err := encodeJSON("result", value)
	if err != nil {
		return nil, r.resultError(err)
	}
	return result, nil
}

// newThread is a thread of the script.
func (r *run) newThread() *starlark.Thread {
	thread := &starlark.Thread{Name: r.src.name, OnMaxSteps: r.onSteps}
	thread.SetLocal(runKey, r)
	thread.SetMaxExecutionSteps(stepSlice)
	return thread
}

// callTools makes calls for a thread of the script, and returns as many answers.
// An error is one that ends the run.
func (r *run) callTools(thread *starlark.Thread, calls []abi.ToolCall) ([]abi.Answer, error) {
	if t := taskOf(thread); t != nil {
		return t.callTools(calls)
	}
	answers := make([]abi.Answer, 0, len(calls))
	for len(calls) > 0 {
		batch := calls[:min(len(calls), abi.MaxBatch)]
		calls = calls[len(batch):]
		made, err := r.host.CallTools(batch)
		if err == nil && len(made) != len(batch) {
			err = fmt.Errorf("the host gave %d answers to %d calls", len(made), len(batch))
		}
		if err != nil {
			fatal := &fatalError{message: fmt.Sprintf("%s.%s: %v", batch[0].Server, batch[0].Tool, err)}
			r.setFatal(fatal)
			return nil, fatal
		}
		answers = append(answers, made...)
	}
	return answers, nil
}

// onSteps is called by the interpreter every stepSlice steps. To look at the
// depth of the stack here costs nothing per call, and is enough because every
// frame takes steps.
func (r *run) onSteps(thread *starlark.Thread) {
	r.steps += stepSlice
	switch {
	case thread.CallStackDepth() > MaxFrames:
		r.stop(thread, abi.LimitRecursion,
			fmt.Sprintf("call stack deeper than %d frames, a fixed limit (does a function call itself without end?)", MaxFrames))
	case r.maxSteps > 0 && r.steps >= r.maxSteps:
		r.stop(thread, "", fmt.Sprintf("more than %d steps", r.maxSteps))
	default:
		thread.SetMaxExecutionSteps(thread.Steps + stepSlice)
	}
}

// stop ends the run with a resource error.
func (r *run) stop(thread *starlark.Thread, limit, message string) {
	r.setFatal(&fatalError{message: message, limit: limit})
	thread.Cancel(message)
}

func (r *run) setFatal(err *fatalError) {
	if r.fatal == nil {
		r.fatal = err
	}
}
