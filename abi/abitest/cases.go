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

// hostile returns guests that use the contract to attack the host.
func hostile() []Case {
	var cases []Case
	for _, group := range [][]Case{early(), boundaries(), largeMessages(), floods(), unusualFetches(), deep(), after()} {
		cases = append(cases, group...)
	}
	return cases
}

// argumentsOf pushes the arguments for a host function: a text for a function that takes a text, or
// a buffer for a function that fills a buffer.
func (s *script) argumentsOf(f Import, text string) *script {
	ptr, n := s.text(text)
	switch f.Name {
	case abi.FuncRequestRead:
		return s.call(f.Name, bufAt, bufSize)
	case abi.FuncAnswerRead, abi.FuncAnswerTape:
		return s.call(f.Name, 0, bufAt, bufSize)
	case abi.FuncCommit:
		return s.call(f.Name)
	case abi.FuncLog, abi.FuncResponseWrite:
		return s.call(f.Name, 0, ptr, n)
	default:
		return s.call(f.Name, ptr, n)
	}
}

// validText returns a message accepted by the function.
func validText(function string) string {
	switch function {
	case abi.FuncCallTools:
		return okCall
	case abi.FuncUndo:
		return okUndo
	case abi.FuncProgress:
		return `{"progress":1}`
	default:
		return "1"
	}
}

// early returns guests that call host functions too early: in the start function, which the
// contract does not allow, or during initialisation, before any request.
func early() (cases []Case) {
	for _, f := range HostFunctions {
		s := new(script).argumentsOf(f, validText(f.Name)).add(Drop)
		starts := new(script).result("1", abi.OK).module()
		starts.Data = append(starts.Data, Data{dataAt, s.data})
		starts.Functions = append(starts.Functions, Function{Body: s.code})
		starts.Start = len(starts.Imports) + len(starts.Functions)
		cases = append(cases, Case{Name: "refused: calls from its start function: " + f.Name, Wasm: starts.Encode(), End: EndRefused})
		if f.Name == abi.FuncRequestRead || f.Name == abi.FuncAnswerRead || f.Name == abi.FuncAnswerTape {
			continue // harmless: nothing can be read
		}
		initializes := new(script).result("1", abi.OK).module()
		initializes.Data = append(initializes.Data, Data{dataAt, s.data})
		initializes.Functions[0].Body = s.code
		cases = append(cases, Case{Name: "refused: host call during initialisation: " + f.Name, Wasm: initializes.Encode(), End: EndRefused})
	}
	exits := new(script).module()
	exits.Functions[0].Body = Code(I32Const(0), Call(index(procExit.Name)))
	return append(cases, Case{Name: "refused: exit during initialisation", Wasm: exits.Encode(), End: EndRefused})
}

// boundaries returns guests that pass ranges at the end of memory to every function.
func boundaries() (cases []Case) {
	for _, f := range HostFunctions {
		if !takesRange(f) {
			continue
		}
		for _, r := range []struct {
			what     string
			ptr, len uint32
			end      End
		}{
			{"nothing at the end of memory", memSize, 0, EndResult},
			{"nothing beyond the end of memory", memSize + 1, 0, EndTrap},
			{"nothing at the last address", 0xffffffff, 0, EndTrap},
			{"length that is negative", bufAt, 0x80000000, EndTrap},
			{"address that is negative", 0x80000000, 1, EndTrap},
			{"sum of 4 GiB", 0x80000000, 0x80000000, EndTrap},
			{"sum of 4 GiB and a little", 0xfffffff0, 0x20, EndTrap},
		} {
			args := []uint32{r.ptr, r.len}
			if len(f.Params) == 3 {
				args = append([]uint32{0}, args...)
			}
			c := Case{
				Name: fmt.Sprintf("end of memory: %s: %s", f.Name, r.what), End: r.end,
				Wasm: new(script).call(f.Name, args...).add(Drop).result("1", abi.OK).module().Encode(),
			}
			if f.Name == abi.FuncLog && r.end == EndResult {
				c.Logs = []string{""}
			}
			cases = append(cases, c)
		}
	}
	return cases
}

