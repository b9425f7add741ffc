package rewrite

import (
	"context"
	"errors"
	"testing"
)

// module returns a module with one exported function "run" of the instructions,
// which have no final end.
func module(m Module, t FuncType, code ...Instr) []byte {
	m.Types = append([]FuncType{t}, m.Types...)
	m.Funcs = append([]Func{{Body: append(appendAll(nil, code...), byte(OpEnd))}}, m.Funcs...)
	m.Exports = append(m.Exports, Export{"run", KindFunc, 0})
	return m.Encode()
}

func block(op Op) Instr              { return Instr{Op: op, Value: noResult} }
func op(o Op, index ...uint32) Instr { return Instr{Op: o, Index: append(index, 0)[0]} }
func i32(v int32) Instr              { return Instr{Op: OpI32Const, Value: int64(v)} }
func i64(v int64) Instr              { return Instr{Op: OpI64Const, Value: v} }

var (
	memory = Module{Memories: []Limits{{Min: 1, Max: 1000, HasMax: true}}}
	table  = Module{
		Tables: []Table{{FuncRef, Limits{Min: 3}}},
		Elems:  []Elem{{Type: FuncRef, Offset: i32(1), Init: []Instr{op(OpRefFunc, 0)}}},
	}
	end1 = op(OpEnd)
)

// runaways are functions that never end or do too much in one instruction.
var runaways = map[string][]byte{
	"empty loop":      module(Module{}, FuncType{}, block(OpLoop), op(OpBr, 0), end1),
	"br_if":           module(Module{}, FuncType{}, block(OpLoop), i32(1), op(OpBrIf, 0), end1),
	"br_table":        module(Module{}, FuncType{}, block(OpLoop), i32(0), Instr{Op: OpBrTable, Labels: []uint32{0, 1}}, end1),
	"default target":  module(Module{}, FuncType{}, block(OpLoop), i32(9), Instr{Op: OpBrTable, Labels: []uint32{1, 1, 0}}, end1),
	"outer loop":      module(Module{}, FuncType{}, block(OpLoop), block(OpLoop), block(OpLoop), op(OpBr, 2), end1, end1, end1),
	"two loops":       module(Module{}, FuncType{}, block(OpLoop), block(OpLoop), i32(0), op(OpBrIf, 0), end1, op(OpBr, 0), end1),
	"out of an if":    module(Module{}, FuncType{}, block(OpLoop), i32(1), block(OpIf), op(OpBr, 1), op(OpElse), op(OpReturn), end1, end1),
	"with parameters": module(Module{Types: []FuncType{{[]ValType{I32}, nil}}}, FuncType{}, i32(5), Instr{Op: OpLoop, Value: 1}, op(OpBr, 0), end1),
	// The last segment jumps back to the first one.
	"go's shape":            goShape(i32(0), op(OpLocalSet, 0), op(OpBr, 0)),
	"go's shape, to itself": goShape(i32(1), op(OpLocalSet, 0), op(OpBr, 0)),
	"go's shape, default":   goShape(i32(-1), op(OpLocalSet, 0), op(OpBr, 0)),
	"go's shape, unknown":   goShape(op(OpLocalGet, 0), i32(1), op(OpI32Sub), op(OpLocalSet, 0), op(OpBr, 0)),
	"go's shape, tee":       goShape(i32(0), op(OpLocalTee, 0), op(OpDrop), op(OpBr, 0)),
	// It sets another local, so this is not an exit.
	"go's shape, another local": goShape(i32(0), op(OpLocalSet, 0), i32(2), op(OpLocalSet, 1), op(OpBr, 0)),
	"go's shape, br_if":         goShape(i32(0), op(OpLocalSet, 0), i32(1), op(OpBrIf, 0)),
	"table to its own loop":     module(Module{}, FuncType{Params: []ValType{I32}}, block(OpLoop), op(OpLocalGet, 0), Instr{Op: OpBrTable, Labels: []uint32{1, 0}}, end1),
	"recursion":                 module(Module{}, FuncType{}, op(OpCall, 0)),
	"recursion, forked":         module(Module{}, FuncType{Params: []ValType{I32}}, op(OpLocalGet, 0), block(OpIf), op(OpLocalGet, 0), i32(1), op(OpI32Sub), op(OpCall, 0), op(OpLocalGet, 0), i32(1), op(OpI32Sub), op(OpCall, 0), end1),
	"recursion into a loop":     module(Module{}, FuncType{}, block(OpLoop), op(OpCall, 0), end1),
	"recursion, indirect":       module(table, FuncType{}, i32(1), op(OpCallIndirect, 0)),
	"fill":                      module(memory, FuncType{}, i32(0), i32(0), i32(-1), op(OpMemoryFill)),
	"fill, then a loop":         module(memory, FuncType{}, block(OpLoop), i32(0), i32(0), i32(4096), op(OpMemoryFill), op(OpBr, 0), end1),
	"copy":                      module(memory, FuncType{}, i32(0), i32(0), i32(-2147483648), op(OpMemoryCopy)),
	"grow and grow":             module(memory, FuncType{}, block(OpLoop), i32(1), op(OpMemoryGrow), op(OpDrop), op(OpBr, 0), end1),
	"grow by all":               module(memory, FuncType{}, i32(-1), op(OpMemoryGrow), op(OpDrop)),
	"table.grow":                module(table, FuncType{}, Instr{Op: OpRefNull, Index: uint32(FuncRef)}, i32(-1), op(OpTableGrow), op(OpDrop)),
	"fill of unknown length":    module(memory, FuncType{Params: []ValType{I32}}, i32(0), i32(0), op(OpLocalGet, 0), op(OpMemoryFill)),
}

