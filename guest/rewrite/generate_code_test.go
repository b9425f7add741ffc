package rewrite

import "slices"

// Control flow, calls and bulk operations of the generator.

// blockType returns the immediate for parameters and results.
func (g *generator) blockType(params, results []ValType) int64 {
	if len(params) == 0 && len(results) == 0 {
		return noResult
	}
	if len(params) == 0 && len(results) == 1 && g.r.IntN(3) > 0 {
		return int64(int8(results[0]<<1)) >> 1 // the byte as a signed number of 7 bits
	}
	return int64(g.m.typeIndex(FuncType{params, results}))
}

// block writes a block or an if with results.
func (g *generator) block(results []ValType) {
	var params []ValType
	if g.r.IntN(4) == 0 {
		params = g.some(2)
	}
	g.values(params)
	op := OpBlock
	if g.r.IntN(2) == 0 {
		op = OpIf
		g.value(I32)
	}
	arm := func() {
		g.drop(params)
		g.statements()
		g.values(results)
	}
	g.emit(Instr{Op: op, Value: g.blockType(params, results)})
	g.labels = append(g.labels, results)
	arm()
	if op == OpIf && (len(results) > 0 || len(params) > 0 || g.r.IntN(2) == 0) {
		g.op(OpElse)
		arm()
	}
	g.labels = g.labels[:len(g.labels)-1]
	g.op(OpEnd)
}

func (g *generator) loop() {
	var params []ValType
	if g.r.IntN(3) == 0 {
		params = g.some(2)
	}
	g.values(params)
	g.emit(Instr{Op: OpLoop, Value: g.blockType(params, nil)})
	g.labels = append(g.labels, params)
	g.drop(params)
	g.countdown()
	g.statements()
	switch g.r.IntN(3) {
	case 0:
		g.values(params)
		g.value(I32)
		g.op(OpBrIf, 0)
		g.drop(params)
	case 1:
		g.values(params)
		g.op(OpBr, 0)
	case 2:
		g.value(I32)
		g.when(func() {
			g.values(params)
			g.op(OpBr, 1)
		})
	}
	g.labels = g.labels[:len(g.labels)-1]
	g.op(OpEnd)
}

// when writes an if with body in it.
func (g *generator) when(body func()) {
	g.emit(Instr{Op: OpIf, Value: noResult})
	g.labels = append(g.labels, nil)
	body()
	g.labels = g.labels[:len(g.labels)-1]
	g.op(OpEnd)
}

// table writes a br_table, and code for some of its targets.
func (g *generator) table() {
	n := 1 + g.r.IntN(3)
	for range n {
		g.emit(Instr{Op: OpBlock, Value: noResult})
		g.labels = append(g.labels, nil)
	}
	var targets []uint32 // labels that take no values, including loops
	for depth := range g.labels {
		if len(g.labels[len(g.labels)-1-depth]) == 0 {
			targets = append(targets, uint32(depth))
		}
	}
	var labels []uint32
	for range 1 + g.r.IntN(6) {
		labels = append(labels, targets[g.r.IntN(min(len(targets), n+2))])
	}
	g.value(I32)
	g.i32(7)
	g.op(0x71)
	g.emit(Instr{Op: OpBrTable, Labels: labels})
	for range n {
		g.labels = g.labels[:len(g.labels)-1]
		g.op(OpEnd)
		g.statements()
	}
}