// largeMessages returns guests that pass all their memory as a message to every function, or ask
// for too much memory.
func largeMessages() []Case {
	const pages = MaxMemory >> 16
	withLargeMessage := func(function string, first ...uint32) *script {
		return new(script).add(I32Const(pages-memSize>>16), MemoryGrow, Drop).call(function, append(first, 0, MaxMemory)...)
	}
	ok := func(s *script) []byte { return s.result("1", abi.OK).module().Encode() }
	return []Case{
		{
			Name: "large message: all memory as a buffer for the request", End: EndTrap, // the guest has overwritten its own data
			Wasm: withLargeMessage(abi.FuncRequestRead).add(I64Const(0), []byte{0x51}, If(Unreachable), Unreachable).module().Encode(),
		},
		{
			Name: "large message: all memory as arguments", End: EndLimit, Limit: "arguments",
			Wasm: withLargeMessage(abi.FuncCallTools).want(abi.Limit, 0).fail(okError, abi.OK).module().Encode(),
		},
		{Name: "large message: all memory as progress", End: EndResult, Result: "1", Wasm: ok(withLargeMessage(abi.FuncProgress).want(abi.Invalid, 0))},
		{
			Name: "large message: all memory as a log entry", End: EndResult, Result: "1", Logs: []string{"the log is full"},
			Wasm: ok(withLargeMessage(abi.FuncLog, 0).want(abi.Limit, 0)),
		},
		{
			Name: "large message: all memory as a result", End: EndLimit, Limit: "result",
			Wasm: withLargeMessage(abi.FuncResponseWrite, abi.ResponseResult).want(abi.Limit, 0).fail(okError, abi.OK).module().Encode(),
		},
		{
			Name: "large message: all memory as an error", End: EndError,
			Wasm: withLargeMessage(abi.FuncResponseWrite, abi.ResponseError).want(abi.Limit, 0).fail(okError, abi.OK).module().Encode(),
		},
		{
			Name: "growing by almost 4 GiB at once", End: EndResult, Result: "1",
			Wasm: ok(new(script).add(I32Const(0xffff), MemoryGrow, I32Const(0xffffffff), I32Ne, If(Unreachable))),
		},
		{
			Name: "growing beyond 4 GiB", End: EndResult, Result: "1",
			Wasm: ok(new(script).add(I32Const(0xffffffff), MemoryGrow, I32Const(0xffffffff), I32Ne, If(Unreachable))),
		},
		{
			Name: "large message: a long number", End: EndResult, Result: strings.Repeat("9", MaxResult),
			Wasm: new(script).result(strings.Repeat("9", MaxResult), abi.OK).module().Encode(),
		},
	}
}

// floods returns guests that repeat a call until the deadline.
func floods() (cases []Case) {
	for _, f := range HostFunctions {
		if f.Name == abi.FuncProgress || f.Name == abi.FuncAnswerRead || f.Name == abi.FuncAnswerTape {
			continue // see endless
		}
		text := validText(f.Name)
		c := Case{Name: "flood: " + f.Name, End: EndDeadline}
		switch f.Name {
		case abi.FuncCallTools:
			text = "[]" // not the calls themselves: they are counted
		case abi.FuncUndo:
			c.Undo = MaxCalls
		case abi.FuncLog:
			text = ""
			for range MaxLogs / 32 { // each counts for 32 bytes
				c.Logs = append(c.Logs, "")
			}
			c.Logs = append(c.Logs, "the log is full")
		case abi.FuncResponseWrite:
			text = "{"
		}
		s := new(script)
		body := new(script)
		body.data = s.data
		body.argumentsOf(f, text).add(Drop)
		s.data = body.data
		c.Wasm = s.add(Forever(body.code)).module().Encode()
		cases = append(cases, c)
	}
	calls := new(script)
	ptr, n := calls.text(okCall)
	return append(cases,
		Case{
			Name: "flood: tool calls after their limit", Calls: MaxCalls, End: EndDeadline, Answers: ones(MaxCalls),
			Wasm: calls.add(Forever(I32Const(ptr), I32Const(n), Call(index(abi.FuncCallTools)), Drop)).module().Encode(),
		},
		Case{
			Name: "flood: growing by nothing", End: EndDeadline,
			Wasm: new(script).add(Forever(I32Const(0), MemoryGrow, Drop)).module().Encode(),
		},
		Case{
			Name: "flood: growing by too much", End: EndDeadline,
			Wasm: new(script).add(Forever(I32Const(0xffff), MemoryGrow, Drop)).module().Encode(),
		},
	)
}

