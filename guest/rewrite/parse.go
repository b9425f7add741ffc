package rewrite

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

const header = "\x00asm\x01\x00\x00\x00"

// section describes a kind of section.
type section struct {
	id   byte
	name string
	read func(*parser)
}

// sections has the kinds of sections in the required order.
var sections = []section{
	{1, "type", (*parser).types},
	{2, "import", (*parser).imports},
	{3, "function", (*parser).functions},
	{4, "table", (*parser).tables},
	{5, "memory", (*parser).memories},
	{6, "global", (*parser).globals},
	{7, "export", (*parser).exports},
	{8, "start", (*parser).start},
	{9, "element", (*parser).elements},
	{12, "data count", (*parser).dataCount},
	{10, "code", (*parser).code},
	{11, "data", (*parser).data},
}

// parser fills m section by section.
type parser struct {
	reader // of the current section
	m      *Module
	base   int // offset of the section in the module
	// withCode is false if function bodies and data are skipped.
	withCode bool
	bodies   []int // offsets of the bodies in the module
	declared uint32
	// importCount has the number of imports by kind once they are counted.
	importCount [4]uint32
	counted     bool
	// refs has the functions allowed in ref.func.
	refs map[uint32]bool
}

// Parse reads a module in the binary format. Structure and indices are checked, but not operand
// types. Errors are of type *ParseError. The Module shares wasm, which must not change afterwards.
func Parse(wasm []byte) (*Module, error) { return parse(wasm, true) }

func parse(wasm []byte, withCode bool) (*Module, error) {
	if len(wasm) < len(header) || string(wasm[:4]) != header[:4] {
		return nil, &ParseError{Func: -1, Err: fmt.Errorf("not a wasm module (it begins with %q)", wasm[:min(4, len(wasm))])}
	}
	if !bytes.HasPrefix(wasm, []byte(header)) {
		return nil, &ParseError{Func: -1, Offset: 4, Err: fmt.Errorf("version or layer %#x: %w", wasm[4:8], ErrUnsupported)}
	}
	p := &parser{m: new(Module), withCode: withCode, refs: map[uint32]bool{}}
	whole := reader{b: wasm, pos: len(header)}
	next := 0 // index in sections
	for whole.more() {
		at := whole.pos
		id := whole.byte()
		body := whole.bytes(whole.u32())
		if whole.err != nil {
			break
		}
		p.reader, p.base = reader{b: body}, whole.pos-len(body)
		if id == 0 {
			name := p.name()
			if p.err == nil {
				p.m.Custom = append(p.m.Custom, Custom{name, body[p.pos:]})
			}
			if err := p.failure("custom"); err != nil {
				return nil, err
			}
			continue
		}
		for next < len(sections) && sections[next].id != id {
			next++
		}
		if next == len(sections) {
			return nil, &ParseError{Func: -1, Offset: at, Err: misplaced(id)}
		}
		s := sections[next]
		next++
		s.read(p)
		if p.err == nil && p.pos < len(body) {
			p.fail(p.pos, "%d bytes too many", len(body)-p.pos)
		}
		if err := p.failure(s.name); err != nil {
			return nil, err
		}
	}
	if whole.err != nil {
		return nil, &ParseError{Func: -1, Offset: whole.errAt, Err: whole.err}
	}
	return p.m, p.finish(len(wasm))
}

// failure returns the error of the current section; nil without an error.
func (p *parser) failure(section string) error {
	if p.err == nil {
		return nil
	}
	return &ParseError{Section: section, Func: -1, Offset: p.base + p.errAt, Err: p.err}
}

func misplaced(id byte) error {
	for _, s := range sections {
		if s.id == id {
			return fmt.Errorf("%s section twice or out of order", s.name)
		}
	}
	if id == 13 {
		return fmt.Errorf("tag section (exceptions): %w", ErrUnsupported)
	}
	return fmt.Errorf("unknown section %d", id)
}

