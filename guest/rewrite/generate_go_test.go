package rewrite

import "math/rand/v2"

// goGenerator writes random modules in the form of Go's compiler: functions that
// jump between segments, keep return addresses in memory, unwind the native stack now
// and then, and are resumed in their middle.
//
// The stack pointer points to the return address of the active function, as in Go: an
// i64 with the number of the function in the table, shifted by 16, and PC_B.
type goGenerator struct {
	r    *rand.Rand
	code []byte
	f    int // the function
	// table is the br_table of the function, and pcs has an index in it for each segment.
	table []uint32
	pcs   []uint32
	// outer is the number of blocks between the segment and U, and inner the number of
	// the segment's own open blocks.
	outer, inner int
	loop, unwind bool
}

const (
	goSP     = 0 // the stack pointer
	goSteps  = 1 // counts down; when it is negative, functions return
	goPeriod = 2 // every so many calls of yield, the native stack is unwound
	goCount  = 3 // calls of yield until then
	goSum    = 4 // an i64 that functions change

	goStack = 60 << 10 // where the stack begins
	goFuncs = 6

	// Functions: run, yield, and from goFirst on the generated ones. Their number in
	// the table is the same.
	goYield = 1
	goFirst = 2

	// Locals: PC_B, the stack pointer, two i32 and two i64.
	goLocalSP = 1
	goLocal32 = 2
	goLocal64 = 4
)

// generateGo returns a module that exports run, with the period as its parameter, its
// globals and its memory.
func generateGo(seed uint64) []byte {
	g := &goGenerator{r: rand.New(rand.NewPCG(seed, 11))}
	m := &Module{Memories: []Limits{{Min: 1}}}
	m.Types = []FuncType{{[]ValType{I32}, nil}, resumable}
	for n, v := range []int64{goStack, 150 + g.r.Int64N(150), 0, 0} {
		m.Globals = append(m.Globals, Global{GlobalType{I32, true}, Instr{Op: OpI32Const, Value: v}})
		m.Exports = append(m.Exports, Export{[]string{"sp", "steps", "period", "count"}[n], KindGlobal, uint32(n)})
	}
	m.Globals = append(m.Globals, Global{GlobalType{I64, true}, Instr{Op: OpI64Const}})
	m.Exports = append(m.Exports, Export{"sum", KindGlobal, goSum}, Export{"memory", KindMemory, 0}, Export{"run", KindFunc, 0})
	m.Funcs = []Func{{Type: 0, Body: goDriver()}, {Type: 1, Body: goYieldBody()}}
	refs := []Instr{{Op: OpRefFunc, Index: 1}}
	for n := range goFuncs {
		m.Funcs = append(m.Funcs, Func{Type: 1, Locals: []Locals{{3, I32}, {2, I64}}, Body: g.function(goFirst + n)})
		refs = append(refs, Instr{Op: OpRefFunc, Index: uint32(goFirst + n)})
	}
	m.Tables = []Table{{FuncRef, Limits{Min: goFirst + goFuncs}}}
	m.Elems = []Elem{{Mode: Active, Type: FuncRef, Offset: Instr{Op: OpI32Const, Value: 1}, Init: refs}}
	return m.Encode()
}

// instrs encodes instructions.
func instrs(list ...Instr) []byte { return appendAll(nil, list...) }

func c32(v int64) Instr           { return Instr{Op: OpI32Const, Value: v} }
func get(i uint32) Instr          { return Instr{Op: OpLocalGet, Index: i} }
func set(i uint32) Instr          { return Instr{Op: OpLocalSet, Index: i} }
func global(i uint32) Instr       { return Instr{Op: OpGlobalGet, Index: i} }
func setGlobal(i uint32) Instr    { return Instr{Op: OpGlobalSet, Index: i} }
func access(op Op, o int64) Instr { return Instr{Op: op, Value: o} }

const (
	i32Add, i32And, i32LtS, i32RemU   = 0x6a, 0x71, 0x48, 0x70
	i32Load16U, i32WrapI64            = 0x2f, 0xa7
	i64Load, i64Store, i64Add, i64Mul = 0x29, 0x37, 0x7c, 0x7e
	i64ExtendS, i64Xor                = 0xac, 0x85
)