func ones(n int) (answers []abi.Answer) {
	for range n {
		answers = append(answers, value("1"))
	}
	return answers
}

// unusualFetches returns guests that never fetch answers, or fetch them in unusual ways.
func unusualFetches() []Case {
	three := "[" + strings.Repeat(strings.Trim(okCall, "[]")+",", 2) + strings.Trim(okCall, "[]") + "]"
	large := value(`"` + strings.Repeat("x", MaxAnswer-2) + `"`)
	text := strings.Repeat("x", 100)
	return []Case{
		{
			Name: "fetch: answers that are never fetched", Answers: []abi.Answer{large, large, large, large, large}, Calls: 5, End: EndResult, Result: "1",
			Wasm: new(script).tools(three, abi.OK, 3).tools(okCall, abi.OK, 1).tools(okCall, abi.OK, 1).result("1", abi.OK).module().Encode(),
		},
		{
			Name: "fetch: in reverse order, one twice", Answers: ones(3), Calls: 3, End: EndResult, Result: "1",
			Wasm: new(script).tools(three, abi.OK, 3).fetch(2, 1, abi.OK, 1).fetch(1, 1, abi.OK, 1).fetch(2, 1, abi.Invalid, 0).
				fetch(0, 1, abi.OK, 1).fetch(3, 1, abi.Invalid, 0).result("1", abi.OK).module().Encode(),
		},
		{
			Name: "fetch: a buffer that is always one byte too small", Answers: []abi.Answer{value(`"` + text + `"`)}, Calls: 1, End: EndDeadline,
			Wasm: new(script).tools(okCall, abi.OK, 1).add(Forever(I32Const(0), I32Const(bufAt), I32Const(uint32(len(text)+1)), Call(index(abi.FuncAnswerRead)), Drop)).
				module().Encode(),
		},
		{
			Name: "fetch: an answer into the bytes of its batch", Answers: []abi.Answer{value(`"` + text + `"`), value("2")}, Calls: 2, End: EndResult, Result: "1",
			Wasm: new(script).tools(okCall+strings.Repeat(" ", len(text)), abi.OK, 1).call(abi.FuncAnswerRead, 0, dataAt, bufSize).want(abi.OK, uint32(len(text)+2)).
				call(abi.FuncCallTools, dataAt, uint32(len(text)+2)).want(abi.Invalid, 0).
				tools(okCall, abi.OK, 1).fetch(0, 1, abi.OK, 1).result("1", abi.OK).module().Encode(),
		},
		{
			Name: "fetch: tapes", Answers: []abi.Answer{value("[1]"), {Err: &abi.CallError{Type: abi.ErrTool, Message: "no"}}, value("x")}, Calls: 3, End: EndResult, Result: "1",
			Wasm: new(script).tools(three, abi.OK, 3).
				tape(0, 0, abi.OK, 20).tape(0, 19, abi.OK, 20).tape(0, 20, abi.OK, 20).tape(0, 20, abi.Invalid, 0).fetch(0, 3, abi.Invalid, 0).
				tape(1, bufSize, abi.ToolError, uint32(len(`{"type":"tool","server":"","tool":"","message":"no"}`))).tape(1, bufSize, abi.Invalid, 0).
				tape(2, bufSize, abi.Invalid, 0).fetch(2, 1, abi.OK, 1).tape(2, bufSize, abi.Invalid, 0).tape(3, bufSize, abi.Invalid, 0).result("1", abi.OK).module().Encode(),
		},
		{
			Name: "fetch: after the response", Answers: ones(1), Calls: 1, End: EndResult, Result: "1",
			Wasm: new(script).tools(okCall, abi.OK, 1).result("1", abi.OK).fetch(0, 1, abi.OK, 1).fetch(0, 1, abi.Invalid, 0).module().Encode(),
		},
	}
}

