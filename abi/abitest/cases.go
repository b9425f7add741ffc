package abitest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// End is how a run of a guest must end.
type End string

// The ends. EndLimit comes with the name of the limit.
const (
	EndResult   End = "result"
	EndError    End = "error"    // an error of the script
	EndTrap     End = "trap"     // a fault of the guest
	EndLimit    End = "limit"    // see Case.Limit
	EndDeadline End = "deadline" // the guest runs until the context ends
	EndRefused  End = "refused"  // the guest never runs
)

// The limits of the runs of all cases. The limits are small enough for guests to reach them.
const (
	MaxMemory    = 4 << 20
	MaxCalls     = 5
	MaxArguments = 4 << 10
	MaxAnswer    = 1 << 10
	MaxResult    = 2 << 10
	MaxLogs      = 1 << 10
)

// Params are the params of every run; a guest may echo the request.
const Params = `{"n":12345678901234567890}`

// Case is a handmade guest, and how a run of the guest must end in a host that implements the
// contract. A guest checks the codes and lengths returned by host functions, and traps at the first
// wrong value.
type Case struct {
	Name string
	Wasm []byte
	// Answers are the answers to tool calls, in order, for any tool.
	Answers []abi.Answer
	End     End
	// Limit is "memory", "recursion", "calls", "arguments", "answer" or
	// "result" for EndLimit.
	Limit string
	// Result is the result at EndResult; "" is not compared.
	Result string
	// Calls is how many tool calls have been made at the end.
	Calls int
	// Undo is how many compensations are registered at the end. The host refuses
	// calls of a tool "refused" with the error type permission and the message "no".
	Undo int
	// Withheld is abi.Request.Withheld; "" unless the run is planned.
	Withheld string
	// Logs are the log entries received by the host.
	Logs []string
}

// Cases returns the whole suite.
func Cases() []Case {
	return slices.Concat(correct(), outOfRange(), order(), content(), limits(), endless(), refused(), hostile(), withheld())
}

const (
	okCall   = `[{"server":"s","tool":"t","arguments":{}}]`
	twoCalls = `[{"server":"s","tool":"t","arguments":{"n":1e400}},{"server":"s","tool":"u","exact":true,"raw":true,"timeout":0.5,"meta":{"a":1},"arguments":{}}]`
	okUndo   = `{"server":"s","tool":"t","arguments":{}}`
	refused1 = `{"server":"s","tool":"refused","arguments":{}}`
	okError  = `{"type":"runtime","message":"m","position":{"file":"f","line":1,"column":2}}`
)

func value(json string) abi.Answer { return abi.Answer{Value: []byte(json)} }

