package rewrite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"
)

func TestRefusals(t *testing.T) {
	start := uint32(0)
	in := func(i Import) Module { return Module{Imports: []Import{i}} }
	data := []Data{{Offset: i32(0), Bytes: []byte("x")}}
	for name, c := range map[string]struct {
		m    Module
		code []Instr
		pass Pass
		want string
		// plain reports that the module is invalid, not unsupported.
		plain bool
	}{
		"data of an imported memory": {Module{Imports: []Import{{Kind: KindMemory}}, Data: data}, nil, ExtractData(), "memory is imported", false},
		"data before a start":        {Module{Memories: memory.Memories, Data: data, Start: &start}, nil, ExtractData(), "start function", false},
		"data at a global": {Module{Imports: []Import{{Kind: KindGlobal, Global: GlobalType{I32, false}}}, Memories: memory.Memories,
			Data: []Data{{Offset: op(OpGlobalGet, 0), Bytes: []byte("x")}}}, nil, ExtractData(), "offset global.get", false},
		"data out of range": {Module{Memories: memory.Memories, Data: []Data{{Offset: i32(-1), Bytes: []byte("x")}}}, nil, ExtractData(), "1 bytes at 4294967295 in a memory of 65536", true},
		"imported table":    {in(Import{Kind: KindTable, Table: Table{Type: FuncRef}}), nil, DirectCalls(), "a table is imported", false},
		"exported table":    {Module{Tables: table.Tables, Exports: []Export{{"t", KindTable, 0}}}, nil, DirectCalls(), `exported as "t"`, false},
		"table.set":         {table, []Instr{i32(0), {Op: OpRefNull, Index: uint32(FuncRef)}, op(OpTableSet)}, DirectCalls(), "table.set", false},
		"table.get":         {table, []Instr{i32(0), op(OpTableGet), op(OpDrop)}, DirectCalls(), "table.get", false},
		"elem.drop":         {table, []Instr{op(OpElemDrop)}, DirectCalls(), "elem.drop", false},
		"elements out of range": {Module{Tables: table.Tables, Elems: []Elem{{Type: FuncRef, Offset: i32(3), Init: []Instr{op(OpRefFunc, 0)}}}},
			nil, DirectCalls(), "1 elements at 3 in a table of 3", true},
		"sparse table": {Module{Tables: []Table{{FuncRef, Limits{Min: 1 << 31}}}, Elems: []Elem{
			{Type: FuncRef, Offset: i32(3), Init: []Instr{op(OpRefFunc, 0)}}, {Type: FuncRef, Offset: i32(1 << 30), Init: []Instr{op(OpRefFunc, 0)}}}},
			nil, DirectCalls(), "more than 1048576", false},
		"imported state":  {in(Import{Kind: KindGlobal, Global: GlobalType{I32, true}}), nil, ExportState(), "global 0 is mutable and imported", false},
		"reference state": {Module{Globals: []Global{{GlobalType{FuncRef, true}, Instr{Op: OpRefNull, Index: uint32(FuncRef)}}}}, nil, ExportState(), "mutable funcref", false},
		"name is taken": {Module{Globals: []Global{{GlobalType{I32, true}, i32(0)}}, Exports: []Export{{"state:0", KindGlobal, 0}}},
			nil, ExportState(), `a global "state:0" already`, true},
		"meter is taken":   {in(Import{Module: "meter", Name: "fuel_out", Kind: KindFunc}), nil, Meter(testMeter), "meter.fuel_out already", true},
		"counter is taken": {Module{Globals: []Global{{GlobalType{I32, true}, i32(0)}}, Exports: []Export{{"fuel", KindGlobal, 0}}}, nil, Meter(testMeter), `a global "fuel" already`, true},
		"memory too small": {memory, nil, LimitMemory(0), "a maximum of 0 pages", true},
		"memory too large": {memory, nil, LimitMemory(65537), "a maximum of 65537 pages", true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want == "start function" {
				c.m.Start = &start
			}
			m, err := Parse(module(c.m, FuncType{}, c.code...))
			if err != nil {
				t.Fatal(err)
			}
			err = m.Apply(c.pass)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), c.pass.Name+": ") || errors.Is(err, ErrUnsupported) == c.plain {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestMeterWithoutLocals checks a body that needs another local but already has the
// maximum.
func TestMeterWithoutLocals(t *testing.T) {
	m, err := Parse(runaways["fill of unknown length"])
	if err != nil {
		t.Fatal(err)
	}
	m.Funcs[0].Locals = []Locals{{maxLocals - 1, I32}}
	if err := m.Apply(Meter(testMeter)); err == nil || !strings.Contains(err.Error(), "none is left") {
		t.Error(err)
	}
}

// TestRenumbering checks that after adding an import, all indices refer to the same
// functions.
func TestRenumbering(t *testing.T) {
	num := func(v int32) Func { return Func{Type: 1, Body: appendAll(nil, i32(v), end1)} }
	start := uint32(6)
	m := &Module{
		Types:   []FuncType{{}, {nil, []ValType{I32}}},
		Imports: []Import{{Module: "other", Name: "seven", Kind: KindFunc, Type: 1}, {Module: "other", Name: "memory", Kind: KindMemory}},
		Tables:  []Table{{FuncRef, Limits{Min: 4}}},
		Globals: []Global{{GlobalType{FuncRef, false}, op(OpRefFunc, 2)}, {GlobalType{I32, true}, i32(0)}},
		Funcs: []Func{
			num(1), num(2), num(3),
			{Type: 1, Body: appendAll(nil, op(OpCall, 2), i32(1), Instr{Op: OpCallIndirect, Index: 1}, op(OpI32Sub), end1)}, // 2 - 3
			{Type: 1, Body: appendAll(nil, op(OpRefFunc, 3), op(0xd1), op(OpCall, 0), op(OpI32Sub), end1)},                  // 0 - 7
			{Type: 0, Body: appendAll(nil, i32(9), op(OpGlobalSet, 1), end1)},
		},
		Elems: []Elem{
			{Type: FuncRef, Offset: i32(0), Init: []Instr{op(OpRefFunc, 1), op(OpRefFunc, 3)}},
			{Mode: Declarative, Type: FuncRef, Init: []Instr{op(OpRefFunc, 3)}},
		},
		Exports: []Export{{"run", KindFunc, 4}, {"imported", KindFunc, 5}, {"three", KindFunc, 3}, {"g", KindGlobal, 1}},
		Start:   &start,
		Custom:  []Custom{{"name", nil}, {".debug_info", nil}, {"producers", []byte("kept")}},
	}
	wasm := m.Encode()
	for _, passes := range [][]Pass{{}, {Meter(testMeter)}, {Meter(testMeter), DirectCalls()}, {DirectCalls(), Meter(testMeter)}} {
		out := rewritten(t, wasm, passes...)
		r := interpreter(t)
		other := Module{
			Types: []FuncType{{nil, []ValType{I32}}}, Funcs: []Func{num(7)}, Memories: []Limits{{}},
			Exports: []Export{{"seven", KindFunc, 0}, {"memory", KindMemory, 0}},
		}
		other.Funcs[0].Type = 0
		if _, err := r.InstantiateWithConfig(context.Background(), other.Encode(), moduleNamed("other")); err != nil {
			t.Fatal(err)
		}
		mod := instance(t, r, out)
		for name, want := range map[string]int32{"run": -1, "imported": -7, "three": 3} {
			if e := invoke(mod, name, plenty, plenty); e.err != nil || int32(e.results[0]) != want {
				t.Errorf("%s: %v, %v, want %d", name, e.results, e.err, want)
			}
		}
		if got := mod.ExportedGlobal("g").Get(); got != 9 {
			t.Errorf("the start function has set %d", got)
		}
		if len(passes) > 0 && (bytes.Contains(out, []byte("debug_info")) || !bytes.Contains(out, []byte("kept"))) {
			t.Error("custom sections")
		}
	}
}

// TestDispatch checks every index of a table: with the right type, with another type,
// empty, and out of range.
func TestDispatch(t *testing.T) {
	sub := FuncType{[]ValType{I32, I32}, []ValType{I32, I64}}
	m := Module{
		Types: []FuncType{{[]ValType{I32, I32}, []ValType{I32, I64}}, {}}, // 1 is equal to sub, 0 will be of run
		Funcs: []Func{
			{Type: 1, Body: appendAll(nil, op(OpLocalGet, 0), op(OpLocalGet, 1), op(OpI32Sub), i64(11), end1)},
			{Type: 1, Body: appendAll(nil, op(OpLocalGet, 1), op(OpLocalGet, 0), op(OpI32Sub), i64(22), end1)},
			{Type: 2, Body: []byte{byte(OpEnd)}},
		},
		Tables: []Table{{FuncRef, Limits{Min: 1}}, {FuncRef, Limits{Min: 10}}},
		Elems: []Elem{{Table: 1, Type: FuncRef, Offset: i32(2), Init: []Instr{
			op(OpRefFunc, 1), op(OpRefFunc, 2), {Op: OpRefNull, Index: uint32(FuncRef)}, op(OpRefFunc, 3), op(OpRefFunc, 1)}}},
	}
	run := FuncType{[]ValType{I32}, []ValType{I32, I64}}
	m.Types = append(m.Types, sub)
	wasm := module(m, run, i32(10), i32(3), op(OpLocalGet, 0), Instr{Op: OpCallIndirect, Index: 3, Index2: 1})
	before, after := instance(t, interpreter(t), wasm), instance(t, interpreter(t), rewritten(t, wasm, DirectCalls()))
	want := map[uint32]string{2: "7 11", 3: "-7 22", 6: "7 11"}
	for i := uint32(0); i < 12; i++ {
		checkDispatch(t, before, after, i, want[i])
	}
	for _, i := range []uint32{1 << 31, 1<<32 - 1} {
		checkDispatch(t, before, after, i, "")
	}
	out, err := Parse(rewritten(t, wasm, DirectCalls()))
	if err != nil || len(out.Tables) != 0 || len(out.Elems) != 0 || len(out.Funcs) != 5 {
		t.Errorf("%v: %d tables, %d segments, %d functions", err, len(out.Tables), len(out.Elems), len(out.Funcs))
	}
}

func checkDispatch(t *testing.T, before, after api.Module, i uint32, want string) {
	t.Helper()
	a, b := invoke(before, "run", 0, 0, uint64(i)), invoke(after, "run", 0, 0, uint64(i))
	if err := a.same(b); err != nil {
		t.Errorf("element %d: %v", i, err)
	}
	got := ""
	if b.err == nil {
		got = fmt.Sprint(int32(b.results[0]), b.results[1])
	}
	if got != want {
		t.Errorf("element %d: %q, want %q", i, got, want)
	}
}

func TestExtractData(t *testing.T) {
	m := Module{Memories: memory.Memories, Data: []Data{
		{Offset: i32(5), Bytes: []byte("hello")}, {Offset: i32(7), Bytes: []byte("LL")}, {Offset: i32(0)},
	}}
	out := rewritten(t, module(m, FuncType{}), ExtractData())
	got, err := Segments(out)
	want := []Segment{{5, []byte("hello")}, {7, []byte("LL")}}
	if err != nil || !slices.EqualFunc(got, want, func(a, b Segment) bool { return a.Offset == b.Offset && bytes.Equal(a.Bytes, b.Bytes) }) {
		t.Errorf("%v, %v", got, err)
	}
	parsed, err := Parse(out)
	if err != nil || len(parsed.Data) != 0 {
		t.Errorf("%d segments stay, %v", len(parsed.Data), err)
	}
	for name, wasm := range map[string][]byte{
		"no module":       []byte("hello"),
		"no section":      module(m, FuncType{}),
		"cut off":         out[:len(out)-1],
		"section too big": build("\x00\x0cmemory-image\x01\x00\x09abc"),
		"bytes behind":    build("\x00\x0cmemory-image\x00\x00"),
	} {
		var p *ParseError
		if _, err := Segments(wasm); !errors.As(err, &p) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestState checks that the exports of ExportState and the memory are the whole
// state.
func TestState(t *testing.T) {
	tested := 0
	for _, seed := range seeds(60) {
		wasm := rewritten(t, generate(seed), allPasses()...)
		r := interpreter(t)
		first, second := instance(t, r, wasm), instance(t, r, wasm)
		if e := invoke(first, "run", plenty, plenty, arguments(first, "run")...); e.err != nil || len(e.memory) != int(second.Memory().Size()) {
			continue
		}
		tested++
		mem, _ := first.Memory().Read(0, first.Memory().Size())
		second.Memory().Write(0, mem)
		for i := range 3 {
			name := fmt.Sprint(StatePrefix, i)
			second.ExportedGlobal(name).(api.MutableGlobal).Set(first.ExportedGlobal(name).Get())
		}
		if first.ExportedGlobal(StatePrefix+"3") != nil {
			t.Fatal("an immutable global is exported")
		}
		a := invoke(first, "again", plenty, plenty, arguments(first, "again")...)
		b := invoke(second, "again", plenty, plenty, arguments(second, "again")...)
		// Dropped segments are state too, but Go does not drop any.
		if usesSegments(t, generate(seed)) {
			continue
		}
		if err := a.same(b); err != nil || a.fuel != b.fuel {
			t.Errorf("seed %d: %v, %d and %d units", seed, err, a.fuel, b.fuel)
		}
	}
	if tested < 10 {
		t.Errorf("%d tested", tested)
	}
}

func usesSegments(t *testing.T, wasm []byte) bool {
	m, err := Parse(wasm)
	if err != nil {
		t.Fatal(err)
	}
	return m.namesData()
}

func TestInterface(t *testing.T) {
	m := Module{
		Imports:  []Import{{Module: "a\n", Name: "t", Kind: KindTable, Table: Table{FuncRef, Limits{1, 2, true}}}, {Module: "a", Name: "g", Kind: KindGlobal, Global: GlobalType{I64, false}}},
		Memories: []Limits{{Min: 3}},
		Exports:  []Export{{"memory", KindMemory, 0}, {"g", KindGlobal, 0}, {"t", KindTable, 0}},
	}
	wasm := module(m, FuncType{[]ValType{F64, ExternRef}, []ValType{I32}}, i32(0))
	want := []string{
		`import "a\n" "t" table funcref 1 2`,
		`import "a" "g" global i64`,
		`export "memory" memory 3`,
		`export "g" global i64`,
		`export "t" table funcref 1 2`,
		`export "run" func (f64, externref) -> (i32)`,
	}
	if got, err := Interface(wasm); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	want = slices.Insert(want, 2, `import "meter" "fuel_out" func () -> ()`)
	want = append(want, `export "fuel" global mut i64`)
	want[3] = `export "memory" memory 3 9`
	if got, err := Interface(rewritten(t, wasm, Meter(testMeter), LimitMemory(9))); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Interface([]byte(header + "\x01")); err == nil {
		t.Error("half a module has an interface")
	}
}
