// Package codepoints measures and cuts text by its code points, as Python does, where the
// interpreter keeps UTF-8.
//
// ASCII text costs as much as bytes. For long text an Index remembers offsets, so a loop over all
// indexes of a text is not quadratic.
package codepoints

import (
	"unicode/utf8"
	"unsafe"
)

const (
	// shortText is the length in bytes up to which texts are not remembered.
	shortText = 48
	// stride is the distance between remembered offsets, in code points.
	stride = 16
	// maxTexts is the number of texts remembered by an Index.
	maxTexts = 8
	// largeText is the length in bytes above which a text replaces all other texts, because an
	// Index keeps the memory of texts from being reused.
	largeText = 128 << 10
)

// Index measures and cuts texts. An Index remembers the last few long texts, so concurrent use is
// not allowed. The zero value is ready to use.
//
// Each byte of invalid UTF-8 counts as a code point.
type Index struct {
	texts [maxTexts]measured
	next  int // index of the text to be replaced next
}

// measured is a long text with remembered offsets.
type measured struct {
	text   string // keeps the memory in use, so no other text has the same address
	length int    // in code points
	// offsets has the offset in bytes of every stride-th code point. The slice is nil until an
	// offset is needed, and for ASCII.
	offsets []uint32
}

func (m *measured) ascii() bool { return m.length == len(m.text) }

// Len returns the number of code points in s.
func (x *Index) Len(s string) int {
	if len(s) <= shortText {
		return count(s)
	}
	return x.measure(s).length
}

// Slice returns the part of s from the code point at start up to, but without, the code point at
// end. 0 <= start <= end <= Len(s).
func (x *Index) Slice(s string, start, end int) string {
	if len(s) <= shortText {
		from := offset(s, start)
		return s[from : from+offset(s[from:], end-start)]
	}
	m := x.measure(s)
	if m.ascii() {
		return s[start:end]
	}
	from := m.offset(start)
	if end-start <= stride {
		return s[from : from+offset(s[from:], end-start)]
	}
	return s[from:m.offset(end)]
}

// Offset returns the offset in bytes of the code point at i in s.
// 0 <= i <= Len(s).
func (x *Index) Offset(s string, i int) int {
	if len(s) <= shortText {
		return offset(s, i)
	}
	m := x.measure(s)
	if m.ascii() {
		return i
	}
	return m.offset(i)
}

// measure returns the entry of a long text. A new entry is made if needed.
func (x *Index) measure(s string) *measured {
	for i := range x.texts {
		if m := &x.texts[i]; len(m.text) == len(s) && unsafe.StringData(m.text) == unsafe.StringData(s) {
			return m
		}
	}
	if len(s) > largeText {
		clear(x.texts[:])
	}
	m := &x.texts[x.next]
	x.next = (x.next + 1) % maxTexts
	*m = measured{text: s, length: count(s)}
	return m
}

func (m *measured) offset(i int) int {
	if m.offsets == nil {
		m.offsets = make([]uint32, 0, m.length/stride+1)
		at := 0
		for n := 0; n <= m.length; n += stride {
			m.offsets = append(m.offsets, uint32(at))
			at += offset(m.text[at:], min(stride, m.length-n))
		}
	}
	from := int(m.offsets[i/stride])
	return from + offset(m.text[from:], i%stride)
}

// count returns the number of code points in s.
func count(s string) int {
	if n := asciiPrefix(s); n < len(s) {
		return n + utf8.RuneCountInString(s[n:])
	}
	return len(s)
}

// offset returns the offset in bytes of the code point at i in s, by scanning s.
func offset(s string, i int) int {
	at := 0
	for ; i > 0; i-- {
		if s[at] < utf8.RuneSelf {
			at++
			continue
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return at
}

// asciiPrefix returns how many bytes at the beginning of s are ASCII, or a few
// less.
func asciiPrefix(s string) int {
	const highBits = 0x8080808080808080
	at := 0
	for ; at+8 <= len(s); at += 8 {
		if word(s[at:at+8])&highBits != 0 {
			return at
		}
	}
	for ; at < len(s); at++ {
		if s[at] >= utf8.RuneSelf {
			return at
		}
	}
	return at
}

// word returns the eight bytes of s as a number. The compiler turns the function into a single
// load.
func word(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
