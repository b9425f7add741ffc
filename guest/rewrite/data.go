package rewrite

import "fmt"

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
