package sandbox

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tetratelabs/wazero/api"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/tape"
)

// instanceKey is the context key of the *instance that calls a host function.
type instanceKey struct{}

// errEnded is the value with which a host function panics to end the instance; the reason is in
// instance.fault. wazero returns errEnded as an error of the call into the guest.
var errEnded = errors.New("ended by the host")

// hostFunction is a function that guests can import.
type hostFunction struct {
	name            string
	params, results []api.ValueType
	// call gets the parameters in stack and leaves the result in stack[0].
	call func(ctx context.Context, i *instance, stack []uint64)
}

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

func types(t ...api.ValueType) []api.ValueType { return t }

// guarded returns the function for wazero. A panic in the function or in the Caller ends the run
// with an error, and the stack is logged.
func (f hostFunction) guarded() api.GoModuleFunc {
	return func(ctx context.Context, m api.Module, stack []uint64) {
		i := ctx.Value(instanceKey{}).(*instance)
		i.module = m // not set yet if a start function calls
		defer func() {
			switch r := recover(); r {
			case nil:
			case errEnded:
				panic(r)
			default:
				i.log.Error("sandbox: host function panicked", "function", f.name, "tool", i.name,
					"panic", r, "stack", string(debug.Stack()))
				i.end(&hostError{f.name, fmt.Sprintf("panic: %v", r)})
			}
		}()
		f.call(ctx, i, stack)
	}
}

// abiFunctions are the functions of package abi, which documents them.
var abiFunctions = []hostFunction{
	{abi.FuncRequestRead, types(i32, i32), types(i64), serving(requestRead)},
	{abi.FuncCallTools, types(i32, i32), types(i64), executing(callTools)},
	{abi.FuncAnswerRead, types(i32, i32, i32), types(i64), executing(answerRead)},
	{abi.FuncAnswerTape, types(i32, i32, i32), types(i64), executing(answerTape)},
	{abi.FuncUndo, types(i32, i32), types(i64), executing(undo)},
	{abi.FuncCommit, nil, types(i64), executing(commit)},
	{abi.FuncProgress, types(i32, i32), types(i64), executing(progress)},
	{abi.FuncLog, types(i32, i32, i32), types(i64), executing(logWrite)},
	{abi.FuncResponseWrite, types(i32, i32, i32), types(i64), serving(responseWrite)},
	{abi.FuncFuelOut, nil, nil, fuelOut},
}

// executing wraps a function with effects. The function may only be called while a script is
// executed: the state of a guest that compiles a script may be copied.
func executing(call func(context.Context, *instance, []uint64)) func(context.Context, *instance, []uint64) {
	return serving(func(ctx context.Context, i *instance, stack []uint64) {
		if i.preparing {
			i.end(i.trap("it calls the host while it compiles a script"))
		}
		call(ctx, i, stack)
	})
}

// serving wraps a function that may only be called while a request is served. Every copy of the
// snapshot would have the effects of an earlier call.
func serving(call func(context.Context, *instance, []uint64)) func(context.Context, *instance, []uint64) {
	return func(ctx context.Context, i *instance, stack []uint64) {
		if !i.serving {
			i.end(i.trap("it calls the host before it is asked to serve a request"))
		}
		call(ctx, i, stack)
	}
}

func requestRead(_ context.Context, i *instance, stack []uint64) {
	i.chargeCall(len(i.request), copyCost)
	i.copyOut(abi.FuncRequestRead, i.request, uint32(stack[0]), uint32(stack[1]))
	stack[0] = abi.Pack(abi.OK, uint32(len(i.request)))
}

func callTools(ctx context.Context, i *instance, stack []uint64) {
	stack[0] = i.callTools(ctx, uint32(stack[0]), uint32(stack[1]))
}

