// Package hashlib is Python's modules hashlib, hmac and zlib (check sums only). Begin with
// [Module].
package hashlib

import (
	"encoding/binary"
	"encoding/hex"
	"hash/adler32"
	"maps"
	"math/bits"
	"slices"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/base64"
)

// Module returns the module hashlib.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{"new": func(c *stdlib.Call) (starlark.Value, error) {
		var name string
		var data starlark.Value = starlark.Bytes("")
		secure := true
		if err := c.Unpack("name", &name, "data?", &data, "*", nil, "usedforsecurity?", &secure); err != nil {
			return nil, err
		}
		return start(c, name, data)
	}})
	for name := range sizes {
		members[name] = stdlib.NewFunc(name, func(c *stdlib.Call) (starlark.Value, error) {
			var data starlark.Value = starlark.Bytes("")
			secure := true
			if err := c.Unpack("string?", &data, "*", nil, "usedforsecurity?", &secure); err != nil {
				return nil, err
			}
			return start(c, name, data)
		})
	}
	set := starlark.NewSet(len(sizes))
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		_ = set.Insert(starlark.String(name)) // text can be in a set
	}
	set.Freeze()
	members["algorithms_available"], members["algorithms_guaranteed"] = set, set
	return &stdlib.Module{Name: "hashlib", Members: members}
}

// HMAC returns the module hmac.
func HMAC() *stdlib.Module {
	return &stdlib.Module{Name: "hmac", Members: stdlib.Funcs(map[string]stdlib.Func{
		"new": func(c *stdlib.Call) (starlark.Value, error) {
			var key, algorithm starlark.Value
			var msg starlark.Value
			if err := c.Unpack("key", &key, "msg??", &msg, "digestmod?", &algorithm); err != nil {
				return nil, err
			}
			return keyed(c, key, msg, algorithm)
		},
		"digest": func(c *stdlib.Call) (starlark.Value, error) {
			var key, msg, algorithm starlark.Value
			if err := c.Unpack("key", &key, "msg", &msg, "digest", &algorithm); err != nil {
				return nil, err
			}
			d, err := keyed(c, key, msg, algorithm)
			if err != nil {
				return nil, err
			}
			return starlark.Bytes(d.sum()), nil
		},
		"compare_digest": func(c *stdlib.Call) (starlark.Value, error) {
			var a, b starlark.Value
			if err := c.Unpack("a", &a, "b", &b, "/", nil); err != nil {
				return nil, err
			}
			if a.Type() != b.Type() {
				return nil, stdlib.Errorf(stdlib.TypeError, "unsupported operand types(s) or combination of types: '%s' and '%s'", stdlib.TypeName(a), stdlib.TypeName(b))
			}
			x, err := c.ASCIIOf(a)
			if err != nil {
				return nil, stdlib.Errorf(stdlib.TypeError, "comparing strings with non-ASCII characters is not supported")
			}
			y, err := c.ASCIIOf(b)
			if err != nil {
				return nil, stdlib.Errorf(stdlib.TypeError, "comparing strings with non-ASCII characters is not supported")
			}
			return starlark.Bool(x == y), nil
		},
	})}
}

// Zlib returns the module zlib.
func Zlib() *stdlib.Module {
	return &stdlib.Module{Name: "zlib", Members: stdlib.Funcs(map[string]stdlib.Func{
		"crc32": base64.CRC32,
		"adler32": func(c *stdlib.Call) (starlark.Value, error) {
			var v starlark.Value
			if err := c.Unpack("data", &v, "/", nil); err != nil {
				return nil, err
			}
			s, err := c.BytesOf(v)
			return starlark.MakeInt64(int64(adler32.Checksum([]byte(s)))), err
		},
	})}
}

// digest is a hash, or with an outer hash an HMAC.
type digest struct {
	name  string
	inner Sum
	outer string // the padded key of the outer hash
}

var _ starlark.HasAttrs = (*digest)(nil)

func start(c *stdlib.Call, name string, data starlark.Value) (*digest, error) {
	inner, ok := New(name)
	if !ok {
		return nil, stdlib.Errorf(stdlib.ValueError, "unsupported hash type %s", name)
	}
	d := &digest{name: name, inner: inner}
	return d, d.update(c, data)
}

