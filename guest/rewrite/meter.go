package rewrite

import (
	"fmt"
)

// MeterOptions name the import and the export added by Meter.
type MeterOptions struct {
	// Module and Name are the names of the imported function called after the fuel has run out,
	// without parameters and results
	Module, Name string
	// Global is the export name of the fuel counter, a mutable i64.
	Global string
}

// Meter makes a module subtract the cost of executed code from a counter (see [Op.Cost] and the
// constants near it). The counter is an exported global of the module with the initial value 0.
//
// Each sequence of instructions is charged before it runs, together with code likely to run
// afterwards (meter.go); a run with another branch gets the rest back. So when a function called
// from outside has returned, the counter has decreased by exactly the cost of the executed code.
// While the function runs, and after a trap, the counter can be lower: by at most the cost of the
// rest of each active function.
//
// If the counter is below 0, the imported function is called at the next check: before every jump
// back to an earlier place, at the entry of a function with calls, and before each operation
// charged by length (meter.go). The function raises the counter or ends the run. If it returns
// with the counter still below 0, execution continues to a call at the next check. Every endless
// run reaches a check. Between checks, each active function can at most run to the end, so the
// counter cannot wrap around.
func Meter(o MeterOptions) Pass {
	return Pass{"meter", func(m *Module) error { return meter(m, o) }}
}

func meter(m *Module, o MeterOptions) error {
	for _, i := range m.Imports {
		if i.Module == o.Module && i.Name == o.Name {
			return fmt.Errorf("the module imports %s.%s already", o.Module, o.Name)
		}
	}
	out, err := m.importFunc(o.Module, o.Name, FuncType{})
	if err != nil {
		return err
	}
	fuel := uint32(len(m.globals()))
	if err := m.export(Export{Name: o.Global, Kind: KindGlobal, Index: fuel}); err != nil {
		return err
	}
	m.Globals = append(m.Globals, Global{GlobalType{I64, true}, Instr{Op: OpI64Const}})

	w := bodyMeter{fuel: fuel, out: out}
	for i := range m.Funcs {
		f := &m.Funcs[i]
		locals := m.locals(f)
		used, err := w.body(f, uint32(locals))
		if err != nil {
			return err
		}
		if used && locals == maxLocals {
			return fmt.Errorf("function %d has %d locals, none is left to use", int(m.imported(KindFunc))+i, maxLocals)
		}
	}
	return nil
}

// bodyMeter meters bodies one by one.
type bodyMeter struct {
	fuel, out uint32 // the counter, the function to call
	flow      flow
	instrs    []Instr
}

// body meters f. It reports whether a local was added, with the index local.
func (w *bodyMeter) body(f *Func, local uint32) (used bool, err error) {
	if w.instrs, err = f.Decode(w.instrs[:0]); err != nil {
		return false, err
	}
	list := w.flow.charges(w.instrs)
	e := editor{old: f.Body}
	for i := range w.instrs {
		in := &w.instrs[i]
		if len(list) > 0 && list[0].at == i {
			e.keep(in.At)
			e.out = w.charge(e.out, list[0])
			list = list[1:]
		}
		if by := in.Op.byLength(); by != noLength {
			if _, ok := constantCost(w.instrs, i); !ok {
				e.keep(in.At)
				e.out = w.check(w.length(e.out, by, local))
				used = true
			}
		}
	}
	f.Body = e.finish()
	if used {
		f.Locals = append(f.Locals[:len(f.Locals):len(f.Locals)], Locals{1, I32})
	}
	return used, nil
}

func (w *bodyMeter) charge(b []byte, c charge) []byte {
	if c.cost != 0 {
		b = appendAll(b, Instr{Op: OpGlobalGet, Index: w.fuel}, Instr{Op: OpI64Const, Value: c.cost},
			Instr{Op: OpI64Sub}, Instr{Op: OpGlobalSet, Index: w.fuel})
	}
	if c.check {
		b = w.check(b)
	}
	return b
}

func (w *bodyMeter) check(b []byte) []byte {
	return appendAll(b, Instr{Op: OpGlobalGet, Index: w.fuel}, Instr{Op: OpI64Const}, Instr{Op: OpI64LtS},
		Instr{Op: OpIf, Value: noResult}, Instr{Op: OpCall, Index: w.out}, Instr{Op: OpEnd})
}

