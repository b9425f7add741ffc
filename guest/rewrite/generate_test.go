package rewrite

import "math/rand/v2"

// generator writes random valid modules with nested control flow, calls of all
// kinds, memory and bulk operations. A global counts down at every loop head and
// function entry, so that every run ends.
type generator struct {
	r     *rand.Rand
	m     *Module
	code  []byte
	f     *Func
	self  uint32
	types []ValType // of parameters and locals
	// labels are the types that a branch to each open block needs, the innermost
	// block last.
	labels [][]ValType
	depth  int
	// counts says that the function counts down, so that recursion is allowed.
	counts bool
	budget int // number of instructions left to write
}

const (
	genSteps     = 0 // the global that counts down
	genMemory    = 2 // pages
	genMaxMemory = 6
	genTable     = 10
	genFuncs     = 6
)

var genTypes = []ValType{I32, I64, F64, F32}

func generate(seed uint64) []byte {
	g := &generator{r: rand.New(rand.NewPCG(seed, 7))}
	m := &Module{Memories: []Limits{{Min: genMemory, Max: genMaxMemory, HasMax: true}}, DataCount: true}
	g.m = m
	m.Globals = []Global{
		{GlobalType{I32, true}, Instr{Op: OpI32Const, Value: 300}},
		{GlobalType{I64, true}, Instr{Op: OpI64Const, Value: 7}},
		{GlobalType{F64, true}, Instr{Op: OpF64Const, Value: 0x3ff8000000000000}},
		{GlobalType{I32, false}, Instr{Op: OpI32Const, Value: -5}},
	}
	for range genFuncs {
		t := FuncType{g.some(3), g.some(2)}
		if g.r.IntN(3) == 0 && len(m.Funcs) > 0 {
			t = m.Types[m.Funcs[0].Type]
		}
		m.Types = append(m.Types, t) // with duplicates: types are compared by structure
		m.Funcs = append(m.Funcs, Func{Type: uint32(len(m.Types) - 1)})
	}
	m.Tables = []Table{{FuncRef, Limits{Min: genTable}}}
	var first, second []Instr
	for i := range genFuncs {
		first = append(first, Instr{Op: OpRefFunc, Index: uint32(i)})
	}
	second = []Instr{{Op: OpRefNull, Index: uint32(FuncRef)}, {Op: OpRefFunc, Index: uint32(g.r.IntN(genFuncs))}}
	m.Elems = []Elem{
		{Mode: Active, Type: FuncRef, Offset: Instr{Op: OpI32Const, Value: 1}, Init: first},
		{Mode: Active, Type: FuncRef, Offset: Instr{Op: OpI32Const, Value: int64(g.r.IntN(genTable - 2))}, Init: second},
		{Mode: Declarative, Type: FuncRef, Init: first[:1]},
	}
	text := make([]byte, 200)
	for i := range text {
		text[i] = byte(g.r.Uint32())
	}
	m.Data = []Data{
		{Offset: Instr{Op: OpI32Const, Value: int64(g.r.IntN(1000))}, Bytes: text},
		{Mode: Passive, Bytes: text[50:]},
		{Offset: Instr{Op: OpI32Const, Value: int64(g.r.IntN(1000))}, Bytes: text[:90]},
	}
	for i := range m.Funcs {
		g.function(i)
	}
	m.Exports = []Export{{"memory", KindMemory, 0}, {"run", KindFunc, 0}, {"again", KindFunc, 1}, {"g0", KindGlobal, 0}, {"g1", KindGlobal, 1}}
	return m.Encode()
}

// some returns up to n types.
func (g *generator) some(n int) []ValType {
	var types []ValType
	for range g.r.IntN(n + 1) {
		types = append(types, g.typ())
	}
	return types
}

func (g *generator) typ() ValType { return genTypes[g.r.IntN(len(genTypes))] }

func (g *generator) op(op Op, index ...uint32) {
	in := Instr{Op: op}
	if len(index) > 0 {
		in.Index = index[0]
	}
	if len(index) > 1 {
		in.Index2 = index[1]
	}
	g.emit(in)
}

func (g *generator) emit(in Instr) {
	g.code = in.Append(g.code)
	g.budget--
}

func (g *generator) i32(v int32) { g.emit(Instr{Op: OpI32Const, Value: int64(v)}) }

func (g *generator) function(i int) {
	f := &g.m.Funcs[i]
	t := g.m.Types[f.Type]
	g.f, g.code, g.budget, g.depth, g.self = f, nil, 60+g.r.IntN(300), 0, uint32(i)
	g.types = append([]ValType(nil), t.Params...)
	for range g.r.IntN(4) {
		l := Locals{uint32(g.r.IntN(3)), g.typ()}
		f.Locals = append(f.Locals, l)
		for range l.Count {
			g.types = append(g.types, l.Type)
		}
	}
	for _, l := range genTypes { // at least one of each
		f.Locals = append(f.Locals, Locals{1, l})
		g.types = append(g.types, l)
	}
	g.labels = [][]ValType{t.Results}
	if g.counts = g.r.IntN(4) > 0; g.counts {
		g.countdown()
	}
	g.statements()
	g.values(t.Results)
	g.op(OpEnd)
	f.Body = g.code
}