// goDriver calls the first function and resumes what was unwound, until the stack is
// empty: as Go's runtime does.
func goDriver() []byte {
	return instrs(
		get(0), setGlobal(goPeriod), get(0), setGlobal(goCount),
		c32(goStack-8), setGlobal(goSP),
		c32(0), Instr{Op: OpCall, Index: goFirst}, op(OpDrop),
		block(OpBlock), block(OpLoop),
		global(goSP), c32(goStack), op(0x46), Instr{Op: OpBrIf, Index: 1}, // i32.eq
		global(goSP), c32(8), op(OpI32Sub), access(i32Load16U, 0),
		global(goSP), c32(8), op(OpI32Sub), access(i32Load16U, 2),
		Instr{Op: OpCallIndirect, Index: 1}, op(OpDrop),
		Instr{Op: OpBr, Index: 0},
		op(OpEnd), op(OpEnd), op(OpEnd))
}

// goYieldBody returns 1, to unwind the native stack, every goPeriod calls.
func goYieldBody() []byte {
	return instrs(
		global(goSP), c32(8), op(i32Add), setGlobal(goSP),
		global(goCount), c32(1), op(OpI32Sub), setGlobal(goCount),
		global(goCount), block(OpIf), c32(0), op(OpReturn), op(OpEnd),
		global(goPeriod), setGlobal(goCount), c32(1), op(OpEnd))
}

func (g *goGenerator) emit(list ...Instr) { g.code = appendAll(g.code, list...) }

// function writes function number f.
func (g *goGenerator) function(f int) []byte {
	g.f, g.code, g.inner = f, nil, 0
	count := 1 + g.r.IntN(10)
	g.loop, g.unwind = g.r.IntN(8) > 0, g.r.IntN(8) > 0
	g.table, g.pcs = nil, nil
	for n := range count {
		g.pcs = append(g.pcs, uint32(len(g.table)))
		for range 1 + g.r.IntN(3) {
			g.table = append(g.table, uint32(n))
		}
	}
	g.emit(global(goSP), set(goLocalSP))
	if g.unwind {
		g.emit(block(OpBlock))
	}
	if g.loop {
		g.emit(block(OpLoop))
	}
	for range count {
		g.emit(block(OpBlock))
	}
	g.emit(get(pcB), Instr{Op: OpBrTable, Labels: append(g.table, uint32(count-1))}, op(OpEnd))
	for n := range count {
		g.outer = count - 1 - n
		g.segment(n)
		if n < count-1 {
			g.emit(op(OpEnd))
		}
	}
	if g.loop {
		g.emit(op(OpEnd))
	}
	g.emit(op(OpUnreachable))
	if g.unwind {
		g.emit(op(OpEnd), c32(1))
	}
	g.emit(op(OpEnd))
	return g.code
}

// segment writes a segment. It first returns if too many have run.
func (g *goGenerator) segment(n int) {
	g.emit(global(goSteps), c32(1), op(OpI32Sub), setGlobal(goSteps), global(goSteps), c32(0), op(i32LtS), block(OpIf))
	g.inner++
	g.ret()
	g.inner--
	g.emit(op(OpEnd))
	if n == 0 && g.unwind && g.r.IntN(2) == 0 { // as before a stack that must grow
		g.emit(get(goLocal32), c32(3), op(i32And), op(OpI32Eqz), block(OpIf))
		g.inner++
		g.call(goYield, 0)
		g.inner--
		g.emit(op(OpEnd))
	}
	for range g.r.IntN(4) {
		g.statement()
	}
	last := n == len(g.pcs)-1
	switch g.r.IntN(8) {
	case 0, 1, 2:
		if g.unwind && !last {
			g.call(g.callee(), int(g.pcs[n+1]))
			return
		}
		g.ret()
	case 3:
		g.ret()
	case 4:
		if g.loop {
			g.jump()
			if g.r.IntN(2) == 0 {
				g.statement() // dead
			}
			return
		}
	case 5:
		if g.r.IntN(3) == 0 { // a tail call
			g.emit(c32(0), Instr{Op: OpCall, Index: uint32(g.callee())}, op(OpReturn))
		}
	}
	if last && !g.unwind && g.loop {
		g.ret()
	}
}

func (g *goGenerator) callee() int {
	if g.r.IntN(3) == 0 {
		return goYield
	}
	return goFirst + g.r.IntN(goFuncs)
}

