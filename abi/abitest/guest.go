package abitest

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

var (
	oneI32 = []ValueType{I32}
	toI64  = []ValueType{I64}
)

// HostFunctions has every function offered by a host of version 1 in abi.HostModule to an unmetered
// guest, as specified in package abi.
var HostFunctions = []Import{
	{abi.HostModule, abi.FuncRequestRead, Signature{[]ValueType{I32, I32}, toI64}},
	{abi.HostModule, abi.FuncCallTools, Signature{[]ValueType{I32, I32}, toI64}},
	{abi.HostModule, abi.FuncAnswerRead, Signature{[]ValueType{I32, I32, I32}, toI64}},
	{abi.HostModule, abi.FuncAnswerTape, Signature{[]ValueType{I32, I32, I32}, toI64}},
	{abi.HostModule, abi.FuncUndo, Signature{[]ValueType{I32, I32}, toI64}},
	{abi.HostModule, abi.FuncCommit, Signature{nil, toI64}},
	{abi.HostModule, abi.FuncProgress, Signature{[]ValueType{I32, I32}, toI64}},
	{abi.HostModule, abi.FuncLog, Signature{[]ValueType{I32, I32, I32}, toI64}},
	{abi.HostModule, abi.FuncResponseWrite, Signature{[]ValueType{I32, I32, I32}, toI64}},
}

// takesRange reports whether a function takes a range of the guest's memory.
func takesRange(f Import) bool { return len(f.Params) > 0 }

// GuestFunctions has every function exported by a guest of version 1.
var GuestFunctions = map[string]Signature{
	abi.ExportInitialize: {},
	abi.ExportVersion:    {Results: oneI32},
	abi.ExportRun:        {},
}

// procExit is the only function of WASI called by handmade guests.
var procExit = Import{"wasi_snapshot_preview1", "proc_exit", Signature{Params: oneI32}}

// index returns the function index of an import in the modules of guest.
func index(name string) int {
	if name == procExit.Name {
		return len(HostFunctions)
	}
	return slices.IndexFunc(HostFunctions, func(i Import) bool { return i.Name == name })
}

// The memory of a handmade guest has a single page, with texts from dataAt on, and a buffer of
// bufSize bytes at bufAt.
const (
	dataAt  = 1024
	bufAt   = 32 << 10
	bufSize = 16 << 10
	memSize = 64 << 10
)

// script assembles the run function of a handmade guest and the guest's texts.
type script struct {
	code []byte
	data []byte
}

// text puts t into memory and returns the range.
func (s *script) text(t string) (ptr, length uint32) {
	ptr = dataAt + uint32(len(s.data))
	s.data = append(s.data, t...)
	return ptr, uint32(len(t))
}

func (s *script) add(instructions ...[]byte) *script {
	s.code = append(s.code, Code(instructions...)...)
	return s
}

// call calls a host function with constants and leaves the result on the stack.
func (s *script) call(function string, args ...uint32) *script {
	for _, a := range args {
		s.add(I32Const(a))
	}
	return s.add(Call(index(function)))
}

// want traps unless the result on the stack has the given code and length.
func (s *script) want(code abi.Code, length uint32) *script {
	return s.add(I64Const(abi.Pack(code, length)), I64Ne, If(Unreachable))
}

// send passes a text to a host function with (ptr, len) as the last parameters, and traps unless
// the function returns the given code and length.
func (s *script) send(function string, first []uint32, text string, code abi.Code, length uint32) *script {
	ptr, n := s.text(text)
	return s.call(function, append(slices.Clone(first), ptr, n)...).want(code, length)
}

// tools makes a batch of calls.
func (s *script) tools(batch string, code abi.Code, n uint32) *script {
	return s.send(abi.FuncCallTools, nil, batch, code, n)
}

// undo registers a compensation.
func (s *script) undo(call string, code abi.Code, n uint32) *script {
	return s.send(abi.FuncUndo, nil, call, code, n)
}

// fetch reads an answer into the buffer.
func (s *script) fetch(i, capacity uint32, code abi.Code, length uint32) *script {
	return s.call(abi.FuncAnswerRead, i, bufAt, capacity).want(code, length)
}

// tape reads an answer as a tape into the buffer.
func (s *script) tape(i, capacity uint32, code abi.Code, length uint32) *script {
	return s.call(abi.FuncAnswerTape, i, bufAt, capacity).want(code, length)
}

// result writes a result.
func (s *script) result(json string, code abi.Code) *script {
	return s.send(abi.FuncResponseWrite, []uint32{abi.ResponseResult}, json, code, 0)
}

// fail writes an error.
func (s *script) fail(json string, code abi.Code) *script {
	return s.send(abi.FuncResponseWrite, []uint32{abi.ResponseError}, json, code, 0)
}

// module returns a guest that implements the contract, with s as the run function.
func (s *script) module() Module {
	return Module{
		Imports: append(slices.Clone(HostFunctions), procExit),
		Functions: []Function{
			{Export: abi.ExportInitialize},
			{Export: abi.ExportVersion, Signature: Signature{Results: oneI32}, Body: I32Const(abi.Version)},
			{Export: abi.ExportRun, Locals: 1, Body: s.code},
		},
		Pages: memSize >> 16, Memory: abi.ExportMemory,
		Data: []Data{{dataAt, s.data}},
	}
}