// deep returns guests that send JSON nested too deep in every kind of message.
func deep() []Case {
	const levels = MaxResult / 2
	open := strings.Repeat("[", levels)
	closed := open[:levels/2] + strings.Repeat("]", levels/2)
	objects := strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300)
	ok := func(s *script) []byte { return s.result("1", abi.OK).module().Encode() }
	return []Case{
		{Name: "deep: result that is never closed", End: EndResult, Result: "1", Wasm: ok(new(script).result(open, abi.Invalid))},
		{Name: "deep: objects", End: EndResult, Result: objects, Wasm: new(script).result(objects, abi.OK).module().Encode()},
		{
			Name: "deep: error", End: EndError,
			Wasm: new(script).fail(`{"type":"runtime","message":"m","call":{"details":`+open+`}}`, abi.Invalid).fail(okError, abi.OK).module().Encode(),
		},
		{
			Name: "deep: instead of a string", End: EndError,
			Wasm: new(script).fail(`{"type":"runtime","message":`+closed+`}`, abi.Invalid).fail(okError, abi.OK).module().Encode(),
		},
		{Name: "deep: progress", End: EndResult, Result: "1", Wasm: ok(new(script).send(abi.FuncProgress, nil, `{"progress":`+closed+`}`, abi.Invalid, 0))},
		{Name: "deep: batch", End: EndResult, Result: "1", Wasm: ok(new(script).tools(closed, abi.Invalid, 0))},
		{
			Name: "deep: string of brackets and escapes", End: EndResult, Result: `["\\\"[[[[", "\\"]`,
			Wasm: new(script).result(`["\\\"[[[[", "\\"]`, abi.OK).module().Encode(),
		},
	}
}

// after returns guests that continue after the response. Only faults count then.
func after() []Case {
	// A guest may call its own exports: the call is only recursion.
	itself := new(script).result("1", abi.OK).module()
	version := len(itself.Imports) + 1
	itself.Functions[2].Body = Code(Call(version), Drop, Call(version-1), itself.Functions[2].Body)

	again := new(script).result("1", abi.OK).module()
	run := len(again.Imports) + 2
	again.Functions[2].Body = Code(again.Functions[2].Body, Call(run))
	return []Case{
		{Name: "after the response: out of range", End: EndTrap, Wasm: new(script).result("1", abi.OK).call(abi.FuncLog, 0, memSize, 1).add(Drop).module().Encode()},
		{Name: "after the response: exit with a code", End: EndTrap, Wasm: new(script).result("1", abi.OK).add(I32Const(0xffffffff), Call(index(procExit.Name))).module().Encode()},
		{Name: "after the response: more memory than it may have", End: EndResult, Result: "1", Wasm: new(script).result("1", abi.OK).add(I32Const(MaxMemory>>16), MemoryGrow, Drop).module().Encode()},
		{Name: "calls its own exports", End: EndResult, Result: "1", Wasm: itself.Encode()},
		// The second response is refused, and the check traps.
		{Name: "runs itself again after the response", End: EndTrap, Wasm: again.Encode()},
	}
}

