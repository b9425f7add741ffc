package rewrite

import "strings"

// importFunc adds an imported function, increments all later function indices, and returns the
// index of the new function. It changes f.Body of every function, and drops debug information,
// which names functions by index.
func (m *Module) importFunc(module, name string, t FuncType) (uint32, error) {
	at := m.imported(KindFunc)
	m.Imports = append(m.Imports, Import{Module: module, Name: name, Kind: KindFunc, Type: m.typeIndex(t)})
	moved := func(i *uint32) {
		if *i >= at {
			*i++
		}
	}
	constant := func(in *Instr) {
		if in.Op == OpRefFunc {
			moved(&in.Index)
		}
	}
	for i := range m.Exports {
		if m.Exports[i].Kind == KindFunc {
			moved(&m.Exports[i].Index)
		}
	}
	if m.Start != nil {
		start := *m.Start
		moved(&start)
		m.Start = &start
	}
	for i := range m.Globals {
		constant(&m.Globals[i].Init)
	}
	for i := range m.Elems {
		for j := range m.Elems[i].Init {
			constant(&m.Elems[i].Init[j])
		}
	}
	m.dropDebug()
	return at, m.replace(func(in *Instr) bool {
		if in.Op != OpCall && in.Op != OpRefFunc || in.Index < at {
			return false
		}
		in.Index++
		return true
	})
}

// replace calls change with every instruction of every body. change reports a changed instruction.
func (m *Module) replace(change func(in *Instr) bool) error {
	var instrs []Instr
	for i := range m.Funcs {
		f := &m.Funcs[i]
		var err error
		if instrs, err = f.Decode(instrs[:0]); err != nil {
			return err
		}
		e := editor{old: f.Body}
		for j := range instrs {
			at := instrs[j].At
			if !change(&instrs[j]) {
				continue
			}
			e.keep(at)
			e.out = instrs[j].Append(e.out)
			e.skip(after(instrs, j, f.Body))
		}
		f.Body = e.finish()
	}
	return nil
}

// after returns the offset of the instruction after instrs[i].
func after(instrs []Instr, i int, body []byte) uint32 {
	if i+1 < len(instrs) {
		return instrs[i+1].At
	}
	return uint32(len(body))
}

// editor writes a changed copy of a body, from front to back.
type editor struct {
	old, out []byte
	done     uint32 // offset in old
}

// keep copies the bytes up to at.
func (e *editor) keep(at uint32) {
	if e.out == nil {
		e.out = make([]byte, 0, len(e.old)+len(e.old)/4+64)
	}
	e.out = append(e.out, e.old[e.done:at]...)
	e.done = at
}

// skip leaves out the bytes up to at.
func (e *editor) skip(at uint32) { e.done = at }

// finish returns the new body; the old body if unchanged.
func (e *editor) finish() []byte {
	if e.out == nil {
		return e.old
	}
	e.keep(uint32(len(e.old)))
	return e.out
}

// dropDebug drops custom sections about the original code.
func (m *Module) dropDebug() {
	var kept []Custom
	for _, c := range m.Custom {
		if c.Name != "name" && c.Name != "sourceMappingURL" && !strings.HasPrefix(c.Name, ".debug_") {
			kept = append(kept, c)
		}
	}
	m.Custom = kept
}
