package abitest

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

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
