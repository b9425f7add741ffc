package rewrite

import (
	"math"
	"math/bits"
)

// numeric executes the numeric instructions for the machine.
func (f *frame) numeric(op Op) {
	switch {
	case op == 0x45:
		f.pushBool(f.pop32() == 0)
	case op == 0x50:
		f.pushBool(f.pop() == 0)
	case op < 0x50:
		b, a := f.pop32(), f.pop32()
		f.compare(int(op-0x46), uint64(a), uint64(b), int64(int32(a)), int64(int32(b)))
	case op < 0x5b:
		b, a := f.pop(), f.pop()
		f.compare(int(op-0x51), a, b, int64(a), int64(b))
	case op < 0x61:
		b, a := f.popF32(), f.popF32()
		f.compareFloat(int(op-0x5b), float64(a), float64(b))
	case op < 0x67:
		b, a := f.popF64(), f.popF64()
		f.compareFloat(int(op-0x61), a, b)
	case op < 0x6a:
		x := f.pop32()
		f.push32(uint32([]int{bits.LeadingZeros32(x), bits.TrailingZeros32(x), bits.OnesCount32(x)}[op-0x67]))
	case op < 0x79:
		b, a := f.pop32(), f.pop32()
		f.push32(arith32(int(op-0x6a), a, b))
	case op < 0x7c:
		x := f.pop()
		f.push(uint64([]int{bits.LeadingZeros64(x), bits.TrailingZeros64(x), bits.OnesCount64(x)}[op-0x79]))
	case op < 0x8b:
		b, a := f.pop(), f.pop()
		f.push(arith64(int(op-0x7c), a, b))
	case op < 0x92:
		x := f.pop32()
		switch op {
		case 0x8b:
			f.push32(x &^ (1 << 31))
		case 0x8c:
			f.push32(x ^ 1<<31)
		default:
			f.pushF32(float32(unary(int(op-0x8b), float64(math.Float32frombits(x)))))
		}
	case op < 0x99:
		y, x := f.pop32(), f.pop32()
		b, a := math.Float32frombits(y), math.Float32frombits(x)
		switch op {
		case 0x92:
			f.pushF32(a + b)
		case 0x93:
			f.pushF32(a - b)
		case 0x94:
			f.pushF32(a * b)
		case 0x95:
			f.pushF32(a / b)
		case 0x96:
			f.pushF32(float32(math.Min(float64(a), float64(b))))
		case 0x97:
			f.pushF32(float32(math.Max(float64(a), float64(b))))
		default:
			f.push32(x&^(1<<31) | y&(1<<31))
		}
	case op < 0xa0:
		x := f.pop()
		switch op {
		case 0x99:
			f.push(x &^ (1 << 63))
		case 0x9a:
			f.push(x ^ 1<<63)
		default:
			f.pushF64(unary(int(op-0x99), math.Float64frombits(x)))
		}
	case op < 0xa7:
		y, x := f.pop(), f.pop()
		b, a := math.Float64frombits(y), math.Float64frombits(x)
		switch op {
		case 0xa0:
			f.pushF64(a + b)
		case 0xa1:
			f.pushF64(a - b)
		case 0xa2:
			f.pushF64(a * b)
		case 0xa3:
			f.pushF64(a / b)
		case 0xa4:
			f.pushF64(math.Min(a, b))
		case 0xa5:
			f.pushF64(math.Max(a, b))
		default:
			f.push(x&^(1<<63) | y&(1<<63))
		}
	default:
		f.convert(op)
	}
}

func (f *frame) compare(i int, a, b uint64, sa, sb int64) {
	f.pushBool([]bool{a == b, a != b, sa < sb, a < b, sa > sb, a > b, sa <= sb, a <= b, sa >= sb, a >= b}[i])
}

func (f *frame) compareFloat(i int, a, b float64) {
	f.pushBool([]bool{a == b, a != b, a < b, a > b, a <= b, a >= b}[i])
}

func unary(i int, x float64) float64 {
	return []func(float64) float64{nil, nil, math.Ceil, math.Floor, math.Trunc, math.RoundToEven, math.Sqrt}[i](x)
}