// correct returns guests that implement the contract.
func correct() []Case {
	echo := new(script).call(abi.FuncRequestRead, bufAt, bufSize)
	echo.add(I32Wrap, LocalSet(0), I32Const(abi.ResponseResult), I32Const(bufAt), LocalGet(0), Call(index(abi.FuncResponseWrite)), Drop)

	refuses := &abi.CallError{Type: abi.ErrPermission, Server: "s", Tool: "t", Message: "no"}
	refusal := `{"type":"permission","server":"s","tool":"t","message":"no"}`
	return []Case{
		{Name: "result", Wasm: new(script).result(`{"a":1e400}`, abi.OK).module().Encode(), End: EndResult, Result: `{"a":1e400}`},
		{Name: "error", Wasm: new(script).fail(okError, abi.OK).module().Encode(), End: EndError},
		{Name: "echo of the request", Wasm: echo.module().Encode(), End: EndResult},
		{
			Name: "two calls, answers in any order", Answers: []abi.Answer{value(`"first"`), {Err: refuses}}, Calls: 2,
			Wasm: new(script).tools(twoCalls, abi.OK, 2).
				fetch(1, 3, abi.ToolError, uint32(len(refusal))).
				fetch(1, bufSize, abi.ToolError, uint32(len(refusal))).
				fetch(0, 0, abi.OK, 7).fetch(0, 6, abi.OK, 7).fetch(0, 7, abi.OK, 7).
				result("null", abi.OK).module().Encode(),
			End: EndResult, Result: "null",
		},
		{
			Name: "undo, commit", Answers: []abi.Answer{value("1")}, Calls: 1,
			Wasm: new(script).tools(okCall, abi.OK, 1).undo(okUndo, abi.OK, 0).fetch(0, 9, abi.Invalid, 0).
				undo(okUndo, abi.OK, 0).call(abi.FuncCommit).want(abi.OK, 0).call(abi.FuncCommit).want(abi.OK, 0).
				undo(refused1, abi.ToolError, 1).fetch(1, bufSize, abi.Invalid, 0).
				fetch(0, bufSize, abi.ToolError, uint32(len(`{"type":"permission","server":"s","tool":"refused","message":"no"}`))).
				undo(okUndo, abi.OK, 0).result("null", abi.OK).module().Encode(),
			End: EndResult, Result: "null", Undo: 1,
		},
		{
			Name: "undo, then an error", Wasm: new(script).undo(okUndo, abi.OK, 0).undo(okUndo, abi.OK, 0).fail(okError, abi.OK).module().Encode(),
			End: EndError, Undo: 2,
		},
		{
			Name: "log and progress",
			Wasm: new(script).send(abi.FuncLog, []uint32{1}, "héllo", abi.OK, 0).
				send(abi.FuncLog, []uint32{0}, "", abi.OK, 0).
				send(abi.FuncProgress, nil, `{"progress":1,"total":2,"message":"m"}`, abi.OK, 0).
				result("1", abi.OK).module().Encode(),
			End: EndResult, Result: "1", Logs: []string{"héllo", ""},
		},
	}
}

// outOfRange returns guests that pass ranges outside their memory to every function.
func outOfRange() (cases []Case) {
	ranges := []struct {
		what     string
		ptr, len uint32
	}{
		{"one byte over the end", memSize - 1, 2},
		{"far outside", 0xffff0000, 16},
		{"length wraps around", 0xffffffff, 2},
		{"length of 4 GiB", 0, 0xffffffff},
		{"length just over memory", 0, memSize + 1},
	}
	for _, f := range HostFunctions {
		if !takesRange(f) {
			continue
		}
		for _, r := range ranges {
			s := new(script).tools(okCall, abi.OK, 1)
			args := []uint32{r.ptr, r.len}
			if len(f.Params) == 3 {
				args = append([]uint32{0}, args...)
			}
			s.call(f.Name, args...).add(Drop).result("1", abi.OK)
			cases = append(cases, Case{
				Name: fmt.Sprintf("out of range: %s: %s", f.Name, r.what), Answers: []abi.Answer{value("1")},
				Wasm: s.module().Encode(), End: EndTrap, Calls: 1,
			})
		}
	}
	return append(cases,
		Case{
			Name: "out of range: after memory has grown", End: EndTrap,
			Wasm: new(script).add(I32Const(1), MemoryGrow, Drop).call(abi.FuncLog, 0, 2*memSize-1, 2).add(Drop).module().Encode(),
		},
		Case{Name: "its own load out of bounds", Wasm: new(script).add(I32Const(memSize), Load, Drop).module().Encode(), End: EndTrap},
		Case{Name: "trap", Wasm: new(script).add(Unreachable).module().Encode(), End: EndTrap},
		Case{Name: "exit", Wasm: new(script).result("1", abi.OK).add(I32Const(0), Call(index(procExit.Name))).module().Encode(), End: EndTrap},
	)
}

