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

// The encoder: enough of the WebAssembly 1.0 binary format for small handmade
// modules (https://www.w3.org/TR/wasm-core-1/#binary-format).

// ValueType is the binary code of a wasm value type.
type ValueType byte

// The value types of package abi.
const (
	I32 ValueType = 0x7f
	I64 ValueType = 0x7e
)

// Signature is the type of a function.
type Signature struct{ Params, Results []ValueType }

// Import is a function imported by a module.
type Import struct {
	Module, Name string
	Signature
}

// Function is a function defined by a module. Export is the exported name; "" for an internal
// function. Locals are i32 and follow the parameters.
type Function struct {
	Export string
	Signature
	Locals int
	Body   []byte // instructions without the final end
}

// Data is an initial range of memory.
type Data struct {
	Offset uint32
	Bytes  []byte
}

// Module is a module to encode. Function indices count the imports first, then
// the functions, both in order.
type Module struct {
	Imports   []Import
	Functions []Function
	// Pages is the size of memory at the start. Memory is the exported name; "" leaves the module
	// without a memory.
	Pages  uint32
	Memory string
	// Start is the index of the start function plus 1; 0 is none.
	Start int
	Data  []Data
}

// Encode returns the module's bytes.
func (m Module) Encode() []byte {
	var types, imports, functions, exports, code, data [][]byte
	typeOf := func(s Signature) []byte {
		types = append(types, concat([]byte{0x60}, typeVector(s.Params), typeVector(s.Results)))
		return unsigned(uint64(len(types) - 1))
	}
	for _, i := range m.Imports {
		imports = append(imports, concat(name(i.Module), name(i.Name), []byte{0x00}, typeOf(i.Signature)))
	}
	for n, f := range m.Functions {
		functions = append(functions, typeOf(f.Signature))
		if f.Export != "" {
			exports = append(exports, concat(name(f.Export), []byte{0x00}, unsigned(uint64(len(m.Imports)+n))))
		}
		locals := []byte{0}
		if f.Locals > 0 {
			locals = concat([]byte{1}, unsigned(uint64(f.Locals)), []byte{byte(I32)})
		}
		code = append(code, sized(concat(locals, f.Body, []byte{0x0b})))
	}
	for _, d := range m.Data {
		data = append(data, concat([]byte{0x00}, I32Const(d.Offset), []byte{0x0b}, sized(d.Bytes)))
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = append(out, section(1, types)...)
	out = append(out, section(2, imports)...)
	out = append(out, section(3, functions)...)
	if m.Memory != "" {
		exports = append(exports, concat(name(m.Memory), []byte{0x02, 0}))
		out = append(out, section(5, [][]byte{concat([]byte{0x00}, unsigned(uint64(m.Pages)))})...)
	}
	out = append(out, section(7, exports)...)
	if m.Start > 0 {
		out = append(out, concat([]byte{8}, sized(unsigned(uint64(m.Start-1))))...)
	}
	out = append(out, section(10, code)...)
	return append(out, section(11, data)...)
}

func section(id byte, items [][]byte) []byte {
	if len(items) == 0 {
		return nil
	}
	return concat([]byte{id}, sized(concat(append([][]byte{unsigned(uint64(len(items)))}, items...)...)))
}

func typeVector(types []ValueType) []byte {
	out := unsigned(uint64(len(types)))
	for _, t := range types {
		out = append(out, byte(t))
	}
	return out
}

func name(s string) []byte { return sized([]byte(s)) }

func sized(b []byte) []byte { return concat(unsigned(uint64(len(b))), b) }

func concat(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// unsigned and signed append LEB128 numbers.
func unsigned(v uint64) []byte {
	var out []byte
	for v >= 0x80 {
		out = append(out, byte(v)|0x80)
		v >>= 7
	}
	return append(out, byte(v))
}

func signed(v int64) []byte {
	var out []byte
	for v < -64 || v > 63 {
		out = append(out, byte(v)|0x80)
		v >>= 7
	}
	return append(out, byte(v)&0x7f)
}

// Instructions. Each function returns the bytes of an instruction or of a short sequence; Code
// joins them.

// Code joins instructions.
func Code(instructions ...[]byte) []byte { return concat(instructions...) }

// I32Const pushes v.
func I32Const(v uint32) []byte { return append([]byte{0x41}, signed(int64(int32(v)))...) }

// I64Const pushes v.
func I64Const(v uint64) []byte { return append([]byte{0x42}, signed(int64(v))...) }

// Call calls the function with an index.
func Call(index int) []byte { return append([]byte{0x10}, unsigned(uint64(index))...) }

// LocalGet pushes a local.
func LocalGet(n uint32) []byte { return append([]byte{0x20}, unsigned(uint64(n))...) }

// LocalSet pops into a local.
func LocalSet(n uint32) []byte { return append([]byte{0x21}, unsigned(uint64(n))...) }

// Forever runs body in an endless loop.
func Forever(body ...[]byte) []byte {
	return Code([]byte{0x03, 0x40}, Code(body...), []byte{0x0c, 0, 0x0b}, Unreachable)
}

// If runs body if the i32 on the stack is not zero.
func If(body ...[]byte) []byte { return Code([]byte{0x04, 0x40}, Code(body...), []byte{0x0b}) }

// Instructions without operands.
var (
	Unreachable = []byte{0x00}
	Return      = []byte{0x0f}
	Drop        = []byte{0x1a}
	Load        = []byte{0x28, 0x02, 0x00} // i32.load
	I32Eq       = []byte{0x46}
	I32Ne       = []byte{0x47}
	I64Ne       = []byte{0x52}
	I32Wrap     = []byte{0xa7} // i32.wrap_i64
	MemoryGrow  = []byte{0x40, 0x00}
)