// limits returns guests that exceed limits.
func limits() []Case {
	sixCalls := "[" + strings.Repeat(strings.Trim(okCall, "[]")+",", MaxCalls) + strings.Trim(okCall, "[]") + "]"
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	half := `{"server":"s","tool":"t","arguments":{"a":` + long(MaxArguments/2) + `}}`
	entry := strings.Repeat("x", 400)
	grow := Code(I32Const(1), MemoryGrow, I32Const(0xffffffff), I32Eq)
	return []Case{
		{
			Name: "limit: one batch of too many calls", Wasm: new(script).tools(sixCalls, abi.Limit, 0).result("1", abi.OK).module().Encode(),
			End: EndLimit, Limit: "calls",
		},
		{
			Name: "limit: too many calls, one by one", End: EndLimit, Limit: "calls", Calls: MaxCalls,
			Answers: []abi.Answer{value("1"), value("1"), value("1"), value("1"), value("1")},
			Wasm: new(script).tools(okCall, abi.OK, 1).tools(okCall, abi.OK, 1).tools(okCall, abi.OK, 1).tools(okCall, abi.OK, 1).
				tools(okCall, abi.OK, 1).tools(okCall, abi.Limit, 0).fail(okError, abi.OK).module().Encode(),
		},
		{
			Name: "limit: too many bytes of arguments", End: EndLimit, Limit: "arguments",
			Wasm: new(script).tools(`[{"server":"s","tool":"t","arguments":{"a":`+long(MaxArguments)+`}}]`, abi.Limit, 0).
				tools(okCall, abi.Limit, 0).fail(okError, abi.OK).module().Encode(),
		},
		{
			Name: "limit: compensations count as calls", End: EndLimit, Limit: "calls", Undo: MaxCalls,
			Wasm: new(script).undo(okUndo, abi.OK, 0).undo(okUndo, abi.OK, 0).undo(okUndo, abi.OK, 0).undo(okUndo, abi.OK, 0).
				undo(okUndo, abi.OK, 0).tools(okCall, abi.Limit, 0).undo(okUndo, abi.Limit, 0).fail(okError, abi.OK).module().Encode(),
		},
		{
			Name: "limit: size of compensations", End: EndLimit, Limit: "arguments", Undo: 1,
			Wasm: new(script).undo(half, abi.OK, 0).call(abi.FuncCommit).want(abi.OK, 0).undo(half, abi.OK, 0).undo(half, abi.Limit, 0).
				fail(okError, abi.OK).module().Encode(),
		},
		{
			Name: "limit: answer too large", End: EndLimit, Limit: "answer", Calls: 1, Answers: []abi.Answer{value(long(MaxAnswer))},
			Wasm: new(script).tools(okCall, abi.OK, 1).call(abi.FuncAnswerRead, 0, 0, 0).
				add(I64Const(32), []byte{0x88}, I64Const(uint64(abi.ToolError)), I64Ne, If(Unreachable)). // i64.shr_u
				tools(okCall, abi.Limit, 0).result("1", abi.OK).module().Encode(),
		},
		{
			Name: "limit: result too large", Wasm: new(script).result(long(MaxResult), abi.Limit).fail(okError, abi.OK).module().Encode(),
			End: EndLimit, Limit: "result",
		},
		{
			Name: "error too large", Wasm: new(script).fail(`{"type":"runtime","message":`+long(MaxResult)+`}`, abi.Limit).fail(okError, abi.OK).module().Encode(),
			End: EndError,
		},
		{
			Name: "limit: logs", End: EndResult, Result: "1", Logs: []string{entry, entry, "the log is full"},
			Wasm: new(script).send(abi.FuncLog, []uint32{0}, entry, abi.OK, 0).send(abi.FuncLog, []uint32{0}, entry, abi.OK, 0).
				send(abi.FuncLog, []uint32{0}, entry, abi.Limit, 0).send(abi.FuncLog, []uint32{0}, "x", abi.Limit, 0).result("1", abi.OK).module().Encode(),
		},
		{
			Name: "limit: memory, with a trap when it is refused", End: EndLimit, Limit: "memory",
			Wasm: new(script).add(Forever(grow, If(Unreachable))).module().Encode(),
		},
		{
			Name: "memory refused, and the guest continues", End: EndResult, Result: "1",
			Wasm: new(script).add(I32Const(MaxMemory>>16), MemoryGrow, I32Const(0xffffffff), I32Ne, If(Unreachable)).result("1", abi.OK).module().Encode(),
		},
		{Name: "limit: memory at the start", Wasm: startsWith(MaxMemory>>16 + 1), End: EndLimit, Limit: "memory"},
		{Name: "limit: recursion", Wasm: recursive(), End: EndLimit, Limit: "recursion"},
	}
}

