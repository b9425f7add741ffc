package rewrite

// Encode returns the module in the binary format. Empty sections are left out, and custom sections
// come last. Numbers outside of unchanged function bodies are as short as possible. The same module
// always encodes to the same bytes.
func (m *Module) Encode() []byte {
	out := make([]byte, 0, m.sizeHint())
	out = append(out, header...)
	var b []byte // a section
	flush := func(id byte) {
		out = appendUint(append(out, id), uint32(len(b)))
		out = append(out, b...)
		b = b[:0]
	}
	// list encodes a section with a vector.
	list := func(id byte, n int, entry func(b []byte, i int) []byte) {
		if n == 0 {
			return
		}
		b = appendUint(b, uint32(n))
		for i := range n {
			b = entry(b, i)
		}
		flush(id)
	}
	list(1, len(m.Types), func(b []byte, i int) []byte { return m.Types[i].append(b) })
	list(2, len(m.Imports), func(b []byte, i int) []byte { return m.Imports[i].append(b) })
	list(3, len(m.Funcs), func(b []byte, i int) []byte { return appendUint(b, m.Funcs[i].Type) })
	list(4, len(m.Tables), func(b []byte, i int) []byte { return m.Tables[i].append(b) })
	list(5, len(m.Memories), func(b []byte, i int) []byte { return m.Memories[i].append(b) })
	list(6, len(m.Globals), func(b []byte, i int) []byte {
		return appendConst(m.Globals[i].GlobalType.append(b), &m.Globals[i].Init)
	})
	list(7, len(m.Exports), func(b []byte, i int) []byte {
		e := &m.Exports[i]
		return appendUint(append(appendName(b, e.Name), byte(e.Kind)), e.Index)
	})
	if m.Start != nil {
		b = appendUint(b, *m.Start)
		flush(8)
	}
	list(9, len(m.Elems), func(b []byte, i int) []byte { return m.Elems[i].append(b) })
	if m.DataCount {
		b = appendUint(b, uint32(len(m.Data)))
		flush(12)
	}
	list(10, len(m.Funcs), func(b []byte, i int) []byte { return m.Funcs[i].append(b) })
	list(11, len(m.Data), func(b []byte, i int) []byte { return m.Data[i].append(b) })
	for _, c := range m.Custom {
		b = append(appendName(b, c.Name), c.Bytes...)
		flush(0)
	}
	return out
}

func (m *Module) sizeHint() int {
	n := 64 << 10
	for i := range m.Funcs {
		n += len(m.Funcs[i].Body) + 16
	}
	for i := range m.Data {
		n += len(m.Data[i].Bytes) + 16
	}
	for i := range m.Custom {
		n += len(m.Custom[i].Bytes) + 64
	}
	return n
}

func appendName(b []byte, s string) []byte { return append(appendUint(b, uint32(len(s))), s...) }

func appendConst(b []byte, in *Instr) []byte { return append(in.Append(b), byte(OpEnd)) }

func appendTypes(b []byte, types []ValType) []byte {
	return append(appendUint(b, uint32(len(types))), valBytes(types)...)
}

func (t *FuncType) append(b []byte) []byte {
	return appendTypes(appendTypes(append(b, 0x60), t.Params), t.Results)
}

func (l Limits) append(b []byte) []byte {
	if !l.HasMax {
		return appendUint(append(b, 0), l.Min)
	}
	return appendUint(appendUint(append(b, 1), l.Min), l.Max)
}

func (t Table) append(b []byte) []byte { return t.Limits.append(append(b, byte(t.Type))) }

func (t GlobalType) append(b []byte) []byte {
	mutable := byte(0)
	if t.Mutable {
		mutable = 1
	}
	return append(b, byte(t.Type), mutable)
}

func (i *Import) append(b []byte) []byte {
	b = append(appendName(appendName(b, i.Module), i.Name), byte(i.Kind))
	switch i.Kind {
	case KindFunc:
		return appendUint(b, i.Type)
	case KindTable:
		return i.Table.append(b)
	case KindMemory:
		return i.Memory.append(b)
	default:
		return i.Global.append(b)
	}
}

// append uses the forms with a table and a type, and the short form with indices if
// every element is a function.
func (e *Elem) append(b []byte) []byte {
	expressions := e.Type != FuncRef
	for i := range e.Init {
		expressions = expressions || e.Init[i].Op != OpRefFunc
	}
	flags := byte(0)
	if expressions {
		flags |= 4
	}
	switch e.Mode {
	case Passive:
		flags |= 1
	case Declarative:
		flags |= 3
	case Active:
		if e.Table != 0 || e.Type != FuncRef {
			flags |= 2
		}
	}
	b = append(b, flags)
	if e.Mode == Active {
		if flags&2 != 0 {
			b = appendUint(b, e.Table)
		}
		b = appendConst(b, &e.Offset)
	}
	if flags&3 != 0 {
		if expressions {
			b = append(b, byte(e.Type))
		} else {
			b = append(b, 0)
		}
	}
	b = appendUint(b, uint32(len(e.Init)))
	for i := range e.Init {
		if expressions {
			b = appendConst(b, &e.Init[i])
		} else {
			b = appendUint(b, e.Init[i].Index)
		}
	}
	return b
}

func (f *Func) append(b []byte) []byte {
	locals := appendUint(nil, uint32(len(f.Locals)))
	for _, l := range f.Locals {
		locals = append(appendUint(locals, l.Count), byte(l.Type))
	}
	b = appendUint(b, uint32(len(locals)+len(f.Body)))
	return append(append(b, locals...), f.Body...)
}

func (d *Data) append(b []byte) []byte {
	switch {
	case d.Mode == Passive:
		b = append(b, 1)
	case d.Memory != 0:
		b = appendConst(appendUint(append(b, 2), d.Memory), &d.Offset)
	default:
		b = appendConst(append(b, 0), &d.Offset)
	}
	return append(appendUint(b, uint32(len(d.Bytes))), d.Bytes...)
}
