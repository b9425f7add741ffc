package rewrite

import (
	"fmt"
	"strings"
)

// StatePrefix begins the names of the exports added by ExportState: "state:0", "state:1" and so on,
// in the order of the globals.
const StatePrefix = "state:"

// ExportState exports every mutable global of the module. Together with the memory, they are the
// module's state between calls, which a host can then copy to another instance. Imported globals
// and references cannot be copied: for them, the error wraps [ErrUnsupported]. Changeable tables
// are not checked for; a module accepted by DirectCalls has none.
func ExportState() Pass { return Pass{"export state", exportState} }

func exportState(m *Module) error {
	n := 0
	for i, g := range m.globals() {
		if !g.Mutable {
			continue
		}
		if uint32(i) < m.imported(KindGlobal) {
			return fmt.Errorf("global %d is mutable and imported: %w", i, ErrUnsupported)
		}
		if g.Type.isRef() {
			return fmt.Errorf("global %d is a mutable %v: %w", i, g.Type, ErrUnsupported)
		}
		if err := m.export(Export{Name: fmt.Sprint(StatePrefix, n), Kind: KindGlobal, Index: uint32(i)}); err != nil {
			return err
		}
		n++
	}
	return nil
}

// LimitMemory sets the maximum of the module's own memory, in pages of 64 KiB. The host sets the
// limit of an instance; the maximum in the module matters to engines that reserve address space in
// advance.
func LimitMemory(most uint32) Pass {
	return Pass{"limit memory", func(m *Module) error {
		for i := range m.Memories {
			l := &m.Memories[i]
			if most < l.Min || most > maxPages {
				return fmt.Errorf("a maximum of %d pages (the memory begins with %d, and can have %d)", most, l.Min, maxPages)
			}
			l.Max, l.HasMax = most, true
		}
		return nil
	}}
}

// ImageSection is the name of the custom section to which ExtractData moves the
// contents of memory.
const ImageSection = "memory-image"

// Segment has bytes for the memory of a new instance, starting at Offset.
type Segment struct {
	Offset uint32
	Bytes  []byte
}

// ExtractData moves the active data segments into a custom section, where [Segments] finds them.
// The host then fills the memory of instances: from the segments the first time, from a snapshot
// later. Overlapping segments must be written in order.
//
// The memory must be defined by the module, and the offsets must be constants within its initial
// size. A start function is not allowed, because it would run before the host can write. Otherwise
// the error wraps [ErrUnsupported]. For memory.init and data.drop, a moved segment is empty, like
// an active segment after the copy.
func ExtractData() Pass { return Pass{"extract data", extractData} }

func extractData(m *Module) error {
	if m.Start != nil {
		return fmt.Errorf("the module has a start function: %w", ErrUnsupported)
	}
	if m.imported(KindMemory) > 0 {
		return fmt.Errorf("the memory is imported: %w", ErrUnsupported)
	}
	var segments []Segment
	passive := false
	for i := range m.Data {
		d := &m.Data[i]
		if d.Mode == Passive {
			passive = true
			continue
		}
		if d.Offset.Op != OpI32Const {
			return fmt.Errorf("data segment %d: offset %v: %w", i, d.Offset.Op, ErrUnsupported)
		}
		s := Segment{uint32(d.Offset.Value), d.Bytes}
		if size := uint64(m.Memories[0].Min) << 16; uint64(s.Offset)+uint64(len(s.Bytes)) > size {
			return fmt.Errorf("data segment %d: %d bytes at %d in a memory of %d bytes", i, len(s.Bytes), s.Offset, size)
		}
		if len(s.Bytes) > 0 {
			segments = append(segments, s)
		}
		*d = Data{Mode: Passive}
	}
	if !passive && !m.namesData() {
		m.Data, m.DataCount = nil, false
	}
	m.Custom = append(m.Custom, Custom{ImageSection, encodeSegments(segments)})
	return nil
}

// namesData reports whether an instruction refers to a data segment. References are only valid in
// modules with a data count section.
func (m *Module) namesData() bool {
	found := false
	if m.DataCount {
		// Bodies were decoded before, so no error is possible.
		_ = m.replace(func(in *Instr) bool {
			found = found || in.Op == OpMemoryInit || in.Op == OpDataDrop
			return false
		})
	}
	return found
}

// encodeSegments encodes a vector of offsets and bytes, with numbers as in wasm.
func encodeSegments(segments []Segment) []byte {
	b := appendUint(nil, uint32(len(segments)))
	for _, s := range segments {
		b = appendUint(appendUint(b, s.Offset), uint32(len(s.Bytes)))
		b = append(b, s.Bytes...)
	}
	return b
}

