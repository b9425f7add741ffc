package rewrite

// The entries of sections.

func (r *reader) valType() ValType {
	at := r.pos
	t := ValType(r.byte())
	switch t {
	case I32, I64, F32, F64, FuncRef, ExternRef:
	case v128:
		r.fail(at, "type v128 (SIMD): %w", ErrUnsupported)
	default:
		r.fail(at, "unknown value %v", t)
	}
	return t
}

func (r *reader) refType() ValType {
	at := r.pos
	t := r.valType()
	if !t.isRef() {
		r.fail(at, "%v is not a reference type", t)
	}
	return t
}

func (r *reader) valTypes() []ValType {
	var types []ValType
	for n := r.count(); n > 0 && r.err == nil; n-- {
		types = append(types, r.valType())
	}
	return types
}

func (r *reader) limits(largest uint32) Limits {
	at := r.pos
	flags := r.byte()
	switch {
	case flags > 7:
		r.fail(at, "limits of form %#x", flags)
	case flags > 3:
		r.fail(at, "64-bit memory: %w", ErrUnsupported)
	case flags > 1:
		r.fail(at, "shared memory (threads): %w", ErrUnsupported)
	}
	l := Limits{Min: r.u32(), HasMax: flags&1 != 0}
	if l.HasMax {
		l.Max = r.u32()
	}
	if l.Min > largest || l.Max > largest || l.HasMax && l.Min > l.Max {
		r.fail(at, "limits %d to %d (at most %d)", l.Min, l.Max, largest)
	}
	return l
}

func (r *reader) memory() Limits { return r.limits(maxPages) }

func (r *reader) table() Table { return Table{r.refType(), r.limits(1<<32 - 1)} }

func (r *reader) globalType() GlobalType {
	t := GlobalType{Type: r.valType()}
	at := r.pos
	mutable := r.byte()
	if mutable > 1 {
		r.fail(at, "mutability %d", mutable)
	}
	t.Mutable = mutable == 1
	return t
}

// constant reads a constant expression: an instruction and end. Globals in the expression must have
// an index below globals.
func (p *parser) constant(globals uint32) Instr {
	at := p.pos
	var in Instr
	p.instr(&in)
	switch in.Op {
	case OpI32Const, OpI64Const, OpF32Const, OpF64Const, OpRefNull:
	case OpGlobalGet:
		if in.Index >= globals {
			p.fail(at, "global %d in a constant expression", in.Index)
		}
	case OpRefFunc:
		if in.Index >= p.spaces()[KindFunc] {
			p.fail(at, "there is no function %d", in.Index)
		}
		p.refs[in.Index] = true
	default:
		p.fail(at, "%v in a constant expression", in.Op)
	}
	in.At = 0
	at = p.pos
	if p.byte() != byte(OpEnd) {
		p.fail(at, "a constant expression of more than one instruction: %w", ErrUnsupported)
	}
	return in
}

func (p *parser) typeIndex() uint32 {
	at := p.pos
	i := p.u32()
	if p.err == nil && uint64(i) >= uint64(len(p.m.Types)) {
		p.fail(at, "there is no type %d", i)
	}
	return i
}

func (p *parser) funcIndex() uint32 {
	at := p.pos
	i := p.u32()
	if p.err == nil && i >= p.spaces()[KindFunc] {
		p.fail(at, "there is no function %d", i)
	}
	return i
}

// spaces returns the size of each index space so far, by Kind. The imports must be
// complete.
func (p *parser) spaces() [4]uint32 {
	if !p.counted {
		p.counted = true
		for _, i := range p.m.Imports {
			p.importCount[i.Kind]++
		}
	}
	n := p.importCount
	n[KindFunc] += uint32(len(p.m.Funcs))
	n[KindTable] += uint32(len(p.m.Tables))
	n[KindMemory] += uint32(len(p.m.Memories))
	n[KindGlobal] += uint32(len(p.m.Globals))
	return n
}
