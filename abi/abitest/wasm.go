package abitest

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
