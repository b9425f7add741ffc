package rewrite

import (
	"slices"
)

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

// graph is the control flow of a function. Node 0 is the entry. Nodes are basic blocks:
// entered at the start only, perhaps left in the middle.
type graph struct {
	// succ has the successors of each node, without repetition.
	succ [][]int
	// to has the successor of each node by the original successor, which differs after nodes were
	// copied.
	to []map[int]int
	// origin is the original of a copied node, and the node itself for other nodes.
	origin []int
	size   []int // number of instructions
}

func (g *graph) add(origin, size int) int {
	g.succ, g.to = append(g.succ, nil), append(g.to, map[int]int{})
	g.origin, g.size = append(g.origin, origin), append(g.size, size)
	return len(g.succ) - 1
}

// connect adds an edge, named by the original node to which the edge led.
func (g *graph) connect(from, original, to int) {
	g.to[from][original] = to
	if !slices.Contains(g.succ[from], to) {
		g.succ[from] = append(g.succ[from], to)
	}
}

// order is an order of the reachable nodes, with derived data.
type order struct {
	nodes  []int // in reverse postorder
	number []int // of each node in nodes; -1: cannot be reached
	idom   []int // immediate dominator
	// loops has the nodes to which an edge leads back.
	loops []bool
	// irreducible reports an edge back to a node that does not dominate the edge's source: into the
	// middle of a loop.
	irreducible bool
}

func (g *graph) order() *order {
	n := len(g.succ)
	o := &order{number: make([]int, n), idom: make([]int, n), loops: make([]bool, n)}
	type visit struct{ node, next int }
	seen := make([]bool, n)
	seen[0] = true
	for stack := []visit{{0, 0}}; len(stack) > 0; {
		v := &stack[len(stack)-1]
		if v.next == len(g.succ[v.node]) {
			o.nodes = append(o.nodes, v.node)
			stack = stack[:len(stack)-1]
			continue
		}
		s := g.succ[v.node][v.next]
		v.next++
		if !seen[s] {
			seen[s] = true
			stack = append(stack, visit{s, 0})
		}
	}
	slices.Reverse(o.nodes)
	for i := range o.number {
		o.number[i], o.idom[i] = -1, -1
	}
	for i, x := range o.nodes {
		o.number[x] = i
	}
	o.dominate(g)
	for _, x := range o.nodes {
		for _, y := range g.succ[x] {
			if o.number[y] <= o.number[x] {
				o.loops[y] = true
				o.irreducible = o.irreducible || !o.dominates(y, x)
			}
		}
	}
	return o
}

// dominate computes the immediate dominators, by the algorithm of Cooper, Harvey and
// Kennedy ("A Simple, Fast Dominance Algorithm").
func (o *order) dominate(g *graph) {
	pred := make([][]int, len(g.succ))
	for _, x := range o.nodes {
		for _, y := range g.succ[x] {
			pred[y] = append(pred[y], x)
		}
	}
	o.idom[0] = 0
	for changed := true; changed; {
		changed = false
		for _, x := range o.nodes[1:] {
			next := -1
			for _, p := range pred[x] {
				switch {
				case o.idom[p] < 0:
				case next < 0:
					next = p
				default:
					next = o.common(p, next)
				}
			}
			if o.idom[x] != next {
				o.idom[x] = next
				changed = true
			}
		}
	}
}

// common returns the closest common dominator of two nodes.
func (o *order) common(a, b int) int {
	for a != b {
		for o.number[a] > o.number[b] {
			a = o.idom[a]
		}
		for o.number[b] > o.number[a] {
			b = o.idom[b]
		}
	}
	return a
}

func (o *order) dominates(a, b int) bool {
	for o.number[b] > o.number[a] {
		b = o.idom[b]
	}
	return a == b
}

// children returns the immediately dominated nodes of each node, in order.
func (o *order) children() [][]int {
	list := make([][]int, len(o.idom))
	for _, x := range o.nodes[1:] {
		list[o.idom[x]] = append(list[o.idom[x]], x)
	}
	return list
}

// reduce copies nodes until every loop has a single entry, and returns the resulting order, or nil
// if the copies take more than budget instructions.
func (g *graph) reduce(budget int) *order {
	for {
		o := g.order()
		if !o.irreducible {
			return o
		}
		region, preds := g.limit(o).cheapest(g)
		cost := 0
		for _, x := range region {
			cost += g.size[x] + 1
		}
		if cost *= len(preds) - 1; cost > budget {
			return nil
		}
		budget -= cost
		for _, sources := range preds[1:] {
			g.split(region, sources)
		}
	}
}

// limitGraph is a graph in which each node with a single predecessor was merged into the
// predecessor, as often as possible. If several nodes are left, all but the first have several
// predecessors, and together they are the irreducible part.
type limitGraph struct {
	members    map[int][]int // by the remaining node
	succ, pred map[int]map[int]bool
}

func (g *graph) limit(o *order) limitGraph {
	l := limitGraph{map[int][]int{}, map[int]map[int]bool{}, map[int]map[int]bool{}}
	for _, x := range o.nodes {
		l.members[x], l.succ[x], l.pred[x] = []int{x}, map[int]bool{}, map[int]bool{}
	}
	for _, x := range o.nodes {
		for _, y := range g.succ[x] {
			if x != y {
				l.succ[x][y], l.pred[y][x] = true, true
			}
		}
	}
	for work := slices.Clone(o.nodes); len(work) > 0; {
		x := work[len(work)-1]
		work = work[:len(work)-1]
		if l.members[x] == nil || x == 0 || len(l.pred[x]) != 1 {
			continue
		}
		p := only(l.pred[x])
		l.members[p] = append(l.members[p], l.members[x]...)
		delete(l.succ[p], x)
		for y := range l.succ[x] {
			delete(l.pred[y], x)
			if y != p {
				l.succ[p][y], l.pred[y][p] = true, true
				work = append(work, y)
			}
		}
		delete(l.members, x)
		work = append(work, p)
	}
	return l
}

func only(set map[int]bool) int {
	for x := range set {
		return x
	}
	panic("rewrite: an empty set")
}

// cheapest returns the members of the node with the fewest instructions to copy, head first, and
// for each predecessor its member nodes.
func (l limitGraph) cheapest(g *graph) (region []int, preds [][]int) {
	best, least := -1, 0
	for _, x := range sortedKeys(l.members) {
		if x == 0 {
			continue
		}
		cost := 0
		for _, y := range l.members[x] {
			cost += g.size[y] + 1
		}
		if cost *= len(l.pred[x]) - 1; best < 0 || cost < least {
			best, least = x, cost
		}
	}
	for _, p := range sortedKeys(l.pred[best]) {
		preds = append(preds, l.members[p])
	}
	return l.members[best], preds
}

func sortedKeys[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// split copies a region and makes the edges from sources to its head lead to the copy.
func (g *graph) split(region, sources []int) {
	copies := map[int]int{}
	for _, x := range region {
		copies[x] = g.add(g.origin[x], g.size[x])
	}
	for _, x := range region {
		for _, original := range sortedKeys(g.to[x]) {
			y := g.to[x][original]
			if c, ok := copies[y]; ok {
				y = c
			}
			g.connect(copies[x], original, y)
		}
	}
	head := region[0]
	for _, x := range sources {
		for original, y := range g.to[x] {
			if y == head {
				g.to[x][original] = copies[head]
			}
		}
		for i, y := range g.succ[x] {
			if y == head {
				g.succ[x][i] = copies[head]
			}
		}
	}
}
