package rewrite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// machine is a simple WebAssembly interpreter that counts costs. It is an
// independent check of results and costs: it shares only the decoder with the passes,
// and nothing with wazero. Modules must be valid.
type machine struct {
	m       *Module
	code    []machineCode
	types   []uint32
	imports []machineHost
	mem     []byte
	maxMem  uint64
	globals []uint64
	tables  [][]uint64 // elements are function index + 1, 0 is null
	data    [][]byte   // nil once dropped
	elems   [][]uint64

	called []bool // by function: whether it was

	cost  int64 // of the executed instructions
	steps int64 // number of instructions before it gives up
	depth int
}

// machineHost is an imported function.
type machineHost func(m *machine, args []uint64) []uint64

type machineCode struct {
	instrs []Instr
	match  []int // of block, loop, if: index of end; of if: other is else or -1
	other  []int
	locals int
}

var (
	errMachineTrap  = errors.New("trap")
	errMachineSteps = errors.New("too many steps")
)

func trapf(format string, args ...any) {
	panic(fmt.Errorf("%w: %s", errMachineTrap, fmt.Sprintf(format, args...)))
}

func newMachine(wasm []byte, imports map[string]machineHost) (*machine, error) {
	m, err := Parse(wasm)
	if err != nil {
		return nil, err
	}
	v := &machine{m: m, types: m.funcTypes(), steps: math.MaxInt64, maxMem: testPages << 16}
	for _, i := range m.Imports {
		f := imports[i.Module+"."+i.Name]
		if i.Kind != KindFunc || f == nil {
			return nil, fmt.Errorf("import %s.%s", i.Module, i.Name)
		}
		v.imports = append(v.imports, f)
	}
	for i := range m.Funcs {
		f := &m.Funcs[i]
		instrs, err := f.Decode(nil)
		if err != nil {
			return nil, err
		}
		c := machineCode{instrs: instrs, match: make([]int, len(instrs)), other: make([]int, len(instrs)), locals: int(m.locals(f))}
		var open []int
		for j, in := range instrs {
			switch in.Op {
			case OpBlock, OpLoop, OpIf:
				open = append(open, j)
				c.other[j] = -1
			case OpElse:
				c.other[open[len(open)-1]] = j
			case OpEnd:
				if len(open) > 0 {
					b := open[len(open)-1]
					open = open[:len(open)-1]
					c.match[b] = j
					if c.other[b] > 0 {
						c.match[c.other[b]] = j
					}
				}
			}
		}
		v.code = append(v.code, c)
	}
	v.called = make([]bool, len(v.code))
	return v, v.instantiate()
}

func (v *machine) instantiate() error {
	m := v.m
	if len(m.Memories) > 0 {
		v.mem = make([]byte, uint64(m.Memories[0].Min)<<16)
		if m.Memories[0].HasMax {
			v.maxMem = min(v.maxMem, uint64(m.Memories[0].Max)<<16)
		}
	}
	for _, g := range m.Globals {
		v.globals = append(v.globals, v.constant(g.Init))
	}
	for _, t := range m.Tables {
		v.tables = append(v.tables, make([]uint64, t.Min))
	}
	for _, e := range m.Elems {
		var refs []uint64
		for _, in := range e.Init {
			refs = append(refs, v.constant(in))
		}
		if e.Mode == Active {
			at := uint64(uint32(v.constant(e.Offset)))
			if at+uint64(len(refs)) > uint64(len(v.tables[e.Table])) {
				return errMachineTrap
			}
			copy(v.tables[e.Table][at:], refs)
		}
		if e.Mode != Passive {
			refs = nil
		}
		v.elems = append(v.elems, refs)
	}
	for _, d := range m.Data {
		b := d.Bytes
		if d.Mode == Active {
			at := uint64(uint32(v.constant(d.Offset)))
			if at+uint64(len(b)) > uint64(len(v.mem)) {
				return errMachineTrap
			}
			copy(v.mem[at:], b)
			b = nil
		}
		v.data = append(v.data, b)
	}
	return nil
}

