package rewrite

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
