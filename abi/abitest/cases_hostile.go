package abitest

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

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
