package hashlib

import (
	"encoding/binary"
	"math/bits"
)

// The hashes are written out here, because the hashes of Go's library depend on generators of
// random numbers with 32 MiB of memory, a cost for every run.

// Sum is a hash of data in pieces, copied by assignment.
type Sum struct {
	name   string
	state  [8]uint64 // words of 32 bits in all but the long SHA-2
	rest   [128]byte // of an incomplete block
	filled int
	length uint64 // in bytes
}

// sizes of digests and blocks, in bytes.
var sizes = map[string]struct{ digest, block int }{
	"md5": {16, 64}, "sha1": {20, 64}, "sha224": {28, 64}, "sha256": {32, 64}, "sha384": {48, 128}, "sha512": {64, 128},
}

// New returns a hash; ok says whether the name is known.
func New(name string) (s Sum, ok bool) {
	s.name = name
	switch name {
	case "md5", "sha1":
		s.state = [8]uint64{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}
	case "sha224":
		s.state = [8]uint64{0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31, 0x68581511, 0x64f98fa7, 0xbefa4fa4}
	case "sha256":
		s.state = [8]uint64{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
	case "sha384":
		s.state = [8]uint64{0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17, 0x152fecd8f70e5939,
			0x67332667ffc00b31, 0x8eb44a8768581511, 0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4}
	case "sha512":
		s.state = [8]uint64{0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
			0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179}
	default:
		return s, false
	}
	return s, true
}

// Of returns the hash of a text.
func Of(name, data string) []byte {
	s, _ := New(name)
	s.Write(data)
	return s.Digest()
}

// Size and Block are the number of bytes of the digest and of a block.
func (s *Sum) Size() int  { return sizes[s.name].digest }
func (s *Sum) Block() int { return sizes[s.name].block }

// Write adds data.
func (s *Sum) Write(data string) {
	s.length += uint64(len(data))
	size := s.Block()
	for data != "" {
		n := copy(s.rest[s.filled:size], data)
		s.filled += n
		data = data[n:]
		if s.filled == size {
			s.block()
			s.filled = 0
		}
	}
}

// Digest returns the hash of the data so far.
func (s *Sum) Digest() []byte {
	end := *s
	size := s.Block()
	lengthSize := size / 8
	padding := make([]byte, 1, 2*size)
	padding[0] = 0x80
	for (s.filled+len(padding))%size != size-lengthSize {
		padding = append(padding, 0)
	}
	if lengthSize == 16 {
		padding = append(padding, make([]byte, 8)...)
	}
	if s.name == "md5" {
		padding = binary.LittleEndian.AppendUint64(padding, s.length*8)
	} else {
		padding = binary.BigEndian.AppendUint64(padding, s.length*8)
	}
	end.Write(string(padding))
	out := make([]byte, 0, 64)
	for _, w := range end.state {
		switch {
		case s.name == "md5":
			out = binary.LittleEndian.AppendUint32(out, uint32(w))
		case size == 64:
			out = binary.BigEndian.AppendUint32(out, uint32(w))
		default:
			out = binary.BigEndian.AppendUint64(out, w)
		}
	}
	return out[:s.Size()]
}

func (s *Sum) block() {
	switch s.name {
	case "md5":
		s.md5()
	case "sha1":
		s.sha1()
	case "sha224", "sha256":
		s.sha256()
	default:
		s.sha512()
	}
}

// md5Shifts are the shifts of the four rounds.
var md5Shifts = [4][4]int{{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}

func (s *Sum) md5() {
	a, b, c, d := uint32(s.state[0]), uint32(s.state[1]), uint32(s.state[2]), uint32(s.state[3])
	before := [4]uint32{a, b, c, d}
	for i := range 64 {
		var f uint32
		var at int
		switch i / 16 {
		case 0:
			f, at = b&c|^b&d, i
		case 1:
			f, at = d&b|^d&c, 5*i+1
		case 2:
			f, at = b^c^d, 3*i+5
		case 3:
			f, at = c^(b|^d), 7*i
		}
		f += a + md5Sines[i] + binary.LittleEndian.Uint32(s.rest[at%16*4:])
		a, b, c, d = d, b+bits.RotateLeft32(f, md5Shifts[i/16][i%4]), b, c
	}
	for i, v := range [4]uint32{a, b, c, d} {
		s.state[i] = uint64(before[i] + v)
	}
}

func (s *Sum) sha1() {
	var w [80]uint32
	for i := range w {
		if i < 16 {
			w[i] = binary.BigEndian.Uint32(s.rest[4*i:])
		} else {
			w[i] = bits.RotateLeft32(w[i-3]^w[i-8]^w[i-14]^w[i-16], 1)
		}
	}
	a, b, c, d, e := uint32(s.state[0]), uint32(s.state[1]), uint32(s.state[2]), uint32(s.state[3]), uint32(s.state[4])
	before := [5]uint32{a, b, c, d, e}
	for i, x := range w {
		var f, k uint32
		switch i / 20 {
		case 0:
			f, k = b&c|^b&d, 0x5a827999
		case 1:
			f, k = b^c^d, 0x6ed9eba1
		case 2:
			f, k = b&c|b&d|c&d, 0x8f1bbcdc
		case 3:
			f, k = b^c^d, 0xca62c1d6
		}
		a, b, c, d, e = bits.RotateLeft32(a, 5)+f+e+k+x, a, bits.RotateLeft32(b, 30), c, d
	}
	for i, v := range [5]uint32{a, b, c, d, e} {
		s.state[i] = uint64(before[i] + v)
	}
}

func (s *Sum) sha256() {
	var w [64]uint32
	for i := range w {
		if i < 16 {
			w[i] = binary.BigEndian.Uint32(s.rest[4*i:])
			continue
		}
		x, y := w[i-15], w[i-2]
		w[i] = w[i-16] + (bits.RotateLeft32(x, -7) ^ bits.RotateLeft32(x, -18) ^ x>>3) +
			w[i-7] + (bits.RotateLeft32(y, -17) ^ bits.RotateLeft32(y, -19) ^ y>>10)
	}
	var h [8]uint32
	for i := range h {
		h[i] = uint32(s.state[i])
	}
	for i, x := range w {
		e, a := h[4], h[0]
		t1 := h[7] + (bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25)) + (e&h[5] ^ ^e&h[6]) + uint32(sha2Roots[i]>>32) + x
		t2 := (bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)) + (a&h[1] ^ a&h[2] ^ h[1]&h[2])
		h = [8]uint32{t1 + t2, h[0], h[1], h[2], h[3] + t1, h[4], h[5], h[6]}
	}
	for i, v := range h {
		s.state[i] = uint64(uint32(s.state[i]) + v)
	}
}