// jumps writes a loop over a switch, as Go's compiler does, with segments that set
// the index of the next segment, forward or back, and branch to the head.
func (g *generator) jumps() {
	n := 1 + g.r.IntN(4)
	index := g.local(I32)
	g.i32(int32(g.r.IntN(n)))
	g.op(OpLocalSet, index)
	g.emit(block(OpLoop))
	g.labels = append(g.labels, nil)
	labels := []uint32{uint32(n + 1)} // the default leaves the block around
	for i := range n {
		g.emit(block(OpBlock))
		g.labels = append(g.labels, nil)
		labels = slices.Insert(labels, i, uint32(i))
	}
	if len(g.labels[len(g.labels)-n-2]) > 0 {
		labels[n] = 0
	}
	g.op(OpLocalGet, index)
	g.emit(Instr{Op: OpBrTable, Labels: labels})
	for i := range n {
		g.labels = g.labels[:len(g.labels)-1]
		g.op(OpEnd)
		g.countdown()
		g.statements()
		jump := func() {
			g.i32(int32(g.r.IntN(n + 2)))
			g.op(OpLocalSet, index)
		}
		switch g.r.IntN(4) {
		case 0, 1:
			g.value(I32)
			g.when(func() {
				jump()
				g.op(OpBr, uint32(n-i))
			})
		case 2:
			jump()
			g.op(OpBr, uint32(n-i-1))
		}
	}
	g.labels = g.labels[:len(g.labels)-1]
	g.op(OpEnd)
}

// exit branches out of a random block, usually on a condition.
func (g *generator) exit() {
	depth := g.r.IntN(len(g.labels))
	types := g.labels[len(g.labels)-1-depth]
	switch g.r.IntN(8) {
	case 0, 1, 2, 3:
		g.values(types)
		g.value(I32)
		g.op(OpBrIf, uint32(depth))
		g.drop(types)
	case 4, 5:
		g.value(I32)
		g.when(func() {
			g.values(types)
			g.op(OpBr, uint32(depth+1))
		})
	case 6:
		g.value(I32)
		g.op(0x45) // i32.eqz
		g.when(func() {
			if g.r.IntN(4) == 0 {
				g.op(OpUnreachable)
				return
			}
			g.values(g.labels[0])
			g.op(OpReturn)
		})
	case 7: // the following code is unreachable
		if g.r.IntN(2) == 0 {
			g.values(types)
			g.op(OpBr, uint32(depth))
		} else {
			g.values(g.labels[0])
			g.op(OpReturn)
		}
	}
}

func (g *generator) call() {
	callee := uint32(g.r.IntN(genFuncs))
	if !g.counts { // no recursion
		if callee = g.self + 1 + callee; callee >= genFuncs {
			return
		}
	}
	typ := g.m.Funcs[callee].Type
	t := g.m.Types[typ]
	g.values(t.Params)
	if g.counts && g.r.IntN(2) == 0 {
		// Usually an element with the type, or one near it.
		if g.r.IntN(4) > 0 {
			g.i32(int32(callee) + 1)
		} else {
			g.value(I32)
			g.i32(15)
			g.op(0x71)
		}
		g.op(OpCallIndirect, typ, 0)
	} else {
		g.op(OpCall, callee)
	}
	for range t.Results {
		g.op(OpDrop)
	}
}

func (g *generator) bulk() {
	length := func() {
		switch g.r.IntN(6) {
		case 0:
			g.i32(5000) // too large to be charged with the code around it
		case 1, 2:
			g.value(I32)
			g.i32(0xff)
			g.op(0x71)
		case 3:
			if g.r.IntN(8) == 0 {
				g.value(I32) // anything
				return
			}
			g.i32(0)
		default:
			g.i32(int32(g.r.IntN(100)))
		}
	}
	switch g.r.IntN(6) {
	case 0, 1:
		g.address()
		g.value(I32)
		length()
		g.op(OpMemoryFill)
	case 2, 3:
		g.address()
		g.address()
		length()
		g.op(OpMemoryCopy)
	case 4:
		// Not from active segments: wazero does not drop them, which is against
		// the specification.
		segment, length := uint32(g.r.IntN(3)), 0
		if segment == 1 {
			length = g.r.IntN(40)
		}
		g.address()
		g.i32(int32(g.r.IntN(4)) * int32(length) / 4)
		g.i32(int32(length))
		g.op(OpMemoryInit, segment)
	case 5:
		if g.r.IntN(3) == 0 {
			g.op(OpDataDrop, uint32(g.r.IntN(3)))
		}
	}
}

// seeds are the seeds of the generated modules.
func seeds(n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = uint64(i)
	}
	return slices.Clip(list)
}