func (i *instance) callTools(ctx context.Context, ptr, length uint32) uint64 {
	message := i.view(abi.FuncCallTools, ptr, length)
	i.chargeCall(len(message), checkCost)
	i.answers = answers{}
	switch {
	case i.responded:
		return abi.Pack(abi.Invalid, 0)
	case i.limit != nil: // a limit is final: no more calls are made for this run
		return abi.Pack(abi.Limit, 0)
	case len(message) > i.limits.Arguments:
		i.recordLimit(LimitArguments, i.limits.Arguments, fmt.Sprintf(
			"arguments of %s in one batch of calls, more than %s", formatBytes(uint64(len(message))), formatBytes(uint64(i.limits.Arguments))))
		return abi.Pack(abi.Limit, 0)
	}
	// The calls outlive this function's view of guest memory.
	calls, err := decodeCalls(append([]byte(nil), message...))
	if err != nil {
		return abi.Pack(abi.Invalid, 0)
	}
	if !i.admitCalls(len(calls)) {
		return abi.Pack(abi.Limit, 0)
	}
	i.calls += len(calls)
	i.chargeMemory(ctx)
	var made []abi.Answer
	i.withoutSlot(func() { made = i.caller.CallTools(ctx, calls) })
	if ctx.Err() != nil {
		i.end(stopped(ctx, i.name))
	}
	if len(made) != len(calls) {
		i.end(&hostError{abi.FuncCallTools, fmt.Sprintf("%d answers to %d calls", len(made), len(calls))})
	}
	return abi.Pack(abi.OK, i.answers.set(i, calls, made))
}

func undo(ctx context.Context, i *instance, stack []uint64) {
	stack[0] = i.undo(ctx, uint32(stack[0]), uint32(stack[1]))
}

func (i *instance) undo(ctx context.Context, ptr, length uint32) uint64 {
	message := i.view(abi.FuncUndo, ptr, length)
	i.chargeCall(len(message), checkCost)
	i.answers = answers{}
	switch {
	case i.responded:
		return abi.Pack(abi.Invalid, 0)
	case i.limit != nil:
		return abi.Pack(abi.Limit, 0)
	case len(message) > i.limits.Arguments-i.undoBytes:
		i.recordLimit(LimitArguments, i.limits.Arguments, fmt.Sprintf(
			"arguments of more than %s in calls registered with undo", formatBytes(uint64(i.limits.Arguments))))
		return abi.Pack(abi.Limit, 0)
	}
	call, err := decodeCall(append([]byte(nil), message...))
	if err != nil {
		return abi.Pack(abi.Invalid, 0)
	}
	if !i.admitCalls(1) {
		return abi.Pack(abi.Limit, 0)
	}
	i.undoCalls++
	i.undoBytes += len(message)
	i.chargeMemory(ctx)
	var failed *abi.CallError
	i.withoutSlot(func() { failed = i.caller.Undo(ctx, call) })
	if ctx.Err() != nil {
		i.end(stopped(ctx, i.name))
	}
	if failed == nil {
		return abi.Pack(abi.OK, 0)
	}
	i.answers.set(i, []abi.ToolCall{call}, []abi.Answer{{Err: failed}})
	return abi.Pack(abi.ToolError, 1)
}

// admitCalls reports whether n more calls are within the limits. If not, the limit is recorded.
func (i *instance) admitCalls(n int) bool {
	if n > i.limits.Calls-i.calls-i.undoCalls {
		i.recordLimit(LimitCalls, i.limits.Calls, fmt.Sprintf("more than %d tool calls", i.limits.Calls))
		return false
	}
	if !i.account.takeCalls(n) {
		i.recordLimit(LimitCalls, int(i.account.allCalls),
			fmt.Sprintf("with the scripts that call it, or that it calls, more than %d tool calls", i.account.allCalls))
		return false
	}
	return true
}

func commit(_ context.Context, i *instance, stack []uint64) {
	i.chargeCall(0, 0)
	if i.responded {
		stack[0] = abi.Pack(abi.Invalid, 0)
		return
	}
	i.undoBytes = 0
	i.caller.Commit()
	stack[0] = abi.Pack(abi.OK, 0)
}

func answerRead(_ context.Context, i *instance, stack []uint64) {
	i.chargeCall(0, 0)
	stack[0] = i.answers.fetch(i, uint32(stack[0]), uint32(stack[1]), uint32(stack[2]))
}

func answerTape(_ context.Context, i *instance, stack []uint64) {
	i.chargeCall(0, 0)
	stack[0] = i.answers.fetchTape(i, uint32(stack[0]), uint32(stack[1]), uint32(stack[2]))
}

