package abitest

import "github.com/mcp-metatool/mcp-metatool/abi"

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
