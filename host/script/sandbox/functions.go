package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"unicode/utf8"

	"github.com/tetratelabs/wazero/api"

	"github.com/mcp-metatool/mcp-metatool/abi"
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
