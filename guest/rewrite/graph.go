package rewrite

import "slices"

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