// countdown writes code that returns from the function when no steps are left.
func (g *generator) countdown() {
	g.op(OpGlobalGet, genSteps)
	g.i32(1)
	g.op(OpI32Sub)
	g.op(OpGlobalSet, genSteps)
	g.op(OpGlobalGet, genSteps)
	g.i32(0)
	g.op(0x48) // i32.lt_s
	g.emit(Instr{Op: OpIf, Value: noResult})
	g.constants(g.labels[0])
	g.op(OpReturn)
	g.op(OpEnd)
}

func (g *generator) constants(types []ValType) {
	for _, t := range types {
		g.constant(t)
	}
}

func (g *generator) constant(t ValType) {
	v := g.r.Int64() >> g.r.IntN(64)
	switch t {
	case I32:
		g.i32(int32(v))
	case I64:
		g.emit(Instr{Op: OpI64Const, Value: v})
	case F32:
		g.emit(Instr{Op: OpF32Const, Value: int64(0x3f800000 + uint32(v)&0xffff)})
	case F64:
		g.emit(Instr{Op: OpF64Const, Value: 0x3ff0000000000000 + v&0xffffffff})
	}
}

func (g *generator) values(types []ValType) {
	for _, t := range types {
		g.value(t)
	}
}

// local returns a local of a type.
func (g *generator) local(t ValType) uint32 {
	start := g.r.IntN(len(g.types))
	for i := range g.types {
		if j := (start + i) % len(g.types); g.types[j] == t {
			return uint32(j)
		}
	}
	panic("no local")
}

// value writes an expression of type t.
func (g *generator) value(t ValType) {
	if g.budget < 0 || g.depth > 8 {
		g.constant(t)
		return
	}
	g.depth++
	defer func() { g.depth-- }()
	switch g.r.IntN(10) {
	case 0:
		g.constant(t)
	case 1, 2:
		g.op(OpLocalGet, g.local(t))
	case 3:
		g.value(t)
		g.op(OpLocalTee, g.local(t))
	case 4:
		g.value(t)
		g.value(t)
		g.value(I32)
		if g.r.IntN(2) == 0 {
			g.op(OpSelect)
		} else {
			g.op(OpSelectT, uint32(t))
		}
	case 5:
		g.block([]ValType{t})
	case 6:
		g.address()
		g.emit(Instr{Op: map[ValType]Op{I32: 0x2d, I64: 0x34, F32: 0x2a, F64: 0x2b}[t], Value: int64(g.r.IntN(64))})
	default:
		g.compute(t)
	}
}

// address writes an i32 that is usually within memory.
func (g *generator) address() {
	g.value(I32)
	if g.r.IntN(30) > 0 {
		g.i32(0x3fff)
		g.op(0x71) // i32.and
	}
}

func (g *generator) compute(t ValType) {
	switch t {
	case I32:
		switch g.r.IntN(4) {
		case 0:
			g.value(I64)
			g.op(0xa7)
		case 1:
			g.value(F64)
			g.op(0xfc02)
		case 2:
			g.op(OpMemorySize)
		default:
			g.value(I32)
			g.value(I32)
			g.op([]Op{0x46, 0x48, 0x4d, 0x6a, 0x6b, 0x6c, 0x6e, 0x6f, 0x71, 0x72, 0x73, 0x74, 0x76, 0x77}[g.r.IntN(14)])
		}
	case I64:
		switch g.r.IntN(3) {
		case 0:
			g.value(I32)
			g.op(0xac)
		case 1:
			g.op(OpGlobalGet, 1)
		default:
			g.value(I64)
			g.value(I64)
			g.op([]Op{0x7c, 0x7d, 0x7e, 0x7f, 0x82, 0x83, 0x84, 0x85, 0x86, 0x88}[g.r.IntN(10)])
		}
	case F32:
		g.value(I32)
		g.op(0xb2) // no instruction that can return a NaN, because its bits are not specified
	case F64:
		g.value(I32)
		g.op(0xb7)
	}
}

func (g *generator) statements() {
	for n := 1 + g.r.IntN(5); n > 0 && g.budget > 0; n-- {
		g.statement()
	}
}

func (g *generator) statement() {
	if g.depth > 8 {
		return
	}
	g.depth++
	defer func() { g.depth-- }()
	switch g.r.IntN(18) {
	case 16, 17:
		g.jumps()
	case 0, 1:
		t := g.typ()
		g.value(t)
		g.op(OpLocalSet, g.local(t))
	case 2:
		g.value(I64)
		g.op(OpGlobalSet, 1)
	case 3:
		t := g.typ()
		g.address()
		g.value(t)
		g.emit(Instr{Op: map[ValType]Op{I32: 0x36, I64: 0x3d, F32: 0x38, F64: 0x39}[t], Value: int64(g.r.IntN(64))})
	case 4, 5:
		g.block(nil)
	case 6, 7:
		g.loop()
	case 8:
		g.table()
	case 9, 10:
		g.exit()
	case 11, 12:
		g.call()
	case 13:
		g.bulk()
	case 14:
		types := g.some(2)
		g.block(types)
		g.drop(types)
	case 15:
		g.i32(int32(g.r.IntN(3)))
		g.op(OpMemoryGrow)
		g.op(OpDrop)
	}
}

func (g *generator) drop(types []ValType) {
	for range types {
		g.op(OpDrop)
	}
}
