package rewrite

import (
	"encoding/binary"
	"fmt"
)

// Instr is an instruction with immediates, in these fields:
//
//	block, loop, if          Value: the block type. -64 is none, -1 ... -4 are
//	                         i32, i64, f32, f64, -16 funcref, -17 externref;
//	                         0 and above an index into Module.Types
//	br, br_if                Index: the label, 0 is the innermost
//	br_table                 Labels, the default last
//	call, ref.func           Index: the function
//	call_indirect            Index: the type, Index2: the table
//	local.*, global.*        Index
//	table.*                  Index: the table (table.copy: to, Index2: from;
//	                         table.init: the element segment, Index2: the table)
//	elem.drop                Index: the segment
//	loads and stores         Index: log2 of the alignment, Value: the offset
//	memory.init, data.drop   Index: the data segment
//	i32.const, i64.const     Value, sign-extended
//	f32.const, f64.const     Value: the bits, zero-extended
//	ref.null, select t       Index: the ValType
type Instr struct {
	Op Op
	// At is the offset of the instruction in the decoded body, in bytes. Append ignores it.
	At            uint32
	Index, Index2 uint32
	Value         int64
	Labels        []uint32
}

const noResult = -64 // the block type of a block without parameters and results

// Decode appends the instructions of the body to buf, including the final end. Only the encoding is
// checked. The error is a *ParseError with an offset in the body and no function.
func (f *Func) Decode(buf []Instr) ([]Instr, error) {
	r := reader{b: f.Body}
	for r.more() {
		buf = append(buf, Instr{})
		r.instr(&buf[len(buf)-1])
	}
	if r.err != nil {
		return nil, &ParseError{Section: "code", Func: -1, Offset: r.errAt, Err: r.err}
	}
	return buf, nil
}

// instr reads an instruction into in, which must be zero.
func (r *reader) instr(in *Instr) {
	start := r.pos
	in.At = uint32(start)
	c := r.byte()
	in.Op = Op(c)
	info := ops[c]
	if c == 0xfc {
		sub := r.u32()
		in.Op = 0xfc00 | Op(min(sub, 0xff))
		info = in.Op.info()
	}
	switch info.imm {
	case immNone:
	case immBlock:
		in.Value = r.signed(33)
	case immLabel, immFunc, immLocal, immGlobal, immTable, immData, immElem:
		in.Index = r.u32()
	case immCallIndirect, immTables, immElemTable:
		in.Index, in.Index2 = r.u32(), r.u32()
	case immLabels:
		n := r.count()
		in.Labels = make([]uint32, n+1)
		for i := range in.Labels {
			in.Labels[i] = r.u32()
		}
	case immSelect:
		if n := r.u32(); n != 1 && r.err == nil {
			r.fail(start, "select with %d types", n)
		}
		in.Index = uint32(r.valType())
	case immMemArg:
		if in.Index = r.u32(); in.Index > info.align {
			r.fail(start, "%v: alignment 2^%d is larger than natural", in.Op, in.Index)
		}
		in.Value = int64(r.u32())
	case immMemory:
		r.zero()
	case immMemories:
		r.zero()
		r.zero()
	case immDataMemory:
		in.Index = r.u32()
		r.zero()
	case immI32:
		in.Value = r.signed(32)
	case immI64:
		in.Value = r.signed(64)
	case immF32:
		if b := r.bytes(4); b != nil {
			in.Value = int64(binary.LittleEndian.Uint32(b))
		}
	case immF64:
		if b := r.bytes(8); b != nil {
			in.Value = int64(binary.LittleEndian.Uint64(b))
		}
	case immRefType:
		in.Index = uint32(r.refType())
	default:
		if name := proposal(c); name != "" && r.err == nil {
			r.fail(start, "opcode %#x (%s): %w", c, name, ErrUnsupported)
		}
		r.fail(start, "unknown %v", in.Op)
	}
}

// zero reads a memory index, which must be 0: a module has only a single memory.
func (r *reader) zero() {
	if at := r.pos; r.byte() != 0 {
		r.fail(at, "more than one memory: %w", ErrUnsupported)
	}
}