func (v *machine) constant(in Instr) uint64 {
	switch in.Op {
	case OpGlobalGet:
		return v.globals[in.Index]
	case OpRefFunc:
		return uint64(in.Index) + 1
	case OpRefNull:
		return 0
	case OpI32Const:
		return uint64(uint32(in.Value))
	}
	return uint64(in.Value)
}

// invoke calls an export. err is errMachineTrap or errMachineSteps.
func (v *machine) invoke(name string, args ...uint64) (results []uint64, err error) {
	for _, e := range v.m.Exports {
		if e.Name == name && e.Kind == KindFunc {
			defer func() {
				if r := recover(); r != nil {
					var ok bool
					if err, ok = r.(error); !ok || !errors.Is(err, errMachineTrap) && !errors.Is(err, errMachineSteps) {
						panic(r)
					}
				}
			}()
			v.depth = 0
			return v.call(e.Index, args), nil
		}
	}
	return nil, fmt.Errorf("no export %q", name)
}

func (v *machine) call(f uint32, args []uint64) []uint64 {
	if int(f) < len(v.imports) {
		return v.imports[f](v, args)
	}
	if v.depth++; v.depth > 10_000 {
		trapf("stack overflow")
	}
	v.called[int(f)-len(v.imports)] = true
	c := &v.code[int(f)-len(v.imports)]
	fr := frame{v: v, c: c, locals: make([]uint64, c.locals)}
	copy(fr.locals, args)
	n := len(v.m.Types[v.types[f]].Results)
	fr.run(n)
	v.depth--
	return fr.stack[len(fr.stack)-n:]
}

type frame struct {
	v      *machine
	c      *machineCode
	locals []uint64
	stack  []uint64
	labels []machineLabel
}

type machineLabel struct {
	to     int // index at which to continue
	height int // of the stack below the block's parameters
	arity  int
	loop   bool
}

func (f *frame) pop() uint64 {
	x := f.stack[len(f.stack)-1]
	f.stack = f.stack[:len(f.stack)-1]
	return x
}
func (f *frame) pop32() uint32   { return uint32(f.pop()) }
func (f *frame) push(x uint64)   { f.stack = append(f.stack, x) }
func (f *frame) push32(x uint32) { f.push(uint64(x)) }
func (f *frame) pushBool(b bool) {
	x := uint64(0)
	if b {
		x = 1
	}
	f.push(x)
}
func (f *frame) popF32() float32   { return math.Float32frombits(f.pop32()) }
func (f *frame) popF64() float64   { return math.Float64frombits(f.pop()) }
func (f *frame) pushF32(x float32) { f.push32(math.Float32bits(x)) }
func (f *frame) pushF64(x float64) { f.push(math.Float64bits(x)) }

// arity returns the number of parameters and results of a block.
func (f *frame) arity(t int64) (params, results int) {
	if t >= 0 {
		typ := f.v.m.Types[t]
		return len(typ.Params), len(typ.Results)
	}
	if t == noResult {
		return 0, 0
	}
	return 0, 1
}

// branch takes a branch to a label. It returns the index at which to continue.
func (f *frame) branch(depth uint32) int {
	l := f.labels[len(f.labels)-1-int(depth)]
	copy(f.stack[l.height:], f.stack[len(f.stack)-l.arity:])
	f.stack = f.stack[:l.height+l.arity]
	f.labels = f.labels[:len(f.labels)-1-int(depth)]
	if l.loop {
		f.labels = append(f.labels, l)
	}
	return l.to
}