func progress(_ context.Context, i *instance, stack []uint64) {
	message := i.view(abi.FuncProgress, uint32(stack[0]), uint32(stack[1]))
	i.chargeCall(len(message), checkCost)
	var p abi.Progress
	if i.responded || len(message) > abi.MaxProgress || decode(message, &p, 0) != nil {
		stack[0] = abi.Pack(abi.Invalid, 0)
		return
	}
	i.withoutSlot(func() { i.caller.Progress(p) })
	stack[0] = abi.Pack(abi.OK, 0)
}

// logEntryOverhead is the size of each log entry in addition to the text, in bytes, so that empty
// entries are limited too.
const logEntryOverhead = 32

func logWrite(_ context.Context, i *instance, stack []uint64) {
	level := uint32(stack[0])
	text := i.view(abi.FuncLog, uint32(stack[1]), uint32(stack[2]))
	i.chargeCall(len(text), copyCost)
	cost := len(text) + logEntryOverhead
	switch {
	case i.responded || level > uint32(abi.LogError):
		stack[0] = abi.Pack(abi.Invalid, 0)
	case i.logFull:
		stack[0] = abi.Pack(abi.Limit, 0)
	case cost > i.limits.Logs-i.logged:
		i.logFull = true
		i.addLog(abi.LogWarn, fmt.Sprintf("the log is full (%s): later entries are dropped%s",
			formatBytes(uint64(i.limits.Logs)), i.logFullAdvice))
		stack[0] = abi.Pack(abi.Limit, 0)
	case !utf8.Valid(text):
		stack[0] = abi.Pack(abi.Invalid, 0)
	default:
		i.logged += cost
		i.addLog(abi.LogLevel(level), string(text))
		stack[0] = abi.Pack(abi.OK, 0)
	}
}

// addLog passes an entry of the log to the caller.
func (i *instance) addLog(level abi.LogLevel, text string) {
	if send := i.caller.Log(level, text); send != nil {
		i.withoutSlot(send)
	}
}

func responseWrite(_ context.Context, i *instance, stack []uint64) {
	kind := uint32(stack[0])
	message := i.view(abi.FuncResponseWrite, uint32(stack[1]), uint32(stack[2]))
	i.chargeCall(len(message), checkCost)
	stack[0] = abi.Pack(i.respond(kind, message), 0)
}

func (i *instance) respond(kind uint32, message []byte) abi.Code {
	if i.responded || kind > abi.ResponseError {
		return abi.Invalid
	}
	if i.preparing && kind == abi.ResponseResult {
		if string(message) != "null" {
			return abi.Invalid
		}
		i.responded = true
		return abi.OK
	}
	if len(message) > i.limits.Result {
		if kind == abi.ResponseResult {
			i.recordLimit(LimitResult, i.limits.Result, fmt.Sprintf(
				"result of %s, more than %s", formatBytes(uint64(len(message))), formatBytes(uint64(i.limits.Result))))
		}
		return abi.Limit
	}
	own := append([]byte(nil), message...)
	if kind == abi.ResponseError {
		e, err := decodeError(own)
		if err != nil {
			return abi.Invalid
		}
		i.scriptErr = e
	} else {
		if checkValue(own, abi.MaxDepth) != nil {
			return abi.Invalid
		}
		i.result = own
	}
	i.responded = true
	return abi.OK
}

// copyOut writes a message into the guest's buffer if the buffer is large enough, and reports
// whether.
func (i *instance) copyOut(function string, message []byte, ptr, capacity uint32) bool {
	buf := i.view(function, ptr, capacity)
	return len(message) <= len(buf) && copy(buf, message) == len(message)
}

// view returns a range of guest memory, which is valid until the guest runs again. A
// range outside the memory ends the instance.
func (i *instance) view(function string, ptr, length uint32) []byte {
	mem := i.module.Memory()
	b, ok := mem.Read(ptr, length)
	if !ok {
		i.end(i.trap(fmt.Sprintf("it passed %s the range of %d bytes at %#x; its memory has %d bytes", function, length, ptr, mem.Size())))
	}
	return b
}

// The cost, in fuel, of the host's work for the guest. Without the cost, a script could keep the
// host busy almost for free.
const (
	callCost  = 1000 // each call of a host function of package abi
	copyCost  = 1    // each copied byte
	checkCost = 16   // each byte checked to be JSON, and copied
	tapeCost  = 4    // each byte of JSON that becomes a tape
)

// chargeCall charges fuel for a call of a host function with a message of n bytes,
// at cost units each.
func (i *instance) chargeCall(n, cost int) { i.fuel.charge(callCost + n*cost) }

