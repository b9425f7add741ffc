package rewrite

// Structure gives functions of Go's compiler structured control flow, so a jump is a branch to the
// target instead of a way through the switch at the start of the function (structure.go). Engines
// compile structured code to much faster code, because they see which value reaches which use.
//
// The switch is only needed to resume a function in the middle, after the native stack was unwound
// to grow the Go stack or to run another goroutine. A function that can be resumed, which is a
// function with calls, therefore keeps the old form, and gets a second form that can only run from
// the start: PC_B is 0. All calls from the start call the second form; the old form does, too, when
// called from the start. Both forms leave the same bytes in memory, so either form can be resumed.
// A function without calls is replaced.
//
// Calls through a table call the second forms if they always start the function: such calls use a
// copy of the table.
//
// Functions in any other form are unchanged, and so are functions with loops with several entries,
// if making these loops regular would take too many copies of instructions.
//
// If hot is not nil, only functions with a name accepted by hot are converted: the second forms
// make a module twice as large, and pay only where scripts spend their time.
func Structure(hot func(name string) bool) Pass {
	return Pass{"structure", func(m *Module) error { return structure(m, hot) }}
}

func structure(m *Module, hot func(name string) bool) error {
	s := structurer{m: m, first: m.imported(KindFunc), fast: map[uint32]uint32{}}
	if err := s.convert(hot); err != nil {
		return err
	}
	if len(s.fast) == 0 {
		return nil
	}
	s.copyTable()
	m.dropDebug()
	return s.redirect()
}

// structurer converts a module.
type structurer struct {
	m     *Module
	first uint32 // index of the first function of the module itself
	// fast has the index of the second forms, by function.
	fast map[uint32]uint32
	// table is the number of the table with the second forms; 0: none.
	table uint32
}

// resumable is the type of all functions in the form of Go's compiler.
var resumable = FuncType{[]ValType{I32}, []ValType{I32}}

// convert adds the second forms, or replaces functions.
func (s *structurer) convert(hot func(name string) bool) error {
	names, err := s.m.FunctionNames()
	if err != nil {
		return err
	}
	var instrs []Instr
	for i := range s.m.Funcs {
		f := &s.m.Funcs[i]
		if !s.m.Types[f.Type].equal(resumable) || hot != nil && !hot(names[s.first+uint32(i)]) {
			continue
		}
		if instrs, err = f.Decode(instrs[:0]); err != nil {
			return err
		}
		shape := shapeOf(instrs)
		if shape == nil {
			continue
		}
		body := shape.structured(f.Body)
		switch {
		case body == nil:
		case !calls(instrs):
			f.Body = body
		default:
			s.fast[s.first+uint32(i)] = s.first + uint32(len(s.m.Funcs))
			s.m.Funcs = append(s.m.Funcs, Func{Type: f.Type, Locals: f.Locals, Body: body})
		}
	}
	return nil
}

// calls reports whether instrs has calls.
func calls(instrs []Instr) bool {
	for i := range instrs {
		if instrs[i].Op == OpCall || instrs[i].Op == OpCallIndirect {
			return true
		}
	}
	return false
}

// copyTable adds a copy of the first table with the second forms, if the contents of
// the table are known.
func (s *structurer) copyTable() {
	m := s.m
	if len(m.Tables) == 0 {
		return
	}
	if _, err := m.tableContents(); err != nil || m.changesTables() {
		return
	}
	s.table = uint32(len(m.Tables))
	m.Tables = append(m.Tables, m.Tables[0])
	for _, e := range m.Elems[:len(m.Elems):len(m.Elems)] {
		if e.Mode != Active || e.Table != 0 {
			continue
		}
		e.Table = s.table
		e.Init = append([]Instr(nil), e.Init...)
		for i := range e.Init {
			if fast, ok := s.fast[e.Init[i].Index]; ok && e.Init[i].Op == OpRefFunc {
				e.Init[i].Index = fast
			}
		}
		m.Elems = append(m.Elems, e)
	}
}

// changesTables reports whether an instruction can change a table.
func (m *Module) changesTables() bool {
	found := false
	// Bodies were decoded before, so no error is possible.
	_ = m.replace(func(in *Instr) bool {
		switch in.Op {
		case OpTableSet, OpTableInit, OpTableCopy, OpTableGrow, OpTableFill:
			found = true
		}
		return false
	})
	return found
}