// Segments returns the segments moved by ExtractData, in the order of writing. It reads no other
// sections; the bytes are shared with wasm. A guest built by Go has tens of thousands of segments,
// because the linker leaves out every run of eight zeros.
func Segments(wasm []byte) ([]Segment, error) {
	r := reader{b: wasm}
	if string(r.bytes(uint32(len(header)))) != header {
		return nil, &ParseError{Func: -1, Err: fmt.Errorf("not a wasm module of version 1")}
	}
	for r.more() {
		id := r.byte()
		body := r.bytes(r.u32())
		s := reader{b: body}
		if id != 0 || s.name() != ImageSection {
			continue
		}
		segments := s.segments()
		if s.err != nil {
			return nil, &ParseError{Section: ImageSection, Func: -1, Offset: r.pos - len(body) + s.errAt, Err: s.err}
		}
		return segments, nil
	}
	if r.err != nil {
		return nil, &ParseError{Func: -1, Offset: r.errAt, Err: r.err}
	}
	return nil, &ParseError{Func: -1, Offset: len(wasm), Err: fmt.Errorf("there is no section %q", ImageSection)}
}

func (r *reader) segments() []Segment {
	n := r.count()
	segments := make([]Segment, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		segments = append(segments, Segment{r.u32(), r.bytes(r.u32())})
	}
	if r.err == nil && r.pos < len(r.b) {
		r.fail(r.pos, "%d bytes too many", len(r.b)-r.pos)
	}
	return segments
}

// Skeleton returns the module without code: every function only traps. For an engine with native
// code of the module, the skeleton is as good as the module, and much faster to decode and to
// validate. Types, imports, exports and the number of functions are the same.
func Skeleton(wasm []byte) ([]byte, error) {
	m, err := Parse(wasm)
	if err != nil {
		return nil, err
	}
	for i := range m.Funcs {
		m.Funcs[i].Locals = nil
		m.Funcs[i].Body = []byte{byte(OpUnreachable), byte(OpEnd)}
	}
	return m.Encode(), nil
}

// Interface lists the imports and exports of a module with their types, a line each, in the order
// of the module:
//
//	import "metatool" "fuel_out" func () -> ()
//	export "memory" memory 134 65536
//	export "fuel" global mut i64
//
// Code and data are not read. A host can use two modules with equal lists in the same way; only a
// digest shows whether they do the same.
func Interface(wasm []byte) ([]string, error) {
	m, err := parse(wasm, false)
	if err != nil {
		return nil, err
	}
	return m.Interface(), nil
}

// Interface is like the function Interface.
func (m *Module) Interface() []string {
	funcs, tables, globals := m.funcTypes(), m.tables(), m.globals()
	memories := []Limits{}
	var lines []string
	for _, i := range m.Imports {
		what := ""
		switch i.Kind {
		case KindFunc:
			what = m.Types[i.Type].String()
		case KindTable:
			what = i.Table.String()
		case KindMemory:
			what = i.Memory.String()
			memories = append(memories, i.Memory)
		case KindGlobal:
			what = i.Global.String()
		}
		lines = append(lines, fmt.Sprintf("import %q %q %v %s", i.Module, i.Name, i.Kind, what))
	}
	memories = append(memories, m.Memories...)
	for _, e := range m.Exports {
		what := ""
		switch e.Kind {
		case KindFunc:
			what = m.Types[funcs[e.Index]].String()
		case KindTable:
			what = tables[e.Index].String()
		case KindMemory:
			what = memories[e.Index].String()
		case KindGlobal:
			what = globals[e.Index].String()
		}
		lines = append(lines, fmt.Sprintf("export %q %v %s", e.Name, e.Kind, what))
	}
	return lines
}

func (t FuncType) String() string { return typeList(t.Params) + " -> " + typeList(t.Results) }

func typeList(types []ValType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return "(" + strings.Join(names, ", ") + ")"
}

func (l Limits) String() string {
	if !l.HasMax {
		return fmt.Sprint(l.Min)
	}
	return fmt.Sprint(l.Min, " ", l.Max)
}

func (t Table) String() string { return t.Type.String() + " " + t.Limits.String() }

func (t GlobalType) String() string {
	if t.Mutable {
		return "mut " + t.Type.String()
	}
	return t.Type.String()
}

// Restorable reports whether an instance of a module is as new once a host has restored the memory
// and the exported globals: code of the module cannot change any other state, for example tables,
// droppable segments, and mutable globals without an export. Code and data are not read.
func Restorable(wasm []byte) (bool, error) {
	m, err := parse(wasm, false)
	if err != nil {
		return false, err
	}
	exported := map[uint32]bool{}
	for _, e := range m.Exports {
		exported[e.Index] = exported[e.Index] || e.Kind == KindGlobal
	}
	for i, g := range m.globals() {
		if g.Mutable && (!exported[uint32(i)] || uint32(i) < m.imported(KindGlobal)) {
			return false, nil
		}
	}
	for _, e := range m.Elems {
		if e.Mode != Declarative {
			return false, nil
		}
	}
	return len(m.tables()) == 0 && !m.DataCount && m.imported(KindMemory) == 0, nil
}