// goShape returns a function like those of Go's compiler: a loop over a switch. Its
// first segment jumps forward to the second, which is tail. Index 2 leaves the
// function; larger ones select the second segment.
func goShape(tail ...Instr) []byte {
	code := []Instr{block(OpBlock), block(OpLoop), block(OpBlock), block(OpBlock), op(OpLocalGet, 0), {Op: OpBrTable, Labels: []uint32{0, 1, 3, 1}}, end1,
		i32(1), op(OpLocalSet, 0), op(OpBr, 1), end1}
	return module(Module{}, FuncType{Params: []ValType{I32, I32}}, append(append(code, tail...), end1, end1)...)
}

// TestChecks checks how many places check fuel: forward jumps need no check.
func TestChecks(t *testing.T) {
	checks := func(wasm []byte) (n int) {
		m, err := Parse(wasm)
		if err != nil {
			t.Fatal(err)
		}
		instrs, err := m.Funcs[0].Decode(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range new(flow).charges(instrs) {
			if c.check {
				n++
			}
		}
		return n
	}
	for name, c := range map[string]struct {
		wasm []byte
		want int
	}{
		"no loop":             {module(Module{}, FuncType{}, i32(1), op(OpDrop)), 0},
		"a loop only by name": {module(Module{}, FuncType{}, block(OpLoop), i32(1), op(OpDrop), end1), 0},
		"loop":                {runaways["empty loop"], 1},
		"call":                {runaways["recursion"], 1},
		"call in a loop":      {runaways["recursion into a loop"], 1},
		"jumps ahead":         {goShape(i32(2), op(OpLocalSet, 0), op(OpBr, 0)), 0},
		"jump back":           {runaways["go's shape"], 1},
		"unknown jump":        {runaways["go's shape, unknown"], 1},
		"conditional jump":    {runaways["go's shape, br_if"], 1},
	} {
		if got := checks(c.wasm); got != c.want {
			t.Errorf("%s: %d checks, want %d", name, got, c.want)
		}
	}
}

// runawayArgument has the first arguments that are not 0.
var runawayArgument = map[string]uint64{"recursion, forked": 1<<31 - 1, "fill of unknown length": 1<<31 - 1, "table to its own loop": 1}

// TestRunaways checks that fuel_out is called in all shapes of runaways, and ends
// them.
func TestRunaways(t *testing.T) {
	for name, wasm := range runaways {
		t.Run(name, func(t *testing.T) {
			passes := [][]Pass{{Meter(testMeter)}, {DirectCalls(), Meter(testMeter)}, {Meter(testMeter), DirectCalls()}}
			if name == "table.grow" {
				passes = passes[:1] // not for DirectCalls
			}
			for _, p := range passes {
				mod := instance(t, interpreter(t), rewritten(t, wasm, p...))
				// Little fuel, so that deep recursion does not overflow the stack first.
				e := invoke(mod, "run", 900, 100, []uint64{runawayArgument[name], 0}[:len(mod.ExportedFunction("run").Definition().ParamTypes())]...)
				if !errors.Is(e.err, errFuel) {
					t.Errorf("ended with %v, %d units used", e.err, e.fuel)
				}
				if name != "fill, then a loop" && e.memory != nil && len(e.memory) > 1<<16 {
					t.Errorf("%d bytes of memory", len(e.memory))
				}
			}
		})
	}
}

// TestCounterDoesNotWrap checks the largest charge that is possible at once.
func TestCounterDoesNotWrap(t *testing.T) {
	for _, name := range []string{"fill", "grow by all", "table.grow"} {
		mod := instance(t, interpreter(t), rewritten(t, runaways[name], Meter(testMeter)))
		ctx := context.WithValue(context.Background(), tankKey{}, (*tank)(nil))
		fuel := mod.ExportedGlobal("fuel")
		_, _ = mod.ExportedFunction("run").Call(ctx)
		left := int64(fuel.Get())
		if left <= 0 || left > 1<<60 {
			t.Errorf("%s: %d after a refill of 1<<60", name, left)
		}
	}
}

// TestCosts checks the documented costs.
func TestCosts(t *testing.T) {
	one := FuncType{Params: []ValType{I32}}
	for name, c := range map[string]struct {
		wasm []byte
		arg  []uint64
		want int64
	}{
		"nothing":            {module(Module{}, FuncType{}), nil, 0},
		"structure is free":  {module(Module{}, FuncType{}, block(OpBlock), block(OpLoop), op(OpNop), end1, end1), nil, 0},
		"instructions":       {module(Module{}, FuncType{}, i32(1), i32(2), op(OpI32Sub), op(OpDrop)), nil, 4},
		"fill 4096":          {module(memory, FuncType{}, i32(0), i32(0), i32(4096), op(OpMemoryFill)), nil, 4 + 512},
		"fill 4097":          {module(memory, FuncType{}, i32(0), i32(0), i32(4097), op(OpMemoryFill)), nil, 4 + 512},
		"fill 7":             {module(memory, one, i32(0), i32(0), op(OpLocalGet, 0), op(OpMemoryFill)), []uint64{7}, 4},
		"copy 65536":         {module(memory, one, i32(0), i32(0), op(OpLocalGet, 0), op(OpMemoryCopy)), []uint64{65536}, 4 + 8192},
		"grow by 3":          {module(memory, one, op(OpLocalGet, 0), op(OpMemoryGrow), op(OpDrop)), []uint64{3}, 3 + 3*8192},
		"grow by too much":   {module(memory, one, op(OpLocalGet, 0), op(OpMemoryGrow), op(OpDrop)), []uint64{60000}, 3 + 60000*8192},
		"grow by everything": {module(memory, one, op(OpLocalGet, 0), op(OpMemoryGrow), op(OpDrop)), []uint64{1<<32 - 1}, 3 + 65536*8192},
		"if":                 {module(Module{}, one, op(OpLocalGet, 0), block(OpIf), op(OpNop), op(OpElse), i32(1), op(OpDrop), end1), []uint64{1}, 2},
		"else":               {module(Module{}, one, op(OpLocalGet, 0), block(OpIf), op(OpNop), op(OpElse), i32(1), op(OpDrop), end1), []uint64{0}, 4},
		"dead code is free":  {module(Module{}, FuncType{}, op(OpReturn), i32(1), op(OpDrop)), nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := invoke(instance(t, interpreter(t), rewritten(t, c.wasm, Meter(testMeter))), "run", plenty, plenty, c.arg...)
			if e.err != nil || e.fuel != c.want {
				t.Errorf("%d units used, %v, want %d", e.fuel, e.err, c.want)
			}
		})
	}
}
