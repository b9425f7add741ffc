package rewrite

import "fmt"

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