// order returns guests that make calls at the wrong time.
func order() []Case {
	one := []abi.Answer{value("1"), value("22")}
	return []Case{
		{Name: "answer before a call", Wasm: new(script).fetch(0, 9, abi.Invalid, 0).result("1", abi.OK).module().Encode(), End: EndResult},
		{
			Name: "answer fetched twice", Answers: one, Calls: 1,
			Wasm: new(script).tools(okCall, abi.OK, 1).fetch(0, 9, abi.OK, 1).fetch(0, 9, abi.Invalid, 0).result("1", abi.OK).module().Encode(),
			End:  EndResult,
		},
		{
			Name: "answer that does not exist", Answers: one, Calls: 1,
			Wasm: new(script).tools(okCall, abi.OK, 1).fetch(1, 9, abi.Invalid, 0).fetch(0xffffffff, 9, abi.Invalid, 0).result("1", abi.OK).module().Encode(),
			End:  EndResult,
		},
		{
			Name: "answer of an earlier batch", Answers: one, Calls: 2,
			Wasm: new(script).tools(okCall, abi.OK, 1).tools(okCall, abi.OK, 1).fetch(0, 9, abi.OK, 2).result("1", abi.OK).module().Encode(),
			End:  EndResult,
		},
		{
			Name: "answer of an earlier batch after a refused one", Answers: one, Calls: 1,
			Wasm: new(script).tools(okCall, abi.OK, 1).tools("[]", abi.Invalid, 0).fetch(0, 9, abi.Invalid, 0).result("1", abi.OK).module().Encode(),
			End:  EndResult,
		},
		{Name: "second response", Wasm: new(script).result("1", abi.OK).result("2", abi.Invalid).fail(okError, abi.Invalid).module().Encode(), End: EndResult, Result: "1"},
		{Name: "error, then result", Wasm: new(script).fail(okError, abi.OK).result("2", abi.Invalid).module().Encode(), End: EndError},
		{
			Name: "host calls after the response",
			Wasm: new(script).result("1", abi.OK).tools(okCall, abi.Invalid, 0).
				undo(okUndo, abi.Invalid, 0).call(abi.FuncCommit).want(abi.Invalid, 0).
				send(abi.FuncLog, []uint32{0}, "late", abi.Invalid, 0).
				send(abi.FuncProgress, nil, `{"progress":1}`, abi.Invalid, 0).module().Encode(),
			End: EndResult, Result: "1",
		},
		{Name: "trap after the response", Wasm: new(script).result("1", abi.OK).add(Unreachable).module().Encode(), End: EndTrap},
		{Name: "no response", Wasm: new(script).module().Encode(), End: EndTrap},
	}
}