func arith32(i int, a, b uint32) uint32 {
	switch i {
	case 0:
		return a + b
	case 1:
		return a - b
	case 2:
		return a * b
	case 3, 4, 5, 6:
		if b == 0 || i == 3 && a == 1<<31 && int32(b) == -1 {
			trapf("division")
		}
		switch i {
		case 3:
			return uint32(int32(a) / int32(b))
		case 4:
			return a / b
		case 5:
			if int32(b) == -1 {
				return 0
			}
			return uint32(int32(a) % int32(b))
		}
		return a % b
	case 7:
		return a & b
	case 8:
		return a | b
	case 9:
		return a ^ b
	case 10:
		return a << (b % 32)
	case 11:
		return uint32(int32(a) >> (b % 32))
	case 12:
		return a >> (b % 32)
	case 13:
		return bits.RotateLeft32(a, int(b%32))
	}
	return bits.RotateLeft32(a, -int(b%32))
}

func arith64(i int, a, b uint64) uint64 {
	switch i {
	case 0:
		return a + b
	case 1:
		return a - b
	case 2:
		return a * b
	case 3, 4, 5, 6:
		if b == 0 || i == 3 && a == 1<<63 && int64(b) == -1 {
			trapf("division")
		}
		switch i {
		case 3:
			return uint64(int64(a) / int64(b))
		case 4:
			return a / b
		case 5:
			if int64(b) == -1 {
				return 0
			}
			return uint64(int64(a) % int64(b))
		}
		return a % b
	case 7:
		return a & b
	case 8:
		return a | b
	case 9:
		return a ^ b
	case 10:
		return a << (b % 64)
	case 11:
		return uint64(int64(a) >> (b % 64))
	case 12:
		return a >> (b % 64)
	case 13:
		return bits.RotateLeft64(a, int(b%64))
	}
	return bits.RotateLeft64(a, -int(b%64))
}

func (f *frame) convert(op Op) {
	switch op {
	case 0xa7:
		f.push32(uint32(f.pop()))
	case 0xa8, 0xa9, 0xae, 0xaf, 0xfc00, 0xfc01, 0xfc04, 0xfc05:
		f.truncate(op, float64(f.popF32()))
	case 0xaa, 0xab, 0xb0, 0xb1, 0xfc02, 0xfc03, 0xfc06, 0xfc07:
		f.truncate(op, f.popF64())
	case 0xac:
		f.push(uint64(int32(f.pop32())))
	case 0xad:
		f.push(uint64(f.pop32()))
	case 0xb2:
		f.pushF32(float32(int32(f.pop32())))
	case 0xb3:
		f.pushF32(float32(f.pop32()))
	case 0xb4:
		f.pushF32(float32(int64(f.pop())))
	case 0xb5:
		f.pushF32(float32(f.pop()))
	case 0xb6:
		f.pushF32(float32(f.popF64()))
	case 0xb7:
		f.pushF64(float64(int32(f.pop32())))
	case 0xb8:
		f.pushF64(float64(f.pop32()))
	case 0xb9:
		f.pushF64(float64(int64(f.pop())))
	case 0xba:
		f.pushF64(float64(f.pop()))
	case 0xbb:
		f.pushF64(float64(f.popF32()))
	case 0xbc, 0xbd, 0xbe, 0xbf: // the bits do not change
	case 0xc0:
		f.push32(uint32(int8(f.pop())))
	case 0xc1:
		f.push32(uint32(int16(f.pop())))
	case 0xc2:
		f.push(uint64(int8(f.pop())))
	case 0xc3:
		f.push(uint64(int16(f.pop())))
	case 0xc4:
		f.push(uint64(int32(f.pop())))
	default:
		panic(op)
	}
}

// truncate converts x to an integer. op determines size and sign, and whether it
// saturates.
func (f *frame) truncate(op Op, x float64) {
	saturate := op >= 0xfc00
	wide := op >= 0xae && op <= 0xb1 || op >= 0xfc04
	signed := map[Op]bool{0xa8: true, 0xaa: true, 0xae: true, 0xb0: true, 0xfc00: true, 0xfc02: true, 0xfc04: true, 0xfc06: true}[op]
	low, high := 0.0, float64(1<<32) // x truncated has to be in [low, high)
	switch {
	case wide && signed:
		low, high = math.MinInt64, 1<<63
	case wide:
		high = 1 << 64
	case signed:
		low, high = math.MinInt32, 1<<31
	}
	t := math.Trunc(x)
	var out uint64
	switch {
	case t >= low && t < high && signed:
		out = uint64(int64(t))
	case t >= low && t < high:
		out = uint64(t)
	case !saturate:
		trapf("conversion")
	case t < low && signed && wide:
		out = 1 << 63
	case t < low && signed:
		out = 1 << 31
	case t >= high && signed && wide:
		out = math.MaxInt64
	case t >= high && signed:
		out = math.MaxInt32
	case t >= high:
		out = math.MaxUint64
	}
	if !wide {
		out = uint64(uint32(out))
	}
	f.push(out)
}