func (f *frame) run(results int) {
	v := f.v
	f.labels = append(f.labels, machineLabel{to: len(f.c.instrs), arity: results})
	for pc := 0; pc < len(f.c.instrs); pc++ {
		in := &f.c.instrs[pc]
		switch in.Op {
		case OpBlock, OpLoop, OpElse, OpEnd, OpNop:
		default:
			v.cost++
		}
		if v.steps--; v.steps < 0 {
			panic(errMachineSteps)
		}
		switch in.Op {
		case OpUnreachable:
			trapf("unreachable")
		case OpNop:
		case OpBlock, OpLoop, OpIf:
			params, results := f.arity(in.Value)
			taken := in.Op != OpIf || f.pop32() != 0
			l := machineLabel{to: f.c.match[pc] + 1, height: len(f.stack) - params, arity: results}
			if in.Op == OpLoop {
				l = machineLabel{to: pc + 1, height: len(f.stack) - params, arity: params, loop: true}
			}
			switch {
			case taken:
				f.labels = append(f.labels, l)
			case f.c.other[pc] > 0:
				f.labels = append(f.labels, l)
				pc = f.c.other[pc]
			default:
				pc = f.c.match[pc]
			}
		case OpElse: // the end of the first arm
			pc = f.c.match[pc]
			f.labels = f.labels[:len(f.labels)-1]
		case OpEnd:
			f.labels = f.labels[:len(f.labels)-1]
		case OpBr:
			pc = f.branch(in.Index) - 1
		case OpBrIf:
			if f.pop32() != 0 {
				pc = f.branch(in.Index) - 1
			}
		case OpBrTable:
			i := min(uint64(f.pop32()), uint64(len(in.Labels)-1))
			pc = f.branch(in.Labels[i]) - 1
		case OpReturn:
			pc = f.branch(uint32(len(f.labels)-1)) - 1
		case OpCall:
			f.call(in.Index)
		case OpCallIndirect:
			i := f.pop32()
			if int(i) >= len(v.tables[in.Index2]) || v.tables[in.Index2][i] == 0 {
				trapf("undefined element")
			}
			fn := uint32(v.tables[in.Index2][i] - 1)
			if !v.m.Types[v.types[fn]].equal(v.m.Types[in.Index]) {
				trapf("type mismatch")
			}
			f.call(fn)
		default:
			if in.Op >= 0x45 && in.Op <= 0xc4 || in.Op >= 0xfc00 && in.Op <= 0xfc07 {
				f.numeric(in.Op)
			} else {
				f.plain(in)
			}
		}
	}
}

func (f *frame) call(i uint32) {
	n := len(f.v.m.Types[f.v.types[i]].Params)
	args := f.stack[len(f.stack)-n:]
	f.stack = append(f.stack[:len(f.stack)-n], f.v.call(i, args)...)
}