// Append encodes the instruction.
func (in *Instr) Append(b []byte) []byte {
	if in.Op > 0xff {
		b = binary.AppendUvarint(append(b, byte(in.Op>>8)), uint64(in.Op&0xff))
	} else {
		b = append(b, byte(in.Op))
	}
	switch in.Op.info().imm {
	case immBlock, immI32, immI64:
		return appendSigned(b, in.Value)
	case immLabel, immFunc, immLocal, immGlobal, immTable, immData, immElem:
		return appendUint(b, in.Index)
	case immCallIndirect, immTables, immElemTable:
		return appendUint(appendUint(b, in.Index), in.Index2)
	case immLabels:
		b = appendUint(b, uint32(len(in.Labels)-1))
		for _, l := range in.Labels {
			b = appendUint(b, l)
		}
		return b
	case immSelect:
		return append(b, 1, byte(in.Index))
	case immMemArg:
		return binary.AppendUvarint(appendUint(b, in.Index), uint64(in.Value))
	case immMemory:
		return append(b, 0)
	case immMemories:
		return append(b, 0, 0)
	case immDataMemory:
		return append(appendUint(b, in.Index), 0)
	case immF32:
		return binary.LittleEndian.AppendUint32(b, uint32(in.Value))
	case immF64:
		return binary.LittleEndian.AppendUint64(b, uint64(in.Value))
	case immRefType:
		return append(b, byte(in.Index))
	}
	return b
}

// appendAll encodes a list of instructions.
func appendAll(b []byte, list ...Instr) []byte {
	for i := range list {
		b = list[i].Append(b)
	}
	return b
}

func appendUint(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) }

func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// Op is an opcode. The upper byte is the prefix, if any: memory.copy, 0xfc 0x0a in the binary, is
// 0xfc0a.
type Op uint16

// The opcodes that passes handle individually.
const (
	OpUnreachable  Op = 0x00
	OpNop          Op = 0x01
	OpBlock        Op = 0x02
	OpLoop         Op = 0x03
	OpIf           Op = 0x04
	OpElse         Op = 0x05
	OpEnd          Op = 0x0b
	OpBr           Op = 0x0c
	OpBrIf         Op = 0x0d
	OpBrTable      Op = 0x0e
	OpReturn       Op = 0x0f
	OpCall         Op = 0x10
	OpCallIndirect Op = 0x11
	OpDrop         Op = 0x1a
	OpSelect       Op = 0x1b
	OpSelectT      Op = 0x1c
	OpLocalGet     Op = 0x20
	OpLocalSet     Op = 0x21
	OpLocalTee     Op = 0x22
	OpGlobalGet    Op = 0x23
	OpGlobalSet    Op = 0x24
	OpTableGet     Op = 0x25
	OpTableSet     Op = 0x26
	OpMemorySize   Op = 0x3f
	OpMemoryGrow   Op = 0x40
	OpI32Const     Op = 0x41
	OpI64Const     Op = 0x42
	OpF32Const     Op = 0x43
	OpF64Const     Op = 0x44
	OpI32Eqz       Op = 0x45
	OpI32LtU       Op = 0x49
	OpI64LtS       Op = 0x53
	OpI32Sub       Op = 0x6b
	OpI64Sub       Op = 0x7d
	OpI64Shl       Op = 0x86
	OpI64ShrU      Op = 0x88
	OpI64ExtendU   Op = 0xad
	OpRefNull      Op = 0xd0
	OpRefFunc      Op = 0xd2
	OpMemoryInit   Op = 0xfc08
	OpDataDrop     Op = 0xfc09
	OpMemoryCopy   Op = 0xfc0a
	OpMemoryFill   Op = 0xfc0b
	OpTableInit    Op = 0xfc0c
	OpElemDrop     Op = 0xfc0d
	OpTableCopy    Op = 0xfc0e
	OpTableGrow    Op = 0xfc0f
	OpTableSize    Op = 0xfc10
	OpTableFill    Op = 0xfc11
)

