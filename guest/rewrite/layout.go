package rewrite

// From jumps to blocks. The method is from Ramsey, "Beyond Relooper" (2022): the code follows the
// tree of dominators. The code of a node comes first, then the code of the immediately dominated
// nodes, in reverse postorder, each after the end of a block around all earlier code; a jump to the
// node leaves the block. A node with jumps back is the start of a loop around all dominated nodes.

// layout writes a function with structured control flow.
type layout struct {
	*shape
	body  []byte // the old body
	out   []byte
	graph graph
	order *order
	// blocks has the segments of each original node, and nodes the original node of
	// each segment.
	blocks [][]int
	nodes  []int
	kids   [][]int
	// labels has the open blocks, the innermost last.
	labels []label
}

// label says where a branch to a block leads: to the start of a node.
type label struct {
	node int
	loop bool // the start of a loop
}

// unwinding is the node of the label for unwinding.
const unwinding = -1

// maxCopies is how many instructions may be copied to make loops regular, as a multiple of the
// existing instructions.
const maxCopies = 2

// structured returns the body with structured control flow, to be entered with PC_B 0 only. It
// returns nil if the result would become too large.
func (s *shape) structured(body []byte) []byte {
	w := layout{shape: s, body: body}
	w.connect()
	if w.order = w.graph.reduce(maxCopies*len(s.instrs) + 200); w.order == nil {
		return nil
	}
	w.kids = w.order.children()
	w.out = make([]byte, 0, len(body))
	w.copy(0, s.prefix)
	if s.unwind {
		w.open(OpBlock, label{node: unwinding})
	}
	w.node(0)
	w.emit(Instr{Op: OpUnreachable})
	if s.unwind {
		w.emit(Instr{Op: OpEnd}, Instr{Op: OpI32Const, Value: 1})
	}
	w.emit(Instr{Op: OpEnd})
	return w.out
}

// connect makes the graph. A segment without incoming jumps belongs to the node of the segment
// before.
func (w *layout) connect() {
	target := make([]bool, len(w.segments))
	target[0] = true
	for _, j := range w.jumps {
		target[j.to] = true
	}
	w.nodes = make([]int, len(w.segments))
	for n, r := range w.segments {
		if target[n] {
			w.blocks = append(w.blocks, nil)
			w.graph.add(len(w.blocks)-1, 0)
		}
		last := len(w.blocks) - 1
		w.nodes[n] = last
		w.blocks[last] = append(w.blocks[last], n)
		w.graph.size[last] += r.to - r.from
	}
	for x := range w.blocks {
		falls := w.each(x, func(i int) {
			if j, ok := w.jumps[i]; ok {
				y := w.nodes[j.to]
				w.graph.connect(x, y, y)
			}
		})
		if falls && x+1 < len(w.blocks) { // last, to come next in the order
			w.graph.connect(x, x+1, x+1)
		}
	}
}

// each calls do with the index of each instruction of a reachable original node, and reports
// whether execution can continue after the node.
func (w *layout) each(x int, do func(i int)) (falls bool) {
	for _, n := range w.blocks[x] {
		r, depth := w.segments[n], 0
		for i := r.from; i < r.to; i++ {
			do(i)
			switch w.instrs[i].Op {
			case OpBlock, OpLoop, OpIf:
				depth++
			case OpEnd:
				depth--
			case OpBr, OpReturn, OpUnreachable:
				if depth == 0 {
					return false
				}
			}
		}
	}
	return true
}

// node writes a node and all dominated nodes.
func (w *layout) node(x int) {
	if w.order.loops[x] {
		w.open(OpLoop, label{x, true})
	}
	kids := w.kids[x]
	for i := len(kids) - 1; i >= 0; i-- {
		w.open(OpBlock, label{kids[i], false})
	}
	w.code(x)
	for _, y := range kids {
		w.close()
		w.node(y)
	}
	if w.order.loops[x] {
		w.close()
	}
}

// code writes the instructions of a node.
func (w *layout) code(x int) {
	origin := w.graph.origin[x]
	skip := 0 // instructions already written
	falls := w.each(origin, func(i int) {
		exit, isExit := w.exits[i]
		j, isJump := w.jumps[i]
		switch {
		case skip > 0:
			skip--
		case w.isConditional(i):
			j = w.jumps[i+1]
			w.branch(OpBrIf, x, w.graph.to[x][w.nodes[j.to]], j.depth-1)
			skip = jumpLength + 1
		case isJump:
			w.branch(OpBr, x, w.graph.to[x][w.nodes[j.to]], j.depth)
			skip = jumpLength - 1
		case isExit:
			w.emit(Instr{Op: w.instrs[i].Op, Index: w.depth(label{node: unwinding}) + uint32(exit)})
		default:
			w.copy(i, i+1)
		}
	})
	if !falls {
		return
	}
	if origin+1 == len(w.blocks) {
		w.emit(Instr{Op: OpUnreachable})
		return
	}
	next := w.graph.to[x][origin+1]
	if kids := w.kids[x]; len(kids) > 0 && kids[0] == next {
		return // the target follows
	}
	w.branch(OpBr, x, next, 0)
}

// isConditional reports whether instruction i is an if with only a jump inside.
func (w *layout) isConditional(i int) bool {
	if w.instrs[i].Op != OpIf || w.instrs[i].Value != noResult || i+1+jumpLength >= len(w.instrs) || w.instrs[i+1+jumpLength].Op != OpEnd {
		return false
	}
	_, ok := w.jumps[i+1]
	return ok
}

// branch writes a branch from node x to node y out of inner blocks of the node.
func (w *layout) branch(op Op, x, y, inner int) {
	to := label{y, w.order.number[y] <= w.order.number[x]}
	w.emit(Instr{Op: op, Index: w.depth(to) + uint32(inner)})
}

// depth returns the number of open blocks inside the block with a label.
func (w *layout) depth(l label) uint32 {
	for i := len(w.labels) - 1; i >= 0; i-- {
		if w.labels[i] == l {
			return uint32(len(w.labels) - 1 - i)
		}
	}
	panic("rewrite: a branch out of the tree of dominators")
}

func (w *layout) open(op Op, l label) {
	w.emit(Instr{Op: op, Value: noResult})
	w.labels = append(w.labels, l)
}

func (w *layout) close() {
	w.emit(Instr{Op: OpEnd})
	w.labels = w.labels[:len(w.labels)-1]
}

func (w *layout) emit(list ...Instr) { w.out = appendAll(w.out, list...) }

// copy copies instructions as bytes.
func (w *layout) copy(from, to int) {
	if from < to {
		w.out = append(w.out, w.body[w.instrs[from].At:after(w.instrs, to-1, w.body)]...)
	}
}