// content returns guests that send invalid messages.
func content() (cases []Case) {
	for what, json := range map[string]string{
		"empty": "", "not JSON": "{", "two values": "1 2", "bad UTF-8": "\"\xff\"", "lone surrogate": `"\ud800"`,
		"name twice": `{"a":1,"a":2}`, "NaN": "NaN", "too deep": strings.Repeat("[", abi.MaxDepth+1) + strings.Repeat("]", abi.MaxDepth+1),
	} {
		cases = append(cases, Case{
			Name: "result: " + what, Wasm: new(script).result(json, abi.Invalid).result("1", abi.OK).module().Encode(), End: EndResult, Result: "1",
		})
	}
	deep := strings.Repeat("[", abi.MaxDepth) + strings.Repeat("]", abi.MaxDepth)
	cases = append(cases, Case{Name: "result of the maximum depth", Wasm: new(script).result(deep, abi.OK).module().Encode(), End: EndResult, Result: deep})
	for what, json := range map[string]string{
		"not an object": "1", "unknown type": `{"type":"x","message":""}`, "type that only the host knows": `{"type":"cancelled","message":""}`,
		"names in another case": `{"Type":"runtime","Message":""}`, "bad UTF-8": "{\"type\":\"runtime\",\"message\":\"\xff\"}",
	} {
		cases = append(cases, Case{
			Name: "error: " + what, Wasm: new(script).fail(json, abi.Invalid).fail(okError, abi.OK).module().Encode(), End: EndError,
		})
	}
	for what, json := range map[string]string{
		"empty": "", "not an array": `{"server":"s","tool":"t","arguments":{}}`, "no calls": "[]", "null": "null", "of null": "[null]",
		"no tool": `[{"server":"s","arguments":{}}]`, "no arguments": `[{"server":"s","tool":"t"}]`, "arguments null": `[{"server":"s","tool":"t","arguments":null}]`,
		"arguments an array": `[{"server":"s","tool":"t","arguments":[]}]`, "argument twice": `[{"server":"s","tool":"t","arguments":{"a":1,"a":2}}]`,
		"unknown name": `[{"server":"s","tool":"t","arguments":{},"x":1}]`, "name in another case": `[{"Server":"s","tool":"t","arguments":{}}]`,
		"timeout negative": `[{"server":"s","tool":"t","arguments":{},"timeout":-1}]`, "timeout too large": `[{"server":"s","tool":"t","arguments":{},"timeout":1e999}]`,
		"timeout text": `[{"server":"s","tool":"t","arguments":{},"timeout":"1"}]`, "meta an array": `[{"server":"s","tool":"t","arguments":{},"meta":[]}]`,
		"meta null": `[{"server":"s","tool":"t","arguments":{},"meta":null}]`, "name twice in meta": `[{"server":"s","tool":"t","arguments":{},"meta":{"a":1,"a":2}}]`,
		"bad UTF-8": "[{\"server\":\"s\",\"tool\":\"\xc3\",\"arguments\":{}}]",
		"too deep":  `[{"server":"s","tool":"t","arguments":{"a":` + strings.Repeat("[", abi.MaxDepth) + strings.Repeat("]", abi.MaxDepth) + "}}]",
	} {
		cases = append(cases, Case{
			Name: "calls: " + what, Wasm: new(script).tools(json, abi.Invalid, 0).result("1", abi.OK).module().Encode(), End: EndResult,
		})
	}
	for what, json := range map[string]string{
		"empty": "", "a batch": okCall, "null": "null", "no tool": `{"server":"s","arguments":{}}`, "arguments an array": `{"server":"s","tool":"t","arguments":[]}`,
		"unknown name": `{"server":"s","tool":"t","arguments":{},"x":1}`, "meta an array": `{"server":"s","tool":"t","arguments":{},"meta":[]}`,
		"timeout negative": `{"server":"s","tool":"t","arguments":{},"timeout":-1}`,
		"too deep":         `{"server":"s","tool":"t","arguments":{"a":` + strings.Repeat("[", abi.MaxDepth) + strings.Repeat("]", abi.MaxDepth) + "}}",
	} {
		cases = append(cases, Case{
			Name: "undo: " + what, Wasm: new(script).undo(json, abi.Invalid, 0).result("1", abi.OK).module().Encode(), End: EndResult,
		})
	}
	return append(cases,
		Case{Name: "unknown kind of response", Wasm: new(script).send(abi.FuncResponseWrite, []uint32{2}, "1", abi.Invalid, 0).module().Encode(), End: EndTrap},
		Case{
			Name: "log: unknown level, bad UTF-8",
			Wasm: new(script).send(abi.FuncLog, []uint32{3}, "x", abi.Invalid, 0).send(abi.FuncLog, []uint32{0}, "\xff", abi.Invalid, 0).result("1", abi.OK).module().Encode(),
			End:  EndResult,
		},
		Case{
			Name: "progress: not such a message",
			Wasm: new(script).send(abi.FuncProgress, nil, `{"progress":1e999}`, abi.Invalid, 0).send(abi.FuncProgress, nil, `[1]`, abi.Invalid, 0).
				send(abi.FuncProgress, nil, `{"progress":1,"message":"`+"\xff\"}", abi.Invalid, 0).result("1", abi.OK).module().Encode(),
			End: EndResult,
		},
	)
}