// imm says which immediates follow an opcode. Instr describes the field of each.
type imm byte

const (
	immUnknown      imm = iota // unknown instruction
	immNone                    //
	immBlock                   // block type
	immLabel                   // label
	immLabels                  // vector of labels, label
	immFunc                    // function
	immCallIndirect            // type, table
	immSelect                  // vector of a single value type
	immLocal                   // local
	immGlobal                  // global
	immTable                   // table
	immTables                  // table, table
	immMemArg                  // alignment, offset
	immMemory                  // memory
	immMemories                // memory, memory
	immI32                     // constant
	immI64                     // constant
	immF32                     // constant
	immF64                     // constant
	immRefType                 // reference type
	immDataMemory              // data segment, memory
	immData                    // data segment
	immElemTable               // element segment, table
	immElem                    // element segment
)

type opInfo struct {
	name string
	imm  imm
	// align is the largest allowed alignment of a memory access, as a power
	// of two.
	align uint32
}

// ops and prefixed (by 0xfc) have the instruction set.
var ops, prefixed = instructionSet()

func (op Op) info() opInfo {
	if op < 0x100 {
		return ops[op]
	}
	if low := op & 0xff; op>>8 == 0xfc && int(low) < len(prefixed) {
		return prefixed[low]
	}
	return opInfo{}
}

func (op Op) String() string {
	if i := op.info(); i.imm != immUnknown {
		return i.name
	}
	return fmt.Sprintf("opcode %#x", uint16(op))
}

// proposal names the proposal of an unknown opcode.
func proposal(op byte) string {
	switch {
	case op == 0xfd:
		return "SIMD"
	case op == 0xfe:
		return "threads"
	case op == 0xfb:
		return "garbage collection"
	case op == 0x12 || op == 0x13:
		return "tail calls"
	case op >= 0x06 && op <= 0x0a, op == 0x18, op == 0x19, op == 0x1f:
		return "exceptions"
	case op == 0x14 || op == 0x15 || op >= 0xd3 && op <= 0xd6:
		return "typed function references"
	}
	return ""
}