// redirect redirects calls from the start of a function to the second form.
func (s *structurer) redirect() error {
	var instrs []Instr
	for i := range s.m.Funcs {
		f := &s.m.Funcs[i]
		var err error
		if instrs, err = f.Decode(instrs[:0]); err != nil {
			return err
		}
		e := editor{old: f.Body}
		if fast, ok := s.fast[s.first+uint32(i)]; ok {
			e.keep(0)
			e.out = appendAll(e.out, Instr{Op: OpLocalGet, Index: pcB}, Instr{Op: OpI32Eqz}, Instr{Op: OpIf, Value: noResult},
				Instr{Op: OpI32Const}, Instr{Op: OpCall, Index: fast}, Instr{Op: OpReturn}, Instr{Op: OpEnd})
		}
		for j := range instrs {
			if changed, ok := s.started(instrs, j); ok {
				e.keep(instrs[j].At)
				e.out = changed.Append(e.out)
				e.skip(after(instrs, j, f.Body))
			}
		}
		f.Body = e.finish()
	}
	return nil
}

// started returns the call to replace instrs[i] with, if the instruction starts a function with a
// second form.
func (s *structurer) started(instrs []Instr, i int) (call Instr, ok bool) {
	call = instrs[i]
	switch {
	case call.Op == OpCall && i > 0 && instrs[i-1].Op == OpI32Const && instrs[i-1].Value == 0:
		call.Index, ok = s.fast[call.Index]
	case call.Op == OpCallIndirect && call.Index2 == 0 && s.table > 0 && i >= 3 && isIndirectArgument(instrs[i-3:i]):
		call.Index2, ok = s.table, s.m.Types[call.Index].equal(resumable)
	}
	return call, ok
}

// Functions as Go's compiler writes them.
//
// WebAssembly has no goto. So Go's compiler makes each function with jumps, or with calls that can
// be resumed, a loop over a switch:
//
//	(param i32)                 ;; PC_B: the index of the first segment
//	prefix                      ;; copies the stack pointer
//	block                       ;; U: left to unwind the native stack
//	  loop                      ;; L: jumps come back here
//	    block ... block         ;; one for each segment
//	      local.get 0  br_table
//	    end  segment 0
//	    end  segment 1
//	    ...
//	  end
//	  unreachable
//	end
//	i32.const 1
//	end
//
// A jump sets PC_B and branches to L: i32.const, local.set 0, br. After each call comes br_if U,
// because the callee returns 1 if it wants the native stack to be unwound. Functions without such
// calls have no U, and functions without jumps no L.

// shape is a function in the form above.
type shape struct {
	instrs []Instr
	prefix int // number of instructions before the first block
	unwind bool
	// segments are ranges of instructions, without the ends between them.
	segments []instrRange
	// jumps has the jumps by the index of their i32.const, and exits the branches to
	// U by their index.
	jumps map[int]jump
	exits map[int]int // number of the segment's own blocks around the branch
}

type instrRange struct{ from, to int }

// jump is a jump to the start of a segment.
type jump struct {
	to    int // segment
	depth int // number of the segment's own blocks around the instruction
}

// jumpLength is the number of instructions of a jump.
const jumpLength = 3

// pcB is the local with the index of the next segment.
const pcB = 0

// shapeOf returns the shape of a body; nil for a body in another form, or with another use of PC_B
// than in the form.
func shapeOf(instrs []Instr) *shape {
	s := &shape{instrs: instrs, jumps: map[int]jump{}, exits: map[int]int{}}
	for s.prefix < len(instrs) && isPrefix(instrs[s.prefix].Op) {
		s.prefix++
	}
	at := s.prefix
	loop, opened := -1, 0
	for ; at < len(instrs) && (instrs[at].Op == OpBlock || instrs[at].Op == OpLoop); at++ {
		if instrs[at].Value != noResult {
			return nil
		}
		if instrs[at].Op == OpLoop {
			if loop >= 0 {
				return nil
			}
			loop = opened
		}
		opened++
	}
	if at+2 >= len(instrs) || instrs[at].Op != OpLocalGet || instrs[at].Index != pcB || instrs[at+1].Op != OpBrTable || instrs[at+2].Op != OpEnd {
		return nil
	}
	table := instrs[at+1].Labels
	count := 1
	for _, label := range table {
		count = max(count, int(label)+1)
	}
	switch outer := opened - count; {
	case outer == 2 && loop == 1, outer == 1 && loop < 0:
		s.unwind = true
	case outer == 1 && loop == 0, outer == 0 && loop < 0:
	default:
		return nil
	}
	rest := s.cut(at+3, count)
	if rest < 0 || table[0] != 0 || !s.endsAt(rest, loop >= 0) || !s.branches(table, loop >= 0) {
		return nil
	}
	return s
}