func startsWith(pages uint32) []byte {
	m := new(script).result("1", abi.OK).module()
	m.Pages = pages
	return m.Encode()
}

// recursive returns a guest with endless recursion.
func recursive() []byte {
	m := new(script).module()
	self := len(m.Imports) + len(m.Functions)
	m.Functions[2].Body = Call(self)
	m.Functions = append(m.Functions, Function{Body: Call(self)})
	return m.Encode()
}

// endless returns guests that never return.
func endless() []Case {
	starts := new(script).module()
	starts.Functions[0].Body = Forever()
	ptr := new(script)
	at, n := ptr.text(`{"progress":1}`)
	return []Case{
		{Name: "endless loop", Wasm: new(script).add(Forever()).module().Encode(), End: EndDeadline},
		{Name: "endless loop after the response", Wasm: new(script).result("1", abi.OK).add(Forever()).module().Encode(), End: EndDeadline},
		{
			Name: "endless loop at the limit of memory", End: EndDeadline,
			Wasm: new(script).add(Forever(I32Const(1), MemoryGrow, Drop)).module().Encode(),
		},
		{
			Name: "endless progress", End: EndDeadline,
			Wasm: ptr.add(Forever(I32Const(at), I32Const(n), Call(index(abi.FuncProgress)), Drop)).module().Encode(),
		},
		{
			Name: "endless fetching", Answers: []abi.Answer{value("1")}, Calls: 1, End: EndDeadline,
			Wasm: new(script).tools(okCall, abi.OK, 1).add(Forever(I32Const(0), I32Const(0), I32Const(0), Call(index(abi.FuncAnswerRead)), Drop)).module().Encode(),
		},
	}
}