func instructionSet() (ops [256]opInfo, prefixed [0x12]opInfo) {
	define := func(first Op, i imm, names ...string) {
		for n, name := range names {
			if op := first + Op(n); op < 0x100 {
				ops[op] = opInfo{name: name, imm: i}
			} else {
				prefixed[op&0xff] = opInfo{name: name, imm: i}
			}
		}
	}
	access := func(first Op, align uint32, names ...string) {
		for n, name := range names {
			ops[first+Op(n)] = opInfo{name: name, imm: immMemArg, align: align}
		}
	}
	define(0x00, immNone, "unreachable", "nop")
	define(0x02, immBlock, "block", "loop", "if")
	define(0x05, immNone, "else")
	define(0x0b, immNone, "end")
	define(0x0c, immLabel, "br", "br_if")
	define(0x0e, immLabels, "br_table")
	define(0x0f, immNone, "return")
	define(0x10, immFunc, "call")
	define(0x11, immCallIndirect, "call_indirect")
	define(0x1a, immNone, "drop", "select")
	define(0x1c, immSelect, "select t")
	define(0x20, immLocal, "local.get", "local.set", "local.tee")
	define(0x23, immGlobal, "global.get", "global.set")
	define(0x25, immTable, "table.get", "table.set")
	access(0x28, 2, "i32.load")
	access(0x29, 3, "i64.load")
	access(0x2a, 2, "f32.load")
	access(0x2b, 3, "f64.load")
	access(0x2c, 0, "i32.load8_s", "i32.load8_u")
	access(0x2e, 1, "i32.load16_s", "i32.load16_u")
	access(0x30, 0, "i64.load8_s", "i64.load8_u")
	access(0x32, 1, "i64.load16_s", "i64.load16_u")
	access(0x34, 2, "i64.load32_s", "i64.load32_u")
	access(0x36, 2, "i32.store")
	access(0x37, 3, "i64.store")
	access(0x38, 2, "f32.store")
	access(0x39, 3, "f64.store")
	access(0x3a, 0, "i32.store8")
	access(0x3b, 1, "i32.store16")
	access(0x3c, 0, "i64.store8")
	access(0x3d, 1, "i64.store16")
	access(0x3e, 2, "i64.store32")
	define(0x3f, immMemory, "memory.size", "memory.grow")
	define(0x41, immI32, "i32.const")
	define(0x42, immI64, "i64.const")
	define(0x43, immF32, "f32.const")
	define(0x44, immF64, "f64.const")
	define(0x45, immNone, "i32.eqz", "i32.eq", "i32.ne", "i32.lt_s", "i32.lt_u", "i32.gt_s", "i32.gt_u", "i32.le_s", "i32.le_u", "i32.ge_s", "i32.ge_u")
	define(0x50, immNone, "i64.eqz", "i64.eq", "i64.ne", "i64.lt_s", "i64.lt_u", "i64.gt_s", "i64.gt_u", "i64.le_s", "i64.le_u", "i64.ge_s", "i64.ge_u")
	define(0x5b, immNone, "f32.eq", "f32.ne", "f32.lt", "f32.gt", "f32.le", "f32.ge")
	define(0x61, immNone, "f64.eq", "f64.ne", "f64.lt", "f64.gt", "f64.le", "f64.ge")
	integer := []string{"clz", "ctz", "popcnt", "add", "sub", "mul", "div_s", "div_u", "rem_s", "rem_u", "and", "or", "xor", "shl", "shr_s", "shr_u", "rotl", "rotr"}
	float := []string{"abs", "neg", "ceil", "floor", "trunc", "nearest", "sqrt", "add", "sub", "mul", "div", "min", "max", "copysign"}
	for i, name := range integer {
		define(0x67+Op(i), immNone, "i32."+name)
		define(0x79+Op(i), immNone, "i64."+name)
	}
	for i, name := range float {
		define(0x8b+Op(i), immNone, "f32."+name)
		define(0x99+Op(i), immNone, "f64."+name)
	}
	define(0xa7, immNone, "i32.wrap_i64", "i32.trunc_f32_s", "i32.trunc_f32_u", "i32.trunc_f64_s", "i32.trunc_f64_u",
		"i64.extend_i32_s", "i64.extend_i32_u", "i64.trunc_f32_s", "i64.trunc_f32_u", "i64.trunc_f64_s", "i64.trunc_f64_u",
		"f32.convert_i32_s", "f32.convert_i32_u", "f32.convert_i64_s", "f32.convert_i64_u", "f32.demote_f64",
		"f64.convert_i32_s", "f64.convert_i32_u", "f64.convert_i64_s", "f64.convert_i64_u", "f64.promote_f32",
		"i32.reinterpret_f32", "i64.reinterpret_f64", "f32.reinterpret_i32", "f64.reinterpret_i64",
		"i32.extend8_s", "i32.extend16_s", "i64.extend8_s", "i64.extend16_s", "i64.extend32_s")
	define(0xd0, immRefType, "ref.null")
	define(0xd1, immNone, "ref.is_null")
	define(0xd2, immFunc, "ref.func")
	define(0xfc00, immNone, "i32.trunc_sat_f32_s", "i32.trunc_sat_f32_u", "i32.trunc_sat_f64_s", "i32.trunc_sat_f64_u",
		"i64.trunc_sat_f32_s", "i64.trunc_sat_f32_u", "i64.trunc_sat_f64_s", "i64.trunc_sat_f64_u")
	define(0xfc08, immDataMemory, "memory.init")
	define(0xfc09, immData, "data.drop")
	define(0xfc0a, immMemories, "memory.copy")
	define(0xfc0b, immMemory, "memory.fill")
	define(0xfc0c, immElemTable, "table.init")
	define(0xfc0d, immElem, "elem.drop")
	define(0xfc0e, immTables, "table.copy")
	define(0xfc0f, immTable, "table.grow", "table.size", "table.fill")
	return ops, prefixed
}