// finish checks the properties of the whole module: the agreement of sections, and the bodies.
func (p *parser) finish(size int) error {
	m := p.m
	fail := func(format string, args ...any) error {
		return &ParseError{Func: -1, Offset: size, Err: fmt.Errorf(format, args...)}
	}
	if n := p.spaces()[KindMemory]; n > 1 {
		return fail("%d memories: %w", n, ErrUnsupported)
	}
	if !p.withCode {
		return nil
	}
	if m.DataCount && int(p.declared) != len(m.Data) {
		return fail("%d data segments announced, there are %d", p.declared, len(m.Data))
	}
	if len(p.bodies) != len(m.Funcs) {
		return fail("%d functions declared, %d bodies", len(m.Funcs), len(p.bodies))
	}
	c := newChecker(m, p.refs)
	for i := range m.Funcs {
		if at, err := c.body(&m.Funcs[i]); err != nil {
			return &ParseError{Section: "code", Func: int(m.imported(KindFunc)) + i, Offset: p.bodies[i] + at, Err: err}
		}
	}
	return nil
}

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

// ParseError describes an error in a module with its place.
type ParseError struct {
	// Section is the name of the section; "" outside of sections.
	Section string
	// Func is the index of the function with the error in the body, or -1.
	Func int
	// Offset is the offset in the module, in bytes.
	Offset int
	Err    error
}

func (e *ParseError) Error() string {
	s := "wasm module"
	if e.Section != "" {
		s += ": " + e.Section + " section"
	}
	if e.Func >= 0 {
		s += fmt.Sprintf(": function %d", e.Func)
	}
	return fmt.Sprintf("%s: offset %#x: %v", s, e.Offset, e.Err)
}

func (e *ParseError) Unwrap() error { return e.Err }

// reader reads within b. After the first error it keeps the error, stays at the position and
// returns zeros: loops over counts must check err.
type reader struct {
	b   []byte
	pos int
	err error
	// errAt is the offset of the error in b.
	errAt int
}

func (r *reader) fail(at int, format string, args ...any) {
	if r.err == nil {
		r.err, r.errAt = fmt.Errorf(format, args...), at
		r.pos = len(r.b)
	}
}

func (r *reader) more() bool { return r.err == nil && r.pos < len(r.b) }

func (r *reader) byte() byte {
	if r.pos >= len(r.b) {
		r.fail(r.pos, "unexpected end")
		return 0
	}
	c := r.b[r.pos]
	r.pos++
	return c
}

// bytes returns n bytes in the reader's memory, with no spare capacity.
func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.b)-r.pos) {
		r.fail(r.pos, "%d bytes announced, %d left", n, len(r.b)-r.pos)
		return nil
	}
	p := r.pos
	r.pos += int(n)
	return r.b[p:r.pos:r.pos]
}

// u32 reads an unsigned LEB128 number of at most 32 bits.
func (r *reader) u32() uint32 {
	if r.pos < len(r.b) && r.b[r.pos] < 0x80 { // nearly always
		r.pos++
		return uint32(r.b[r.pos-1])
	}
	start := r.pos
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		if shift == 28 && c > 0x0f {
			break
		}
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.fail(start, "not a number of 32 bits")
	return 0
}

// signed reads a signed LEB128 number of at most bits bits.
func (r *reader) signed(bits int) int64 {
	start := r.pos
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		c := r.byte()
		v |= int64(c&0x7f) << shift
		if left := bits - shift; left < 7 { // the unused bits must repeat the sign
			if top := int8(c<<1) >> left; c >= 0x80 || top != 0 && top != -1 {
				break
			}
		}
		if c < 0x80 {
			if shift += 7; shift < 64 {
				v = v << (64 - shift) >> (64 - shift)
			}
			return v
		}
	}
	r.fail(start, "not a signed number of %d bits", bits)
	return 0
}

