package rewrite

import (
	"fmt"
	"unicode/utf8"
)

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