// plain executes instructions that neither branch nor compute.
func (f *frame) plain(in *Instr) {
	v := f.v
	switch in.Op {
	case OpDrop:
		f.pop()
	case OpSelect, OpSelectT:
		c, b, a := f.pop32(), f.pop(), f.pop()
		if c == 0 {
			a = b
		}
		f.push(a)
	case OpLocalGet:
		f.push(f.locals[in.Index])
	case OpLocalSet:
		f.locals[in.Index] = f.pop()
	case OpLocalTee:
		f.locals[in.Index] = f.stack[len(f.stack)-1]
	case OpGlobalGet:
		f.push(v.globals[in.Index])
	case OpGlobalSet:
		v.globals[in.Index] = f.pop()
	case OpI32Const, OpRefNull, OpRefFunc, OpI64Const, OpF32Const, OpF64Const:
		f.push(v.constant(*in))
	case 0xd1: // ref.is_null
		f.pushBool(f.pop() == 0)
	case OpMemorySize:
		f.push32(uint32(len(v.mem) >> 16))
	case OpMemoryGrow:
		pages := uint64(f.pop32())
		v.cost += int64(min(pages, 65536) * 8192)
		if old := uint64(len(v.mem)); old+pages<<16 > v.maxMem {
			f.push32(math.MaxUint32)
		} else {
			v.mem = append(v.mem, make([]byte, pages<<16)...)
			f.push32(uint32(old >> 16))
		}
	case OpMemoryCopy, OpMemoryFill, OpMemoryInit:
		n, b, a := uint64(f.pop32()), f.pop(), uint64(f.pop32())
		v.cost += int64(n / 8)
		to := v.bytes(a, n)
		switch in.Op {
		case OpMemoryCopy:
			copy(to, v.bytes(uint64(uint32(b)), n))
		case OpMemoryInit:
			if b = uint64(uint32(b)); b+n > uint64(len(v.data[in.Index])) {
				trapf("out of bounds")
			}
			copy(to, v.data[in.Index][b:])
		default:
			for i := range to {
				to[i] = byte(b)
			}
		}
	case OpDataDrop:
		v.data[in.Index] = nil
	case OpElemDrop:
		v.elems[in.Index] = nil
	case OpTableSize:
		f.push32(uint32(len(v.tables[in.Index])))
	case OpTableGet:
		f.push(v.refs(in.Index, uint64(f.pop32()), 1)[0])
	case OpTableSet:
		x := f.pop()
		v.refs(in.Index, uint64(f.pop32()), 1)[0] = x
	case OpTableGrow:
		n := uint64(f.pop32())
		x := f.pop()
		v.cost += int64(n)
		old, most := uint64(len(v.tables[in.Index])), uint64(math.MaxUint32-1)
		if l := v.m.Tables[in.Index].Limits; l.HasMax {
			most = uint64(l.Max)
		}
		if old+n > most {
			f.push32(math.MaxUint32)
			return
		}
		f.push32(uint32(old))
		for range n {
			v.tables[in.Index] = append(v.tables[in.Index], x)
		}
	case OpTableFill:
		n, x, at := uint64(f.pop32()), f.pop(), uint64(f.pop32())
		v.cost += int64(n)
		to := v.refs(in.Index, at, n)
		for i := range to {
			to[i] = x
		}
	case OpTableCopy, OpTableInit:
		n, from, at := uint64(f.pop32()), uint64(f.pop32()), uint64(f.pop32())
		v.cost += int64(n)
		if in.Op == OpTableCopy {
			copy(v.refs(in.Index, at, n), v.refs(in.Index2, from, n))
		} else if to := v.refs(in.Index2, at, n); from+n > uint64(len(v.elems[in.Index])) {
			trapf("out of bounds")
		} else {
			copy(to, v.elems[in.Index][from:])
		}
	default:
		f.access(in)
	}
}

func (v *machine) bytes(at, n uint64) []byte {
	if at+n > uint64(len(v.mem)) {
		trapf("out of bounds")
	}
	return v.mem[at : at+n]
}

func (v *machine) refs(table uint32, at, n uint64) []uint64 {
	if at+n > uint64(len(v.tables[table])) {
		trapf("out of bounds")
	}
	return v.tables[table][at : at+n]
}

// access executes loads and stores.
func (f *frame) access(in *Instr) {
	widths := [...]uint64{4, 8, 4, 8, 1, 1, 2, 2, 1, 1, 2, 2, 4, 4, 4, 8, 4, 8, 1, 2, 1, 2, 4}
	width := widths[in.Op-0x28]
	store := in.Op >= 0x36
	var x uint64
	if store {
		x = f.pop()
	}
	b := f.v.bytes(uint64(f.pop32())+uint64(in.Value), width)
	var buf [8]byte
	if store {
		binary.LittleEndian.PutUint64(buf[:], x)
		copy(b, buf[:])
		return
	}
	copy(buf[:], b)
	x = binary.LittleEndian.Uint64(buf[:])
	switch in.Op {
	case 0x2c:
		x = uint64(uint32(int8(x)))
	case 0x2e:
		x = uint64(uint32(int16(x)))
	case 0x30:
		x = uint64(int8(x))
	case 0x32:
		x = uint64(int16(x))
	case 0x34:
		x = uint64(int32(x))
	}
	f.push(x)
}