// recordLimit records the first limit that the run has reached. The guest can still report the
// position in the script.
func (i *instance) recordLimit(limit Limit, value int, message string) {
	if i.limit == nil {
		i.limit = &LimitError{Limit: limit, Value: uint64(value),
			Message: fmt.Sprintf("script %q: %s", i.name, message)}
	}
}

// end ends the instance from within a host function, and does not return.
func (i *instance) end(why error) {
	i.fault = why
	panic(errEnded)
}

// answers has the answers to the last batch of calls.
type answers struct {
	pending []pendingAnswer
	// tape is the tape of answer number taped, if made and not fetched yet.
	tape  []byte
	taped uint32
}

// pendingAnswer is an answer that the guest can fetch once.
type pendingAnswer struct {
	code    abi.Code
	bytes   []byte // JSON
	fetched bool
}

// set stores the answers to a batch and returns their number. An answer that is too large, alone or
// together with earlier answers, becomes an error.
func (a *answers) set(i *instance, calls []abi.ToolCall, made []abi.Answer) uint32 {
	a.pending = make([]pendingAnswer, len(made))
	var total uint64
	for n, answer := range made {
		p := pendingAnswer{code: abi.OK, bytes: answer.Value}
		if answer.Err != nil {
			p = i.errorAnswer(answer.Err)
		} else if len(answer.Value) == 0 {
			i.end(&hostError{abi.FuncCallTools, fmt.Sprintf("neither value nor error from %s.%s", calls[n].Server, calls[n].Tool)})
		}
		total += uint64(len(p.bytes))
		if len(p.bytes) > i.limits.Answer || total > i.limits.Memory {
			message := fmt.Sprintf("answer of %s.%s: %s, more than %s", calls[n].Server, calls[n].Tool,
				formatBytes(uint64(len(p.bytes))), formatBytes(uint64(i.limits.Answer)))
			if len(p.bytes) <= i.limits.Answer {
				message = fmt.Sprintf("answers of one batch: more than the %s of memory of the run", formatBytes(i.limits.Memory))
			}
			i.recordLimit(LimitAnswer, i.limits.Answer, message)
			total -= uint64(len(p.bytes))
			p = i.errorAnswer(&abi.CallError{Type: abi.ErrResource, Server: calls[n].Server, Tool: calls[n].Tool, Message: message})
		}
		a.pending[n] = p
	}
	return uint32(len(made))
}

// fetch writes an answer into the guest's buffer, if the buffer is large enough, and drops the
// answer.
func (a *answers) fetch(i *instance, index, ptr, capacity uint32) uint64 {
	if uint64(index) >= uint64(len(a.pending)) || a.pending[index].fetched {
		i.view(abi.FuncAnswerRead, ptr, capacity)
		return abi.Pack(abi.Invalid, 0)
	}
	p := &a.pending[index]
	n := uint32(len(p.bytes))
	if i.copyOut(abi.FuncAnswerRead, p.bytes, ptr, capacity) {
		i.fuel.charge(len(p.bytes) * copyCost)
		p.bytes, p.fetched = nil, true
	}
	return abi.Pack(p.code, n)
}

// fetchTape is fetch with a tape in place of JSON. An answer without a tape is not fetched.
func (a *answers) fetchTape(i *instance, index, ptr, capacity uint32) uint64 {
	if uint64(index) < uint64(len(a.pending)) && a.pending[index].code != abi.OK {
		return a.fetch(i, index, ptr, capacity)
	}
	i.view(abi.FuncAnswerTape, ptr, capacity)
	if uint64(index) >= uint64(len(a.pending)) || a.pending[index].fetched {
		return abi.Pack(abi.Invalid, 0)
	}
	p := &a.pending[index]
	if a.tape == nil || a.taped != index {
		if len(p.bytes) > tape.MaxText || i.withheldIn(p.bytes) {
			return abi.Pack(abi.Invalid, 0)
		}
		i.fuel.charge(len(p.bytes) * tapeCost)
		made, ok := tape.Encode(p.bytes)
		if !ok {
			return abi.Pack(abi.Invalid, 0)
		}
		a.tape, a.taped = made, index
	}
	n := uint32(len(a.tape))
	if i.copyOut(abi.FuncAnswerTape, a.tape, ptr, capacity) {
		i.fuel.charge(len(a.tape) * copyCost)
		a.tape, p.bytes, p.fetched = nil, nil, true
	}
	return abi.Pack(p.code, n)
}

