package rewrite

// Structure gives functions of Go's compiler structured control flow, so a jump is a branch to the
// target instead of a way through the switch at the start of the function (shape.go). Engines
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
