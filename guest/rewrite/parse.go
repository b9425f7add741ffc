package rewrite

import (
	"bytes"
	"fmt"
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
