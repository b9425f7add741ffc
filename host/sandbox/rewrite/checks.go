package rewrite

// Where fuel is checked.
//
// Instructions run from the first to the last but for branches to the head of
// a loop, and calls. So a run without end takes infinitely many of these, and it
// is enough to check there: at the head of each loop, or at every branch to it,
// and where a function that calls others is entered.
//
// Go's compiler makes one loop of each function: its head looks up in a table
// where to go on, and every jump, forward ones too, sets the index and branches
// to it. Of those only the jumps that come out at an earlier place need a check.

// placeChecks marks the segments to check in. It comes after the last step.
func (w *flow) placeChecks() {
	jumps := make(map[int]bool, len(w.backs)) // headers that all know where they come from
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

// checkedNext says whether the first segment leads to a check and nowhere else,
// and does nothing before that should wait for it.
func (w *flow) checkedNext() bool {
	if w.early || len(w.segments) < 2 {
		return false
	}
	next := w.segments[1]
	return next.header && next.check && w.root(w.segments[0].out) == w.root(next.in)
}

// switches says whether a header does nothing but branch by a table, on a
// local.
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

// forward says whether a jump to a header that switches comes out further down
// than it is: it sets the index to a constant right before, and the target is
// the end of a block behind it.
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