// withheldIn reports whether an answer has a placeholder for a withheld answer. A tape would give
// the guest the placeholder's text.
func (i *instance) withheldIn(answer []byte) bool {
	marker := i.script.Withheld
	if marker == "" {
		return false
	}
	i.fuel.charge(len(answer) * copyCost)
	return bytes.Contains(answer, []byte(marker))
}

func (i *instance) errorAnswer(e *abi.CallError) pendingAnswer {
	b, err := encode(e)
	if err != nil {
		i.end(&hostError{abi.FuncCallTools, fmt.Sprintf("error of %s.%s: %v", e.Server, e.Tool, err)})
	}
	return pendingAnswer{code: abi.ToolError, bytes: b}
}

// encode returns the JSON of a message to the guest. Raw parts stay as they are,
// including HTML characters.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := stdjson.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// checkValue checks that text is a JSON value in valid UTF-8, at most depth deep, without duplicate
// names in an object: readers differ in their choice among duplicates.
func checkValue(b []byte, depth int) error {
	if !jsontext.Value(b).IsValid() {
		return errors.New("not a single valid JSON value")
	}
	if d := nesting(b); d > depth {
		return fmt.Errorf("nested %d deep, more than %d", d, depth)
	}
	return nil
}

// nesting returns the depth of valid JSON.
func nesting(b []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString:
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}

// decode reads a message of the guest. Names must match exactly, and unknown names are refused.
// extra is the depth that the message itself adds to abi.MaxDepth.
func decode(b []byte, v any, extra int) error {
	if err := checkValue(b, abi.MaxDepth+extra); err != nil {
		return err
	}
	return json.Unmarshal(b, v, json.RejectUnknownMembers(true))
}

// decodeCalls reads a batch.
func decodeCalls(b []byte) ([]abi.ToolCall, error) {
	var calls []abi.ToolCall
	if items := itemsOf(b, abi.MaxBatch+1); items > abi.MaxBatch { // before the memory for more calls is taken
		return nil, fmt.Errorf("a batch of more than %d calls", abi.MaxBatch)
	}
	if err := decode(b, &calls, 2); err != nil {
		return nil, err
	}
	if len(calls) == 0 || len(calls) > abi.MaxBatch {
		return nil, fmt.Errorf("a batch of %d calls", len(calls))
	}
	for i := range calls {
		if err := checkCall(&calls[i]); err != nil {
			return nil, fmt.Errorf("call %d: %w", i, err)
		}
	}
	return calls, nil
}

// itemsOf returns how many items the array b has, most at most.
func itemsOf(b []byte, most int) (items int) {
	d := jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '[' {
		return 0
	}
	for items < most && d.PeekKind() != ']' && d.SkipValue() == nil {
		items++
	}
	return items
}

// decodeCall reads a call.
func decodeCall(b []byte) (call abi.ToolCall, err error) {
	if err = decode(b, &call, 1); err == nil {
		err = checkCall(&call)
	}
	return call, err
}

func checkCall(c *abi.ToolCall) error {
	c.Arguments, c.Meta = bytes.TrimSpace(c.Arguments), bytes.TrimSpace(c.Meta)
	switch {
	case c.Server == "" || c.Tool == "":
		return errors.New("no server or tool")
	case len(c.Arguments) == 0 || c.Arguments[0] != '{':
		return errors.New("arguments are not an object")
	case len(c.Meta) > 0 && c.Meta[0] != '{':
		return errors.New("meta is not an object")
	case c.Timeout < 0:
		return errors.New("a negative timeout")
	}
	return nil
}

// decodeError reads a script's error, and refuses types that only the host may set.
func decodeError(b []byte) (*abi.Error, error) {
	e := new(abi.Error)
	if err := decode(b, e, 2); err != nil {
		return nil, err
	}
	switch e.Type {
	case abi.ErrValidation, abi.ErrRuntime, abi.ErrTool, abi.ErrTimeout, abi.ErrResource, abi.ErrPermission, abi.ErrInternal, abi.ErrWithheld:
		return e, nil
	default:
		return nil, fmt.Errorf("error of type %q", e.Type)
	}
}