func (g *goGenerator) ret() {
	g.emit(get(goLocalSP), c32(8), op(i32Add), Instr{Op: OpLocalTee, Index: goLocalSP}, setGlobal(goSP), c32(0), op(OpReturn))
}

// jump writes a jump to any segment.
func (g *goGenerator) jump() {
	pc := int64(g.r.IntN(len(g.table) + 1))
	g.emit(c32(pc), set(pcB), Instr{Op: OpBr, Index: uint32(g.inner + g.outer)})
}

// call writes a call, directly or through the table, and unwinds if the callee wants
// it. The function resumes at pc.
func (g *goGenerator) call(callee, pc int) {
	g.emit(get(goLocalSP), c32(8), op(OpI32Sub), Instr{Op: OpLocalTee, Index: goLocalSP}, setGlobal(goSP),
		get(goLocalSP), Instr{Op: OpI64Const, Value: int64(g.f<<16 | pc)}, access(i64Store, 0))
	if g.r.IntN(2) == 0 {
		g.emit(c32(0), Instr{Op: OpCall, Index: uint32(callee)})
	} else {
		g.emit(c32(int64(callee)), set(pcB), c32(0), get(pcB), Instr{Op: OpCallIndirect, Index: 1})
	}
	g.emit(global(goSP), set(goLocalSP))
	exit := uint32(g.inner + g.outer)
	if g.loop {
		exit++
	}
	g.emit(Instr{Op: OpBrIf, Index: exit})
}

func (g *goGenerator) statement() {
	switch g.r.IntN(9) {
	case 0, 1:
		g.i32()
		g.emit(set(goLocal32 + uint32(g.r.IntN(2))))
	case 2:
		g.i64()
		g.emit(set(goLocal64 + uint32(g.r.IntN(2))))
	case 3:
		g.i64()
		g.emit(global(goSum), op(i64Xor), setGlobal(goSum))
	case 4:
		g.address()
		g.i64()
		g.emit(access(i64Store, g.r.Int64N(100)))
	case 5, 6:
		if !g.loop {
			return
		}
		g.i32()
		if g.r.IntN(2) == 0 {
			g.emit(op(OpI32Eqz))
		}
		g.emit(block(OpIf))
		g.inner++
		if g.r.IntN(3) == 0 {
			g.statement()
		}
		g.jump()
		g.inner--
		g.emit(op(OpEnd))
	case 7: // a block of its own
		g.emit(block(OpBlock))
		g.inner++
		g.i32()
		g.emit(Instr{Op: OpBrIf, Index: 0})
		g.statement()
		if g.r.IntN(4) == 0 {
			g.emit(Instr{Op: OpBr, Index: 0})
			g.statement()
		}
		g.inner--
		g.emit(op(OpEnd))
	case 8:
		if g.r.IntN(12) == 0 {
			g.i32()
			g.emit(block(OpIf), op(OpUnreachable), op(OpEnd))
		}
	}
}

func (g *goGenerator) i32() {
	switch g.r.IntN(4) {
	case 0:
		g.emit(c32(int64(g.r.IntN(5))))
	case 1:
		g.emit(get(goLocal64), op(i32WrapI64))
	default:
		compute := []Op{i32Add, i32And, i32LtS, i32Add, i32Add, i32RemU}[g.r.IntN(6)]
		g.emit(get(goLocal32), global(goSteps), op(i32Add), get(goLocal32+1), c32(1), op(0x72), op(compute)) // i32.or: hardly ever 0
	}
}

func (g *goGenerator) i64() {
	switch g.r.IntN(4) {
	case 0:
		g.emit(get(goLocal32), op(i64ExtendS))
	case 1:
		g.address()
		g.emit(access(i64Load, g.r.Int64N(100)))
	case 2:
		g.emit(global(goSteps), op(i64ExtendS), get(goLocal64+1), op(i64Add))
	default:
		g.emit(get(goLocal64), Instr{Op: OpI64Const, Value: g.r.Int64N(1 << 20)}, op(i64Mul), get(goLocal64+1), op(i64Add))
	}
}

// address writes an address below the stack.
func (g *goGenerator) address() {
	g.emit(get(goLocal32+uint32(g.r.IntN(2))), c32(0x7ff8), op(i32And))
}