func (s *Sum) sha512() {
	var w [80]uint64
	for i := range w {
		if i < 16 {
			w[i] = binary.BigEndian.Uint64(s.rest[8*i:])
			continue
		}
		x, y := w[i-15], w[i-2]
		w[i] = w[i-16] + (bits.RotateLeft64(x, -1) ^ bits.RotateLeft64(x, -8) ^ x>>7) +
			w[i-7] + (bits.RotateLeft64(y, -19) ^ bits.RotateLeft64(y, -61) ^ y>>6)
	}
	h := s.state
	for i, x := range w {
		e, a := h[4], h[0]
		t1 := h[7] + (bits.RotateLeft64(e, -14) ^ bits.RotateLeft64(e, -18) ^ bits.RotateLeft64(e, -41)) + (e&h[5] ^ ^e&h[6]) + sha2Roots[i] + x
		t2 := (bits.RotateLeft64(a, -28) ^ bits.RotateLeft64(a, -34) ^ bits.RotateLeft64(a, -39)) + (a&h[1] ^ a&h[2] ^ h[1]&h[2])
		h = [8]uint64{t1 + t2, h[0], h[1], h[2], h[3] + t1, h[4], h[5], h[6]}
	}
	for i, v := range h {
		s.state[i] += v
	}
}