func isPrefix(op Op) bool {
	return op == OpGlobalGet || op == OpGlobalSet || op == OpLocalGet || op == OpLocalSet
}

// cut finds count segments, the first beginning at instruction from. It returns the index after the
// end of the last segment; negative for fewer segments.
func (s *shape) cut(from, count int) int {
	depth := 0
	for i := from; i < len(s.instrs); i++ {
		switch s.instrs[i].Op {
		case OpBlock, OpLoop, OpIf:
			depth++
		case OpEnd:
			if depth > 0 {
				depth--
				continue
			}
			s.segments = append(s.segments, instrRange{from, i})
			if from = i + 1; len(s.segments) == count {
				return from
			}
		}
	}
	return -1
}

// endsAt reports whether the instructions from index at on are the end of the form. Without a loop,
// the end of the last segment is the end of U, or of the function.
func (s *shape) endsAt(at int, loop bool) bool {
	var want []Op
	if loop {
		want = append(want, OpUnreachable, OpEnd)
	}
	if s.unwind {
		want = append(want, OpI32Const, OpEnd)
	}
	rest := s.instrs[at:]
	if len(rest) != len(want) {
		return false
	}
	for i, op := range want {
		if rest[i].Op != op {
			return false
		}
	}
	return !s.unwind || rest[len(rest)-2].Value == 1
}

// branches finds the jumps and exits of all segments, and checks the absence of other branches out
// of the segments and other uses of PC_B.
func (s *shape) branches(table []uint32, loop bool) bool {
	for n, r := range s.segments {
		// The nesting of a branch to a label of the form in this segment: the blocks of the later
		// segments, L and U.
		later := len(s.segments) - 1 - n
		depth := 0
		for i := r.from; i < r.to; i++ {
			in := &s.instrs[i]
			switch in.Op {
			case OpBlock, OpLoop, OpIf:
				depth++
			case OpEnd:
				depth--
			case OpBr, OpBrIf:
				label := int(in.Index) - depth
				switch {
				case label < 0: // a block of the segment
				case loop && label == later:
					to, ok := s.jumpTarget(i, r, table)
					if !ok {
						return false
					}
					s.jumps[i-jumpLength+1] = jump{to, depth}
				case s.unwind && (loop && label == later+1 || !loop && label == later):
					s.exits[i] = depth
				default:
					return false
				}
			case OpBrTable:
				return false
			case OpLocalTee:
				if in.Index == pcB {
					return false
				}
			case OpLocalGet:
				if in.Index == pcB && !s.isScratch(i, r) {
					return false
				}
			}
		}
	}
	return true
}

// jumpTarget returns the segment to which the branch to L at index i jumps.
func (s *shape) jumpTarget(i int, r instrRange, table []uint32) (segment int, ok bool) {
	if s.instrs[i].Op != OpBr || i-jumpLength+1 < r.from {
		return 0, false
	}
	value, set := &s.instrs[i-2], &s.instrs[i-1]
	if value.Op != OpI32Const || set.Op != OpLocalSet || set.Index != pcB {
		return 0, false
	}
	n := min(uint64(uint32(value.Value)), uint64(len(table)-1))
	return int(table[n]), true
}

// isScratch reports whether the local.get of PC_B at index i reads the value set just before.
// Indirect calls do this to put PC_B, 0, below the index of the callee.
func (s *shape) isScratch(i int, r instrRange) bool {
	return i-2 >= r.from && isIndirectArgument(s.instrs[i-2:i+1])
}

// isIndirectArgument reports whether three instructions are the ones before an indirect call of a
// function from its start.
func isIndirectArgument(in []Instr) bool {
	return in[0].Op == OpLocalSet && in[0].Index == pcB && in[1].Op == OpI32Const && in[1].Value == 0 &&
		in[2].Op == OpLocalGet && in[2].Index == pcB
}
