package rewrite

// The cost of execution, in units of fuel. The cost depends only on the module and on the executed
// code, never on the host.
//
//	1  for each executed instruction, except
//	0  for block, loop, else, end and nop, which do no work;
//
// and in addition, charged before the work is done,
//
//	length / BytesPerUnit        memory.copy, memory.fill, memory.init
//	min(pages, 65536) * PageCost memory.grow, granted or not
//	elements                     table.copy, table.fill, table.init, table.grow
//
// The lengths are the requested ones, even if out of range, and unsigned.
const (
	// BytesPerUnit is how many bytes a unit moves or fills.
	BytesPerUnit = 1 << bytesShift
	// PageCost is the cost of a page of new memory: as much as filling it.
	PageCost = 1 << pageShift

	bytesShift = 3
	pageShift  = 16 - bytesShift
)

// Cost returns the cost of executing an instruction once, without the part for a length.
func (op Op) Cost() int64 {
	switch op {
	case OpBlock, OpLoop, OpElse, OpEnd, OpNop:
		return 0
	}
	return 1
}

// byLength is how an instruction is charged for the length on top of the operand
// stack.
type byLength byte

const (
	noLength byLength = iota
	bytesLength
	pagesLength
	elementsLength
)

func (op Op) byLength() byLength {
	switch op {
	case OpMemoryCopy, OpMemoryFill, OpMemoryInit:
		return bytesLength
	case OpMemoryGrow:
		return pagesLength
	case OpTableCopy, OpTableFill, OpTableInit, OpTableGrow:
		return elementsLength
	}
	return noLength
}

// smallLength is the largest constant length charged together with the surrounding code, without a
// separate check.
const smallLength = 4096

// constantCost returns the cost of instrs[i] for its length, if the length is a
// small constant.
func constantCost(instrs []Instr, i int) (cost int64, ok bool) {
	if i == 0 || instrs[i].Op.byLength() != bytesLength || instrs[i-1].Op != OpI32Const {
		return 0, false
	}
	n := uint32(instrs[i-1].Value)
	return int64(n / BytesPerUnit), n <= smallLength
}