// count reads the length of a vector. Each element takes at least a byte.
func (r *reader) count() int {
	start := r.pos
	n := r.u32()
	if r.err == nil && uint64(n) > uint64(len(r.b)-r.pos) {
		r.fail(start, "%d entries in %d bytes", n, len(r.b)-r.pos)
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	start := r.pos
	b := r.bytes(r.u32())
	if !utf8.Valid(b) {
		r.fail(start, "name is not UTF-8")
	}
	return string(b)
}

// checker checks function bodies of a module: the nesting of blocks, and the existence of every
// index.
type checker struct {
	m                                    *Module
	funcs, tables, memories, elems, data uint64
	globals                              []GlobalType
	refs                                 map[uint32]bool

	instrs []Instr
	blocks []Op // open blocks; the function itself is an OpBlock
}

func newChecker(m *Module, refs map[uint32]bool) *checker {
	return &checker{
		m: m, refs: refs, globals: m.globals(),
		funcs:    uint64(len(m.Funcs)) + uint64(m.imported(KindFunc)),
		tables:   uint64(len(m.tables())),
		memories: uint64(len(m.Memories)) + uint64(m.imported(KindMemory)),
		elems:    uint64(len(m.Elems)), data: uint64(len(m.Data)),
	}
}

// body checks a function. at is the offset of the error in the body.
func (c *checker) body(f *Func) (at int, err error) {
	c.instrs, err = f.Decode(c.instrs[:0])
	if err != nil {
		e := err.(*ParseError)
		return e.Offset, e.Err
	}
	locals := c.m.locals(f)
	c.blocks = append(c.blocks[:0], OpBlock)
	for i := range c.instrs {
		in := &c.instrs[i]
		at = int(in.At)
		if len(c.blocks) == 0 {
			return at, fmt.Errorf("%v after the end", in.Op)
		}
		if err := c.nest(in); err != nil {
			return at, err
		}
		if err := c.indices(in, locals); err != nil {
			return at, fmt.Errorf("%v: %w", in.Op, err)
		}
	}
	if len(c.blocks) > 0 {
		return len(f.Body), errors.New("end is missing")
	}
	return 0, nil
}

// nest keeps track of open blocks.
func (c *checker) nest(in *Instr) error {
	top := len(c.blocks) - 1
	switch in.Op {
	case OpBlock, OpLoop, OpIf:
		c.blocks = append(c.blocks, in.Op)
	case OpElse:
		if c.blocks[top] != OpIf {
			return errors.New("else without if")
		}
		c.blocks[top] = OpElse
	case OpEnd:
		c.blocks = c.blocks[:top]
	}
	return nil
}

// indices checks the indices among the immediates.
func (c *checker) indices(in *Instr, locals uint64) error {
	switch in.Op.info().imm {
	case immBlock:
		switch t := in.Value; {
		case t >= 0:
			return exists("type", uint32(t), uint64(len(c.m.Types)))
		case t != noResult && (t < -4 && t != -16 && t != -17):
			return fmt.Errorf("unknown block type %d", t)
		}
	case immLabel:
		return exists("label", in.Index, uint64(len(c.blocks)))
	case immLabels:
		for _, l := range in.Labels {
			if err := exists("label", l, uint64(len(c.blocks))); err != nil {
				return err
			}
		}
	case immFunc:
		if in.Op == OpRefFunc && !c.refs[in.Index] {
			return fmt.Errorf("function %d is not declared as a reference", in.Index)
		}
		return exists("function", in.Index, c.funcs)
	case immCallIndirect:
		return errors.Join(exists("type", in.Index, uint64(len(c.m.Types))), exists("table", in.Index2, c.tables))
	case immLocal:
		return exists("local", in.Index, locals)
	case immGlobal:
		if err := exists("global", in.Index, uint64(len(c.globals))); err != nil {
			return err
		}
		if in.Op == OpGlobalSet && !c.globals[in.Index].Mutable {
			return fmt.Errorf("global %d is immutable", in.Index)
		}
	case immTable:
		return exists("table", in.Index, c.tables)
	case immTables:
		return errors.Join(exists("table", in.Index, c.tables), exists("table", in.Index2, c.tables))
	case immMemArg, immMemory, immMemories:
		return exists("memory", 0, c.memories)
	case immData, immDataMemory:
		if !c.m.DataCount {
			return errors.New("there is no data count section")
		}
		if in.Op == OpMemoryInit && c.memories == 0 {
			return exists("memory", 0, 0)
		}
		return exists("data segment", in.Index, c.data)
	case immElem:
		return exists("element segment", in.Index, c.elems)
	case immElemTable:
		return errors.Join(exists("element segment", in.Index, c.elems), exists("table", in.Index2, c.tables))
	}
	return nil
}

func exists(what string, i uint32, n uint64) error {
	if uint64(i) >= n {
		return fmt.Errorf("there is no %s %d", what, i)
	}
	return nil
}