// length charges for the length on top of the stack, and leaves the length there.
func (w *bodyMeter) length(b []byte, by byLength, local uint32) []byte {
	get := Instr{Op: OpLocalGet, Index: local}
	b = appendAll(b, Instr{Op: OpLocalTee, Index: local}, Instr{Op: OpGlobalGet, Index: w.fuel}, get)
	if by == pagesLength {
		most := Instr{Op: OpI32Const, Value: maxPages}
		b = appendAll(b, most, get, most, Instr{Op: OpI32LtU}, Instr{Op: OpSelect})
	}
	b = appendAll(b, Instr{Op: OpI64ExtendU})
	switch by {
	case bytesLength:
		b = appendAll(b, Instr{Op: OpI64Const, Value: bytesShift}, Instr{Op: OpI64ShrU})
	case pagesLength:
		b = appendAll(b, Instr{Op: OpI64Const, Value: pageShift}, Instr{Op: OpI64Shl})
	}
	return appendAll(b, Instr{Op: OpI64Sub}, Instr{Op: OpGlobalSet, Index: w.fuel})
}

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

// Where fuel is checked.
//
// Apart from calls and branches to the head of a loop, execution only moves forward. So an endless
// run makes infinitely many of these, and checks are enough at the head of each loop or at every
// branch to the head, and at the entry of functions with calls.
//
// Go's compiler turns each function into one loop. Its head switches over an index, and every jump,
// also a forward one, sets the index and branches to the head. Only the jumps to an earlier place
// need a check.

// placeChecks marks the segments in need of a check. It runs after the last step.
func (w *flow) placeChecks() {
	jumps := make(map[int]bool, len(w.backs)) // headers with only plain branches back
	for _, b := range w.backs {
		if w.instrs[b.at].Op != OpBr || !w.switches(b.header) {
			w.segments[b.header].check = true
		} else {
			jumps[b.header] = true
		}
	}
	for _, b := range w.backs {
		if h := &w.segments[b.header]; !h.check && jumps[b.header] && !w.forward(b) {
			w.segments[b.segment].check = true
		}
	}
	w.segments[0].check = w.calls && !w.checkedNext()
}

// checkedNext reports whether the first segment leads only to a check, and does nothing before that
// in need of a check.
func (w *flow) checkedNext() bool {
	if w.early || len(w.segments) < 2 {
		return false
	}
	next := w.segments[1]
	return next.header && next.check && w.root(w.segments[0].out) == w.root(next.in)
}

// switches reports whether a header does nothing but a br_table on a local.
func (w *flow) switches(header int) bool {
	s := &w.segments[header]
	if s.table == 0 || w.instrs[s.table-1].Op != OpLocalGet {
		return false
	}
	for _, in := range w.instrs[s.start : s.table-1] {
		if in.Op != OpBlock {
			return false
		}
	}
	return true
}

// forward reports whether a jump by way of a switching header ends at a later place:
// the jump sets the index to a constant just before, and the target is the end of a
// later block.
func (w *flow) forward(b back) bool {
	table := w.segments[b.header].table
	if b.at < 2 {
		return false
	}
	value, set := &w.instrs[b.at-2], &w.instrs[b.at-1]
	if value.Op != OpI32Const || set.Op != OpLocalSet || set.Index != w.instrs[table-1].Index {
		return false
	}
	targets := w.tables[table]
	i := min(uint64(uint32(value.Value)), uint64(len(targets)-1))
	return w.ends[targets[i]] > b.at
}

// Where fuel is charged.
//
// A body is divided into segments: sequences of instructions that are entered only at the start and
// left only at the end (basic blocks). Charging each segment at its start is correct, but charges
// more often than needed. If code continues after a rarely taken branch, both parts can be charged
// together, and the taken branch refunds the skipped part.
//
// In general, let p(e) be the amount charged in advance on an edge e between segments, and k(s) the
// charge at the start of segment s with cost c(s). Then k(s) = c(s) + p(out of s) - p(into s) makes
// every complete run pay the sum of all costs, for any p that is 0 at the entry and exits of the
// function and equal for all edges out of a segment and for all edges into a segment. So edges form
// classes with a common p. If p of a class is c + p(out) of a segment in the class, k of this
// segment is 0: nothing is charged there.
//
// p is never negative: nothing runs before the charge. The length of the function bounds p: each
// class has the p of a segment with a later continuation, or 0.

// charge is a change of the counter, or a check, to insert before the instruction with
// index at.
type charge struct {
	at    int
	cost  int64 // may be negative
	check bool
}

