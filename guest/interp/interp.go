// Package interp implements the language of composite tools: Python without input and output.
// Package parse reads the language; underneath is Starlark as in go.starlark.net, with the changes
// of package patch. Begin with [Run], a request; docs/language.md is the reference.
//
// A script is compiled (compile.go), rewritten to a tree that the library can run at the same
// positions (rewrite.go, try.go), and run with our values (object.go, class.go, iterate.go,
// server.go). lint.go and reach.go examine code without running it.
//
// The package is plain Go, tested natively; package guest compiles it to wasm. Nothing visible to a
// script depends on Go's map order, on addresses or on time.
package interp

import (
	"errors"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

const (
	// MaxFrames is how deep calls may nest, including built-in functions. The depth is checked
	// every stepSlice steps, so a run ends at most stepSlice/2 frames later (a call takes at least
	// two steps), and always at the same frame.
	MaxFrames = abi.MaxFrames
	stepSlice = 256
)

// compareDepth is how deep == and < compare nested values before they fail. The
// library's default of 10 is less than the depth of usual answers of tools.
const compareDepth = 200

func init() { starlark.CompareLimit = compareDepth }

// Host is everything reachable by a script. The methods are called one at a time, by the goroutine
// that called Run.
type Host interface {
	// CallTools makes a batch of calls and returns an answer per call, in order. An error means the
	// run has reached a limit; scripts cannot catch it. The caller owns the values of the answers.
	CallTools(calls []abi.ToolCall) ([]abi.Answer, error)
	// Undo registers a call for the host to make if the run fails. The first result says why the
	// call cannot be registered; the error is as for CallTools.
	Undo(call abi.ToolCall) (*abi.CallError, error)
	// Commit drops the calls registered with Undo.
	Commit()
	// Log adds an entry to the script's log. text is valid UTF-8.
	Log(level abi.LogLevel, text string)
	// Progress reports the script's own progress.
	Progress(p abi.Progress)
}

// Run serves a request. Exactly one of result (JSON) and err is non-nil. The result of abi.OpCheck
// is null. Run does not panic, whatever the request holds. Run keeps nothing between calls, so
// concurrent calls are independent.
//
// The error's type is abi.ErrValidation for malformed source, the type of the call's error for a
// failed tool, abi.ErrResource for limits, and abi.ErrRuntime for every other mistake of a script.
func Run(req abi.Request, h Host) (result []byte, err *abi.Error) {
	return serve(req, h, 0)
}

// serve is Run with a limit on the steps of the script, for tests with arbitrary scripts; 0 is no
// limit.
func serve(req abi.Request, h Host, maxSteps uint64) (result []byte, err *abi.Error) {
	defer catchPanic(&err)
	switch req.Op {
	case abi.OpCheck:
		if _, err := newProgram(req); err != nil {
			return nil, err
		}
		return []byte("null"), nil
	case abi.OpLint:
		return lintResult(requestSource(req), req.Servers)
	case abi.OpRun:
		p, err := newProgram(req)
		if err != nil {
			return nil, err
		}
		return p.run(req, h, maxSteps)
	}
	return nil, &abi.Error{Type: abi.ErrInternal, Message: fmt.Sprintf("request: unknown op %q", req.Op)}
}

// catchPanic sets *err after a panic, which is a bug of the interpreter.
func catchPanic(err **abi.Error) {
	if p := recover(); p != nil {
		*err = panicError(p)
	}
}

// A Program is a compiled script.
type Program struct {
	src  *source
	env  starlark.StringDict
	prog *starlark.Program
}

// Prepare compiles the script of a request of abi.OpPrepare. Like Run, Prepare does not panic.
func Prepare(req abi.Request) (p *Program, err *abi.Error) {
	defer catchPanic(&err)
	return newProgram(req)
}

// Execute is Run for a request of abi.OpExecute. The program was prepared by the request before.
// Execute must be called only once for a program.
func (p *Program) Execute(req abi.Request, h Host) (result []byte, err *abi.Error) {
	defer catchPanic(&err)
	return p.run(req, h, 0)
}

func newProgram(req abi.Request) (*Program, *abi.Error) {
	p := &Program{src: requestSource(req), env: predeclared(req.Servers)}
	var err *abi.Error
	if p.prog, err = compile(p.src, p.env); err != nil {
		return nil, err
	}
	return p, nil
}

func requestSource(req abi.Request) *source {
	src := newSource(req.Name, req.Code)
	src.agentTools = req.AgentTools
	return src
}

func (p *Program) run(req abi.Request, h Host, maxSteps uint64) ([]byte, *abi.Error) {
	r := &run{host: h, src: p.src, maxSteps: maxSteps, memory: req.Memory, clock: req.Now, seed: req.Seed, marker: req.Withheld}
	params, err := r.readParams(req.Params)
	if err != nil {
		return nil, err
	}
	setParams(p.env, params)
	return r.exec(p.prog, p.env)
}

// readParams makes the read-only params dict. No JSON at all is an empty dict.
func (r *run) readParams(text []byte) (starlark.Value, *abi.Error) {
	if len(text) == 0 {
		text = []byte("{}")
	}
	v, err := r.decode(text)
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

// A run is an execution of a script.
type run struct {
	host     Host
	src      *source
	maxSteps uint64
	steps    uint64 // of all threads, as counted by onSteps
	// Values of the request, for modules of the library.
	memory uint64
	clock  int64 // in microseconds since 1970
	seed   uint64
	marker string      // see abi.Request.Withheld
	env    *stdlib.Env // nil until needed
	// lazyBytes is the size of the tapes of lazy dicts.
	lazyBytes uint64
	// modules are the members of modules in Python, by the code of the module.
	modules map[string]starlark.StringDict
	// fatal is the first error beyond the reach of try statements. If set, fatal takes precedence
	// over the Go error of the interpreter.
	fatal *fatalError
	// current is the running thread: of the script, of a task, or of a generator.
	current    *starlark.Thread
	generators []*generator // already begun
	made       uint32       // instances of classes
	// pending is the printed text of an unfinished line.
	pending      string
	pendingLevel abi.LogLevel
	ids          map[any]int // results of id
	texts        int         // nested texts of instances being made
}

// runKey is the key of the run among the locals of a thread.
const runKey = stdlib.EnvKey

func runOf(thread *starlark.Thread) *run { return thread.Local(runKey).(*run) }

// exec runs a compiled script and encodes the result.
func (r *run) exec(prog *starlark.Program, env starlark.StringDict) (text []byte, failure *abi.Error) {
	thread := r.newThread()
	r.current = thread
	defer errorOfLook(&failure)
	defer r.flush()
	defer r.stopGenerators()
	r.adopt(r.src)
	globals, err := prog.Init(thread, env)
	if err != nil {
		return nil, r.scriptError(err)
	}
	value, err := starlark.Call(thread, globals[toplevel], nil, nil)
	if err != nil {
		return nil, r.scriptError(err)
	}
	result, err := r.encode("result", value)
	if eval := (*starlark.EvalError)(nil); errors.As(err, &eval) { // of a generator
		return nil, r.scriptError(err)
	}
	if err != nil {
		return nil, r.resultError(err)
	}
	return result, nil
}

// newThread returns a new thread of the script.
func (r *run) newThread() *starlark.Thread {
	thread := &starlark.Thread{Name: r.src.name, OnMaxSteps: r.onSteps}
	thread.SetLocal(runKey, r)
	thread.SetMaxExecutionSteps(stepSlice)
	return thread
}

// callTools makes calls for a thread of the script and returns an answer per call. An error ends
// the run.
func (r *run) callTools(thread *starlark.Thread, calls []abi.ToolCall) ([]abi.Answer, error) {
	if r.fatal != nil {
		return nil, r.fatal
	}
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

// onSteps is called by the interpreter every stepSlice steps. Checking the depth of the stack here
// costs nothing per call, and is enough because every frame takes steps.
func (r *run) onSteps(thread *starlark.Thread) {
	r.steps += stepSlice
	switch {
	case frames(thread) > MaxFrames:
		r.stop(thread, abi.LimitRecursion, deepMessage)
	case r.maxSteps > 0 && r.steps >= r.maxSteps:
		r.stop(thread, "", fmt.Sprintf("more than %d steps", r.maxSteps))
	default:
		thread.SetMaxExecutionSteps(thread.Steps + stepSlice)
	}
}

// deepMessage is the message of a run with too deep calls.
var deepMessage = fmt.Sprintf("call stack deeper than %d frames, a fixed limit (does a function call itself without end?)", MaxFrames)

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

// ReadRequest decodes a request of the host. It takes a fraction of the time of encoding/json,
// which would take longer than a small script. Names of members match exactly, and unknown names
// are an error. Params shares the bytes of message, which must not be changed afterwards.
func ReadRequest(message []byte) (abi.Request, error) {
	var req abi.Request
	d := decoder{text: unsafe.String(unsafe.SliceData(message), len(message))}
	if err := d.members(func(name string) error { return d.requestMember(&req, message, name) }); err != nil {
		return abi.Request{}, fmt.Errorf("request: %w", err)
	}
	d.space()
	if d.pos < len(d.text) {
		return abi.Request{}, fmt.Errorf("request: %w", d.unexpected("after the value"))
	}
	return req, nil
}

func (d *decoder) requestMember(req *abi.Request, message []byte, name string) (err error) {
	switch name {
	case "op":
		var op string
		op, err = d.wantString()
		req.Op = abi.Op(op)
	case "name":
		req.Name, err = d.wantString()
	case "code":
		req.Code, err = d.wantString()
	case "params":
		d.space()
		start := d.pos
		if err = d.skip(); err == nil {
			req.Params = message[start:d.pos]
		}
	case "servers":
		req.Servers, err = d.wantStrings()
	case "agentTools":
		req.AgentTools, err = d.wantStrings()
	case "memory":
		req.Memory, err = strconv.ParseUint(d.natural(), 10, 64)
	case "withheld":
		req.Withheld, err = d.wantString()
	case "now":
		req.Now, err = strconv.ParseInt(d.natural(), 10, 64)
	case "seed":
		req.Seed, err = strconv.ParseUint(d.natural(), 10, 64)
	default:
		err = d.errorf("unknown name %q", name)
	}
	return err
}

// natural reads the digits of a number.
func (d *decoder) natural() string {
	d.space()
	start := d.pos
	for d.pos < len(d.text) && d.text[d.pos] >= '0' && d.text[d.pos] <= '9' {
		d.pos++
	}
	return d.text[start:d.pos]
}

// wantString reads a string.
func (d *decoder) wantString() (string, error) {
	if d.next() != '"' {
		return "", d.unexpected("where a string should be")
	}
	return d.str()
}

// wantStrings reads an array of strings.
func (d *decoder) wantStrings() (list []string, err error) {
	err = d.elements(func() error {
		s, err := d.wantString()
		list = append(list, s)
		return err
	})
	return list, err
}

// members reads an object and calls value at the value of each member.
func (d *decoder) members(value func(name string) error) error {
	return d.list('{', '}', func() error {
		name, err := d.wantString()
		if err != nil {
			return err
		}
		if d.next() != ':' {
			return d.unexpected("after a key")
		}
		d.pos++
		return value(name)
	})
}

// elements reads an array and calls element at each element.
func (d *decoder) elements(element func() error) error { return d.list('[', ']', element) }

func (d *decoder) list(opening, closing byte, item func() error) error {
	if d.next() != opening {
		return d.unexpected(fmt.Sprintf("where %q should be", opening))
	}
	d.pos++
	if d.next() == closing {
		d.pos++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch d.next() {
		case ',':
			d.pos++
		case closing:
			d.pos++
			return nil
		default:
			return d.unexpected("in a list")
		}
	}
}

// skip skips a value. The check of the value is partial; decoding checks in full.
func (d *decoder) skip() error {
	depth := 0
	for {
		switch d.next() {
		case 0:
			return d.unexpected("in a value")
		case '"':
			for d.pos++; d.pos < len(d.text) && d.text[d.pos] != '"'; d.pos++ {
				if d.text[d.pos] == '\\' {
					d.pos++
				}
			}
			if d.pos >= len(d.text) {
				return d.unexpected("in a string")
			}
			d.pos++
		case '{', '[':
			depth++
			d.pos++
		case '}', ']':
			if depth == 0 {
				return d.unexpected("where a value should be")
			}
			depth--
			d.pos++
		case ',', ':':
			if depth == 0 {
				return d.unexpected("where a value should be")
			}
			d.pos++
			continue
		default:
			for d.pos < len(d.text) && !isDelimiter(d.text[d.pos]) {
				d.pos++
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

func isDelimiter(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', ',', ':', '{', '}', '[', ']', '"':
		return true
	}
	return false
}

// AppendCalls encodes a batch of calls for the host. Arguments must be JSON; they
// are appended as they are.
func AppendCalls(buf []byte, calls []abi.ToolCall) []byte {
	buf = append(buf, '[')
	for i, c := range calls {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = AppendCall(buf, c)
	}
	return append(buf, ']')
}

// AppendCall encodes a call; see AppendCalls.
func AppendCall(buf []byte, c abi.ToolCall) []byte {
	buf = appendString(append(buf, `{"server":`...), c.Server)
	buf = appendString(append(buf, `,"tool":`...), c.Tool)
	if c.Exact {
		buf = append(buf, `,"exact":true`...)
	}
	if c.Raw {
		buf = append(buf, `,"raw":true`...)
	}
	if c.Caught {
		buf = append(buf, `,"caught":true`...)
	}
	if c.Timeout != 0 {
		buf = strconv.AppendFloat(append(buf, `,"timeout":`...), c.Timeout, 'g', -1, 64)
	}
	if c.Meta != nil {
		buf = append(append(buf, `,"meta":`...), c.Meta...)
	}
	buf = append(append(buf, `,"arguments":`...), c.Arguments...)
	return append(buf, '}')
}

// Env returns the run's services for the modules of package stdlib.
func (r *run) Env() *stdlib.Env {
	if r.env == nil {
		r.env = &stdlib.Env{
			Now:      r.now,
			Seed:     r.seedOf,
			Charge:   r.charge,
			NewDict:  func(size int) stdlib.Dict { return newObject(size) },
			DictAttr: dictAttr,
			Str:      text,
			Repr:     repr,
			State:    map[any]any{},
		}
	}
	return r.env
}

// now returns the time of the run, which the host gives with the request.
func (r *run) now() (time.Time, error) {
	return time.UnixMicro(r.clock).UTC(), nil
}

func (r *run) seedOf() (uint64, error) { return r.seed, nil }

// mostMemory limits a single allocation of a run if the request has no limit.
const mostMemory = 1 << 30

// charge ends the run if it may not allocate n bytes. The guest's memory has a separate limit;
// charge names the value that was too large.
func (r *run) charge(n int) error {
	limit := uint64(mostMemory)
	if r.memory > 0 {
		limit = r.memory
	}
	if n >= 0 && uint64(n) <= limit {
		return nil
	}
	fatal := &fatalError{message: "a value would take more than the memory of the run", limit: abi.LimitMemory}
	r.setFatal(fatal)
	return fatal
}

// dictAttr returns a method of dicts for a dict type of the library.
func dictAttr(receiver stdlib.DictLike, name string) (starlark.Value, error) {
	if !isDictMethod(name) && name != "copy" {
		return nil, nil
	}
	return Object{receiver.Underlying()}.Attr(name)
}

// withOwn adds members of ours to a module of the library.
func withOwn(m *stdlib.Module, own starlark.StringDict) starlark.StringDict {
	for name, v := range own {
		m.Members[name] = v
	}
	return m.Members
}
