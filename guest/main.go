//go:build wasip1

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"unsafe"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/interp"
)

// The imports, named by abi.HostModule and abi.Func... Directives cannot use
// constants, so a test of host/script/sandbox compares the names.

//go:wasmimport metatool request_read
func requestRead(ptr unsafe.Pointer, capacity uint32) uint64

//go:wasmimport metatool call_tools
func callTools(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport metatool answer_read
func answerRead(index uint32, ptr unsafe.Pointer, capacity uint32) uint64

//go:wasmimport metatool answer_tape
func answerTape(index uint32, ptr unsafe.Pointer, capacity uint32) uint64

//go:wasmimport metatool undo
func undo(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport metatool commit
func commit() uint64

//go:wasmimport metatool progress
func progress(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport metatool log
func log(level uint32, ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport metatool response_write
func responseWrite(kind uint32, ptr unsafe.Pointer, length uint32) uint64

// maxStack is the limit of the Go stack of a script, in bytes. The host's native stack grows
// several times faster than the Go stack, so this limit keeps a deeply recursive script from using
// up the host's memory.
const maxStack = 4 << 20

// The garbage collector only runs when memory is short. Most scripts end earlier and never pay for
// a collection.
func init() {
	debug.SetGCPercent(-1)
	debug.SetMaxStack(maxStack)
	firstOnHeap = new([1 << 10]byte)
	spare = make([]byte, spareMemory)
	spare = nil
	runtime.GC()
}

// spareMemory is how much free memory the heap has when the host takes its snapshot, in bytes.
// While free memory lasts, the memory need not grow, and only then can the host use an instance
// again, or keep the state after compiling a script. Free memory costs nothing until written.
const spareMemory = 2 << 20

// spare is where init allocates spareMemory, which is then free.
var spare []byte

func main() {} // A reactor has no main; the linker wants one.

//go:wasmexport abi_version
func abiVersion() uint32 { return abi.Version }

//go:wasmexport run
func run() {
	result, scriptErr := serve()
	if scriptErr == nil {
		switch code := writeResult(result); code {
		case abi.OK:
			return
		case abi.Limit:
			scriptErr = &abi.Error{Type: abi.ErrResource, Message: fmt.Sprintf("result of %d bytes is larger than a result may be", len(result))}
		default:
			scriptErr = &abi.Error{Type: abi.ErrInternal, Message: fmt.Sprintf("the host refused the result (code %d)", code)}
		}
	}
	writeError(scriptErr)
}

// serve runs the request. A panic of the interpreter becomes an error, so the text of the panic is
// reported instead of a bare trap.
func serve() (result []byte, scriptErr *abi.Error) {
	defer func() {
		if r := recover(); r != nil {
			result, scriptErr = nil, &abi.Error{Type: abi.ErrInternal, Message: fmt.Sprintf("the interpreter panicked: %v", r), Stack: string(debug.Stack())}
		}
	}()
	message, _ := fetch(requestRead)
	req, err := interp.ReadRequest(message)
	if err != nil {
		return nil, &abi.Error{Type: abi.ErrInternal, Message: err.Error()}
	}
	limitMemory(req.Memory)
	program := prepared
	prepared = nil
	switch {
	case req.Op == abi.OpPrepare:
		prepared, scriptErr = interp.Prepare(req)
		return []byte("null"), scriptErr
	case req.Op != abi.OpExecute:
		return interp.Run(req, host{})
	case program == nil:
		return nil, &abi.Error{Type: abi.ErrInternal, Message: "request: there is no program to execute"}
	}
	return program.Execute(req, host{})
}

// prepared is the program of the last request, if the request was an abi.OpPrepare.
var prepared *interp.Program

// memoryLimit is the limit last given to the collector.
var memoryLimit uint64

// limitMemory tells the collector the memory limit of a request, in bytes; 0 is none.
func limitMemory(limit uint64) {
	if limit == 0 || limit == memoryLimit { // setting it stops the world
		return
	}
	memoryLimit = limit
	debug.SetMemoryLimit(int64(heapLimit(limit)))
}

// heapLimit returns how much the collector may let the heap grow. The rest is for memory not
// counted by the collector and for the last allocation before a collection. The collector does not
// count the guest's own data below the heap either, a large part of a small memory.
func heapLimit(memory uint64) uint64 {
	limit := memory / 4 * 3
	if data := uint64(uintptr(unsafe.Pointer(firstOnHeap))); data < memory {
		limit = min(limit, (memory-data)/8*7)
	}
	return limit
}

// firstOnHeap is near the beginning of the heap. init makes it, because the compiler would
// otherwise put the array among the guest's own data.
var firstOnHeap *[1 << 10]byte

// host implements interp.Host with the imports.
type host struct{}

var _ interp.Host = host{}

var errLimit = errors.New("the run has reached its limit of tool calls or of their size")

func (host) CallTools(calls []abi.ToolCall) ([]abi.Answer, error) {
	message := interp.AppendCalls(nil, calls)
	code, n := abi.Unpack(callTools(pointer(message), uint32(len(message))))
	switch {
	case code == abi.Limit:
		return nil, errLimit
	case code != abi.OK || int(n) != len(calls):
		return nil, fmt.Errorf("the host refused the tool calls (code %d)", code)
	}
	return fetchAnswers(int(n))
}

func (host) Undo(call abi.ToolCall) (*abi.CallError, error) {
	message := interp.AppendCall(nil, call)
	switch code, _ := abi.Unpack(undo(pointer(message), uint32(len(message)))); code {
	case abi.OK:
		return nil, nil
	case abi.ToolError:
		refused, err := answer(0)
		return refused.Err, err
	case abi.Limit:
		return nil, errLimit
	default:
		return nil, fmt.Errorf("the host refused the call (code %d)", code)
	}
}

func (host) Commit() { commit() }

// fetchAnswers fetches the n answers to the last batch of calls.
func fetchAnswers(n int) ([]abi.Answer, error) {
	answers := make([]abi.Answer, n)
	for i := range answers {
		var err error
		if answers[i], err = answer(uint32(i)); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// answer fetches the answer to call number i of the last batch.
func answer(i uint32) (abi.Answer, error) {
	code, n := abi.Unpack(answerTape(i, pointer(firstFetch[:]), uint32(len(firstFetch))))
	switch {
	case code == abi.OK:
		tape := make([]uint32, (n+3)/4)
		if int(n) > len(firstFetch) {
			answerTape(i, unsafe.Pointer(unsafe.SliceData(tape)), n)
		} else {
			copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(tape))), n), firstFetch[:])
		}
		return abi.Answer{Tape: tape}, nil
	case code == abi.ToolError && int(n) <= len(firstFetch):
		return callError(append([]byte(nil), firstFetch[:n]...))
	}
	value, code := fetch(func(ptr unsafe.Pointer, capacity uint32) uint64 { return answerRead(i, ptr, capacity) })
	switch code {
	case abi.OK:
		return abi.Answer{Value: value}, nil
	case abi.ToolError:
		return callError(value)
	default:
		return abi.Answer{}, fmt.Errorf("the host has no answer %d (code %d)", i, code)
	}
}

// callError returns the answer of a failed call.
func callError(message []byte) (abi.Answer, error) {
	failure := new(abi.CallError)
	if err := json.Unmarshal(message, failure); err != nil {
		return abi.Answer{}, fmt.Errorf("tool error: %w", err)
	}
	return abi.Answer{Err: failure}, nil
}

func (host) Log(level abi.LogLevel, text string) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	log(uint32(level), unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}

func (host) Progress(p abi.Progress) {
	if len(p.Message) > abi.MaxProgress/8 { // an escaped byte takes up to six
		p.Message = p.Message[:abi.MaxProgress/8]
	}
	p.Message = strings.ToValidUTF8(p.Message, "\uFFFD")
	if message, err := encode(p); err == nil { // fails for an infinite number or NaN
		progress(pointer(message), uint32(len(message)))
	}
}

func writeResult(result []byte) abi.Code {
	code, _ := abi.Unpack(responseWrite(abi.ResponseResult, pointer(result), uint32(len(result))))
	return code
}

// writeError writes an error as the response. If the error is too large, writeError leaves out the
// long parts.
func writeError(e *abi.Error) {
	for _, shorten := range []func(){
		func() {},
		func() {
			e.Details = nil
			if e.Call != nil {
				e.Call.Details = nil
			}
		},
		func() {
			e.Message, e.Stack, e.Position, e.Call = clip(e.Message), clip(e.Stack), nil, nil
		},
	} {
		shorten()
		message, err := encode(e)
		if err != nil {
			continue
		}
		if code, _ := abi.Unpack(responseWrite(abi.ResponseError, pointer(message), uint32(len(message)))); code == abi.OK {
			return
		}
	}
}

func clip(s string) string {
	const most = 4096
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// firstFetch is the first buffer for messages. Most messages fit, so a single call of the host is
// enough, without the cost of clearing a large new buffer.
var firstFetch [8 << 10]byte

// fetch reads a message from the host into a new buffer.
func fetch(read func(ptr unsafe.Pointer, capacity uint32) uint64) ([]byte, abi.Code) {
	code, n := abi.Unpack(read(pointer(firstFetch[:]), uint32(len(firstFetch))))
	buf := make([]byte, n)
	if int(n) > len(firstFetch) {
		code, n = abi.Unpack(read(pointer(buf), uint32(len(buf))))
	} else {
		copy(buf, firstFetch[:])
	}
	return buf[:n], code
}

// encode encodes v as JSON without HTML escapes, so arguments of tools stay unchanged.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