type segment struct {
	start int
	cost  int64
	in    int // class of the incoming edges
	out   int // class of the outgoing edges
	// header reports a segment at the start of the body of a loop.
	header bool
	// table is the index of the br_table at the segment's end, or 0.
	table int
	// check reports a check of fuel at the segment's start.
	check bool
}

// level says how the p of a class is chosen.
type level byte

const (
	free   level = iota
	looped       // leads to a loop header
	fixed        // 0
)

// flow walks the instructions of a body.
type flow struct {
	instrs   []Instr
	segments []segment
	// Classes of edges as a disjoint-set forest.
	parent []int
	level  []level // of roots
	exit   int     // the class of edges out of the function
	cur    int     // the current segment, or dead
	blocks []open
	// ends has the index of the end of each block, by open.id; 0 for a loop.
	ends []int
	// tables are the targets of each br_table, as open.id, by the index of the br_table.
	tables map[int][]int
	backs  []back
	calls  bool // the body has calls
	// early reports a first segment with an instruction in need of a check: a call, or a charge by
	// length.
	early bool
}

const (
	dead = -1 // unreachable code
	none = -1 // no class
)

// back is a branch to the start of a loop.
type back struct {
	at      int // the instruction
	segment int // the enclosing segment
	header  int // the target segment
}

// open is a block not ended yet.
type open struct {
	op Op
	id int // in flow.ends
	// header is the first segment of a loop.
	header int
	// label is the class of edges of branches to the label; none without branches so far. A loop
	// has a label class from the start.
	label int
	// other is the class of the edge around the first arm of an if; none for an unreachable if, or
	// an if with else.
	other int
}

// charges returns the charges for a body, in order.
func (w *flow) charges(instrs []Instr) []charge {
	w.instrs = instrs
	w.segments, w.parent, w.level = w.segments[:0], w.parent[:0], w.level[:0]
	w.blocks, w.calls, w.early = w.blocks[:0], false, false
	w.ends, w.backs, w.tables = w.ends[:0], w.backs[:0], map[int][]int{}
	w.exit = w.class(fixed)
	w.open(OpBlock, w.exit, none)
	w.begin(0, w.class(fixed))
	for i := range instrs {
		w.step(i)
	}
	return w.solve()
}

func (w *flow) class(l level) int {
	w.parent = append(w.parent, len(w.parent))
	w.level = append(w.level, l)
	return len(w.parent) - 1
}

func (w *flow) root(c int) int {
	for w.parent[c] != c {
		w.parent[c] = w.parent[w.parent[c]]
		c = w.parent[c]
	}
	return c
}

// join merges two classes and returns the result; none is neutral.
func (w *flow) join(a, b int) int {
	if a == none {
		return b
	}
	if b == none {
		return a
	}
	a, b = w.root(a), w.root(b)
	if a == b {
		return a
	}
	w.parent[b] = a
	if w.level[a] == looped && w.level[b] == looped {
		w.level[a] = fixed // two headers: no p suits both
	}
	w.level[a] = max(w.level[a], w.level[b])
	return a
}

func (w *flow) begin(at, in int) {
	w.segments = append(w.segments, segment{start: at, in: in, out: none})
	w.cur = len(w.segments) - 1
}

// end closes the current segment. The outgoing edges are of class out.
func (w *flow) end(out int) {
	w.segments[w.cur].out = out
	w.cur = dead
}

func (w *flow) open(op Op, label, other int) *open {
	w.blocks = append(w.blocks, open{op: op, id: len(w.ends), label: label, other: other})
	w.ends = append(w.ends, 0)
	return &w.blocks[len(w.blocks)-1]
}

// branch adds a label to the targets of instruction i and returns the class of the outgoing edges,
// joined with the label's class.
func (w *flow) branch(i, out int, label uint32) int {
	b := &w.blocks[len(w.blocks)-1-int(label)]
	if b.op == OpLoop {
		w.backs = append(w.backs, back{i, w.cur, b.header})
	}
	b.label = w.join(b.label, out)
	return b.label
}

// step processes instruction i.
func (w *flow) step(i int) {
	in := &w.instrs[i]
	switch in.Op {
	case OpElse:
		w.otherwise(i)
		return
	case OpEnd:
		w.close(i)
		return
	}
	if w.cur == dead {
		switch in.Op {
		case OpBlock, OpLoop, OpIf:
			w.open(in.Op, none, none)
		}
		return
	}
	s := &w.segments[w.cur]
	s.cost += in.Op.Cost()
	if cost, ok := constantCost(w.instrs, i); ok {
		s.cost += cost
	} else if in.Op.byLength() != noLength {
		w.early = w.early || w.cur == 0
	}
	w.control(i)
}

