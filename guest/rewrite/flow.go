package rewrite

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