// keyed starts an HMAC.
func keyed(c *stdlib.Call, key, msg, algorithm starlark.Value) (*digest, error) {
	secret, err := c.BytesOf(key)
	if err != nil {
		return nil, err
	}
	var name string
	switch a := algorithm.(type) {
	case starlark.String:
		name = string(a)
	case *starlark.Builtin: // hashlib.sha256
		name = a.Name()
	case nil:
		return nil, stdlib.Errorf(stdlib.TypeError, "Missing required argument 'digestmod'.")
	}
	d, err := start(c, name, starlark.Bytes(""))
	if err != nil {
		return nil, err
	}
	pad := make([]byte, d.inner.Block())
	if len(secret) > len(pad) {
		secret = string(Of(name, secret))
	}
	copy(pad, secret)
	outer := make([]byte, len(pad))
	for i, b := range pad {
		pad[i], outer[i] = b^0x36, b^0x5c
	}
	d.outer = string(outer)
	d.inner.Write(string(pad))
	d.name = "hmac-" + name
	if msg == nil {
		return d, nil
	}
	return d, d.update(c, msg)
}

func (d *digest) update(c *stdlib.Call, v starlark.Value) error {
	if _, text := v.(starlark.String); text {
		return stdlib.Errorf(stdlib.TypeError, "Strings must be encoded before hashing: text.encode()")
	}
	s, err := c.BytesOf(v)
	if err == nil {
		d.inner.Write(s)
	}
	return err
}

func (d *digest) sum() []byte {
	sum := d.inner.Digest()
	if d.outer == "" {
		return sum
	}
	return Of(d.inner.name, d.outer+string(sum))
}

func (d *digest) String() string        { return "<" + d.name + " object>" }
func (*digest) Type() string            { return "HASH" }
func (*digest) Freeze()                 {}
func (*digest) Truth() starlark.Bool    { return true }
func (d *digest) Hash() (uint32, error) { return starlark.String(d.name).Hash() }
func (*digest) AttrNames() []string {
	return []string{"block_size", "copy", "digest", "digest_size", "hexdigest", "name", "update"}
}

func (d *digest) Attr(name string) (starlark.Value, error) {
	switch name {
	case "name":
		return starlark.String(d.name), nil
	case "digest_size":
		return starlark.MakeInt(d.inner.Size()), nil
	case "block_size":
		return starlark.MakeInt(d.inner.Block()), nil
	}
	if m := stdlib.Method(d, name, digestMethods); m != nil {
		return m, nil
	}
	return nil, nil
}

var digestMethods = map[string]stdlib.Func{
	"update": func(c *stdlib.Call) (starlark.Value, error) {
		var data starlark.Value
		if err := c.Unpack("data", &data, "/", nil); err != nil {
			return nil, err
		}
		return starlark.None, c.Receiver.(*digest).update(c, data)
	},
	"digest": func(c *stdlib.Call) (starlark.Value, error) {
		return starlark.Bytes(c.Receiver.(*digest).sum()), c.Unpack()
	},
	"hexdigest": func(c *stdlib.Call) (starlark.Value, error) {
		return starlark.String(hex.EncodeToString(c.Receiver.(*digest).sum())), c.Unpack()
	},
	"copy": func(c *stdlib.Call) (starlark.Value, error) {
		if err := c.Unpack(); err != nil {
			return nil, err
		}
		again := *c.Receiver.(*digest)
		return &again, nil
	},
}

// md5Sines are the sines of 1 to 64, as fractions of 32 bits.
var md5Sines = [64]uint32{
	0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
	0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
	0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
	0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
	0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
	0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
	0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
	0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
}

// sha2Roots are the fractions of the cube roots of the first primes, in 64 bits. The upper halves
// belong to the short SHA-2.
var sha2Roots = [80]uint64{
	0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
	0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
	0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
	0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
	0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
	0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
	0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
	0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
	0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
	0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
	0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
	0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
	0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
	0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
	0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
	0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
	0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
	0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
	0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
	0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
}

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