// control processes a reachable instruction that may end the segment.
func (w *flow) control(i int) {
	in := &w.instrs[i]
	switch in.Op {
	case OpCall, OpCallIndirect:
		w.calls = true
		w.early = w.early || w.cur == 0
	case OpBlock:
		w.open(in.Op, none, none)
	case OpLoop:
		c := w.class(looped)
		w.end(c)
		w.begin(i+1, c)
		w.open(in.Op, c, none).header = w.cur
		w.segments[w.cur].header = true
	case OpIf:
		c := w.class(free)
		w.end(c)
		w.open(in.Op, none, c)
		w.begin(i+1, c)
	case OpBr:
		w.end(w.branch(i, w.class(free), in.Index))
	case OpBrIf:
		c := w.branch(i, w.class(free), in.Index)
		w.end(c)
		w.begin(i+1, c)
	case OpBrTable:
		// Nothing is charged in advance on edges with many targets.
		c := w.class(fixed)
		var targets []int
		for _, l := range in.Labels {
			c = w.branch(i, c, l)
			targets = append(targets, w.blocks[len(w.blocks)-1-int(l)].id)
		}
		w.tables[i] = targets
		w.segments[w.cur].table = i
		w.end(c)
	case OpReturn:
		w.end(w.exit)
	case OpUnreachable:
		w.end(w.class(fixed))
	}
}

// otherwise processes an else.
func (w *flow) otherwise(i int) {
	b := &w.blocks[len(w.blocks)-1]
	if w.cur != dead {
		if b.label == none {
			b.label = w.class(free)
		}
		w.end(b.label)
	}
	if b.other != none {
		w.begin(i+1, b.other)
		b.other = none
	}
}

// close processes an end. A segment starts only if a branch, or both arms of an if, lead to the
// end.
func (w *flow) close(i int) {
	b := w.blocks[len(w.blocks)-1]
	w.blocks = w.blocks[:len(w.blocks)-1]
	if b.op != OpLoop {
		w.ends[b.id] = i
	}
	switch {
	case len(w.blocks) == 0: // the function
		if w.cur != dead {
			w.end(w.exit)
		}
		return
	case b.op == OpLoop:
		return
	case b.op == OpIf:
		b.label = w.join(b.label, b.other)
	}
	if b.label == none {
		return
	}
	if w.cur != dead {
		b.label = w.join(b.label, w.class(free))
		w.end(b.label)
	}
	w.begin(i+1, b.label)
}

// solve chooses p for every class and returns the remaining charges.
func (w *flow) solve() []charge {
	p := make([]int64, len(w.parent))
	known := make([]bool, len(w.parent))
	members := make([][]int, len(w.parent)) // segments by class of in
	for c := range w.parent {
		known[c] = w.root(c) == c && w.level[c] != free
	}
	for i, s := range w.segments {
		c := w.root(s.in)
		members[c] = append(members[c], i)
		// A header with only a switch is charged at the branches to the header, so only the check
		// remains in the header.
		if out := w.root(s.out); s.header && s.table > 0 && w.level[c] == looped && out != c {
			p[c] = s.cost
		}
	}
	need := func(i int) (int64, bool) {
		out := w.root(w.segments[i].out)
		return w.segments[i].cost + p[out], known[out]
	}
	// All edges out of a segment lead to a later one or to a known class, so from
	// the last segment to the first everything needed is known.
	for i := len(w.segments) - 1; i >= 0; i-- {
		if c := w.root(w.segments[i].in); !known[c] {
			p[c] = commonNeed(members[c], need)
			known[c] = true
		}
	}
	w.placeChecks()
	var list []charge
	for i, s := range w.segments {
		n, _ := need(i)
		k := charge{at: s.start, cost: n - p[w.root(s.in)], check: s.check}
		if k.cost != 0 || k.check {
			list = append(list, k)
		}
	}
	return list
}

// commonNeed returns the most common known need of segments. Of several, it prefers the need of the
// last segment, to which code falls through.
func commonNeed(members []int, need func(int) (int64, bool)) int64 {
	count := map[int64]int{}
	best := int64(0)
	for j := len(members) - 1; j >= 0; j-- {
		n, ok := need(members[j])
		if !ok {
			continue
		}
		count[n]++
		if j == len(members)-1 || count[n] > count[best] {
			best = n
		}
	}
	return best
}
