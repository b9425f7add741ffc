package rewrite

import "encoding/binary"

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