// refused returns guests that break the contract, and are refused by the host.
func refused() []Case {
	guest := func(change func(*Module)) []byte {
		m := new(script).result("1", abi.OK).module()
		change(&m)
		return m.Encode()
	}
	cases := map[string][]byte{
		"not wasm":          []byte("#!/bin/sh"),
		"empty":             {},
		"cut short":         guest(func(*Module) {})[:60],
		"another version":   guest(func(m *Module) { m.Functions[1].Body = I32Const(abi.Version + 1) }),
		"version traps":     guest(func(m *Module) { m.Functions[1].Body = Unreachable }),
		"no version":        guest(func(m *Module) { m.Functions[1].Export = "" }),
		"no run":            guest(func(m *Module) { m.Functions[2].Export = "main" }),
		"no initialize":     guest(func(m *Module) { m.Functions[0].Export = "" }),
		"initialize traps":  guest(func(m *Module) { m.Functions[0].Body = Unreachable }),
		"run with a result": guest(func(m *Module) { m.Functions[2].Results = oneI32; m.Functions[2].Body = I32Const(0) }),
		"extra export":      guest(func(m *Module) { m.Functions = append(m.Functions, Function{Export: "more"}) }),
		"no memory":         guest(func(m *Module) { m.Memory, m.Data = "", nil }),
		"memory renamed":    guest(func(m *Module) { m.Memory = "mem" }),
		"start traps": guest(func(m *Module) {
			m.Functions = append(m.Functions, Function{Body: Unreachable})
			m.Start = len(m.Imports) + len(m.Functions)
		}),
		"start exits": guest(func(m *Module) {
			m.Functions = append(m.Functions, Function{Body: Code(I32Const(1), Call(index(procExit.Name)))})
			m.Start = len(m.Imports) + len(m.Functions)
		}),
		"foreign import":   guest(func(m *Module) { m.Imports[len(m.Imports)-1].Name = "sock_open" }),
		"foreign module":   guest(func(m *Module) { m.Imports[len(m.Imports)-1].Module = "env" }),
		"wrong signature":  guest(func(m *Module) { m.Imports[len(m.Imports)-1].Params = []ValueType{I32, I32}; m.Functions[0].Body = nil }),
		"invalid code":     guest(func(m *Module) { m.Functions[2].Body = Drop }),
		"imports fuel_out": guest(func(m *Module) { m.Imports[len(m.Imports)-1] = Import{Module: abi.HostModule, Name: abi.FuncFuelOut} }),
	}
	var out []Case
	for what, wasm := range cases {
		out = append(out, Case{Name: "refused: " + what, Wasm: wasm, End: EndRefused})
	}
	return out
}

// withheld returns guests in planned runs.
func withheld() []Case {
	const caught = `[{"server":"s","tool":"t","caught":true,"arguments":{}}]`
	answer := `{"a":["` + Marker + `1",2]}`
	refusal := &abi.CallError{Type: abi.ErrWithheld, Server: "s", Tool: "t", Message: "m"}
	refused := `{"type":"withheld","server":"s","tool":"t","message":"m"}`
	look := `{"type":"withheld","message":"m","position":{"file":"f","line":1,"column":2}}`
	return []Case{
		{
			// In a tape, the answer would be text.
			Name: "withheld: an answer has no tape", Answers: []abi.Answer{value(answer)}, Calls: 1, Withheld: Marker,
			Wasm: new(script).tools(okCall, abi.OK, 1).tape(0, bufSize, abi.Invalid, 0).fetch(0, bufSize, abi.OK, uint32(len(answer))).
				fetch(0, bufSize, abi.Invalid, 0).result(answer, abi.OK).module().Encode(),
			End: EndResult, Result: answer,
		},
		{
			Name: "withheld: in a run that is not planned, such text is text", Calls: 1,
			Answers: []abi.Answer{value(answer)}, End: EndResult, Result: "1",
			Wasm: new(script).tools(okCall, abi.OK, 1).call(abi.FuncAnswerTape, 0, bufAt, bufSize).
				add(I64Const(abi.Pack(abi.Invalid, 0)), I64Ne, I32Const(1), I32Ne, If(Unreachable)).result("1", abi.OK).module().Encode(),
		},
		{
			Name: "withheld: a call that is caught, and the end of the plan", Answers: []abi.Answer{{Err: refusal}}, Calls: 1, Withheld: Marker,
			Wasm: new(script).tools(caught, abi.OK, 1).tape(0, bufSize, abi.ToolError, uint32(len(refused))).
				fail(look, abi.OK).result("1", abi.Invalid).tools(okCall, abi.Invalid, 0).module().Encode(),
			End: EndError,
		},
		{
			Name: "withheld: a compensation with an answer", Answers: []abi.Answer{value(answer)}, Calls: 1, Undo: 1, Withheld: Marker,
			Wasm: new(script).tools(okCall, abi.OK, 1).undo(`{"server":"s","tool":"t","arguments":{"id":"`+Marker+`1"}}`, abi.OK, 0).
				fail(look, abi.OK).module().Encode(),
			End: EndError,
		},
	}
}
