package rewrite

// maxLocals limits the parameters and locals of a function, as engines do.
const maxLocals = 50_000

func (p *parser) types() {
	for n := p.count(); n > 0 && p.err == nil; n-- {
		if at := p.pos; p.byte() != 0x60 {
			p.fail(at, "a type that is not of a function: %w", ErrUnsupported)
		}
		p.m.Types = append(p.m.Types, FuncType{p.valTypes(), p.valTypes()})
	}
}

func (p *parser) imports() {
	for n := p.count(); n > 0 && p.err == nil; n-- {
		i := Import{Module: p.name(), Name: p.name()}
		at := p.pos
		i.Kind = Kind(p.byte())
		switch i.Kind {
		case KindFunc:
			i.Type = p.typeIndex()
		case KindTable:
			i.Table = p.table()
		case KindMemory:
			i.Memory = p.memory()
		case KindGlobal:
			i.Global = p.globalType()
		default:
			p.fail(at, "import of %v: %w", i.Kind, ErrUnsupported)
		}
		p.m.Imports = append(p.m.Imports, i)
	}
}

func (p *parser) functions() {
	for n := p.count(); n > 0 && p.err == nil; n-- {
		p.m.Funcs = append(p.m.Funcs, Func{Type: p.typeIndex()})
	}
}

func (p *parser) tables() {
	for n := p.count(); n > 0 && p.err == nil; n-- {
		p.m.Tables = append(p.m.Tables, p.table())
	}
}

func (p *parser) memories() {
	for n := p.count(); n > 0 && p.err == nil; n-- {
		p.m.Memories = append(p.m.Memories, p.memory())
	}
}

func (p *parser) globals() {
	imported := p.m.imported(KindGlobal)
	for n := p.count(); n > 0 && p.err == nil; n-- {
		t := p.globalType()
		p.m.Globals = append(p.m.Globals, Global{t, p.constant(imported)})
	}
}

func (p *parser) exports() {
	counts := p.spaces()
	seen := map[string]bool{}
	for n := p.count(); n > 0 && p.err == nil; n-- {
		at := p.pos
		e := Export{Name: p.name(), Kind: Kind(p.byte())}
		if seen[e.Name] {
			p.fail(at, "%q is exported twice", e.Name)
		}
		seen[e.Name] = true
		at = p.pos
		e.Index = p.u32()
		if e.Kind > KindGlobal {
			p.fail(at, "export of %v: %w", e.Kind, ErrUnsupported)
		} else if e.Index >= counts[e.Kind] {
			p.fail(at, "export %q: there is no %v %d", e.Name, e.Kind, e.Index)
		}
		if e.Kind == KindFunc {
			p.refs[e.Index] = true
		}
		p.m.Exports = append(p.m.Exports, e)
	}
}

func (p *parser) start() {
	i := p.funcIndex()
	p.m.Start = &i
}

func (p *parser) elements() {
	for n := p.count(); n > 0 && p.err == nil; n-- {
		p.m.Elems = append(p.m.Elems, p.element())
	}
}

// element reads any of eight forms. Bit 0 says not active; bit 1 an explicit table, or declarative
// if not active; bit 2 expressions instead of indices.
func (p *parser) element() Elem {
	e := Elem{Type: FuncRef}
	at := p.pos
	flags := p.u32()
	if flags > 7 {
		p.fail(at, "element segment of form %d", flags)
		return e
	}
	switch {
	case flags&1 == 0:
		at = p.pos
		if flags&2 != 0 {
			e.Table = p.u32()
		}
		if p.err == nil && e.Table >= p.spaces()[KindTable] {
			p.fail(at, "there is no table %d", e.Table)
		}
		e.Offset = p.constant(p.spaces()[KindGlobal])
	case flags&2 != 0:
		e.Mode = Declarative
	default:
		e.Mode = Passive
	}
	expressions := flags&4 != 0
	if flags&3 != 0 { // the other forms have only functions
		at = p.pos
		if expressions {
			e.Type = p.refType()
		} else if k := p.byte(); k != 0 {
			p.fail(at, "element kind %d", k)
		}
	}
	for n := p.count(); n > 0 && p.err == nil; n-- {
		if expressions {
			e.Init = append(e.Init, p.constant(p.spaces()[KindGlobal]))
			continue
		}
		f := p.funcIndex()
		p.refs[f] = true
		e.Init = append(e.Init, Instr{Op: OpRefFunc, Index: f})
	}
	return e
}

func (p *parser) dataCount() {
	p.declared = p.u32()
	p.m.DataCount = true
}

func (p *parser) code() {
	if !p.withCode {
		p.pos = len(p.b)
		return
	}
	at := p.pos
	n := p.count()
	if n != len(p.m.Funcs) {
		p.fail(at, "%d functions declared, %d bodies", len(p.m.Funcs), n)
	}
	for i := 0; i < n && p.err == nil; i++ {
		p.function(&p.m.Funcs[i])
	}
}

// function reads the locals, and keeps the instructions as bytes.
func (p *parser) function(f *Func) {
	size := p.u32()
	at := p.pos
	body := reader{b: p.bytes(size)}
	total := uint64(0)
	if p.err == nil {
		total = uint64(len(p.m.Types[f.Type].Params))
	}
	for n := body.count(); n > 0 && body.err == nil; n-- {
		l := Locals{Count: body.u32(), Type: body.valType()}
		if total += uint64(l.Count); total > maxLocals {
			body.fail(body.pos, "more than %d locals", maxLocals)
		}
		f.Locals = append(f.Locals, l)
	}
	if body.err != nil {
		p.fail(at+body.errAt, "%w", body.err)
		return
	}
	f.Body = body.b[body.pos:]
	p.bodies = append(p.bodies, p.base+at+body.pos)
}

func (p *parser) data() {
	if !p.withCode {
		p.pos = len(p.b)
		return
	}
	for n := p.count(); n > 0 && p.err == nil; n-- {
		p.m.Data = append(p.m.Data, p.segment())
	}
}

func (p *parser) segment() Data {
	var d Data
	at := p.pos
	switch form := p.u32(); form {
	case 1:
		d.Mode = Passive
	case 0, 2:
		if form == 2 {
			d.Memory = p.u32()
		}
		if p.err == nil && d.Memory >= p.spaces()[KindMemory] {
			p.fail(at, "there is no memory %d", d.Memory)
		}
		d.Offset = p.constant(p.spaces()[KindGlobal])
	default:
		p.fail(at, "data segment of form %d", form)
	}
	d.Bytes = p.bytes(p.u32())
	return d
}
