package rewrite

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// goPeriods are how often the native stack is unwound: never, and at every so many
// chances.
var goPeriods = []uint64{1 << 30, 1, 2, 3, 7}

// goState is the state of a generated module after a run.
type goState struct {
	end
	globals []uint64
}

// runGo runs a generated module in a new instance.
func runGo(t testing.TB, r wazero.Runtime, wasm []byte, period uint64) goState {
	t.Helper()
	mod := instance(t, r, wasm)
	defer mod.Close(context.Background())
	s := goState{end: invoke(mod, "run", plenty, 100, period)}
	for _, name := range []string{"sp", "steps", "period", "count", "sum"} {
		s.globals = append(s.globals, mod.ExportedGlobal(name).Get())
	}
	return s
}

// structured returns the module after Structure, and how many functions have a second
// form, were replaced, or are the same.
func structured(t testing.TB, wasm []byte) (out []byte, added, replaced, same int) {
	t.Helper()
	before, err := Parse(wasm)
	if err != nil {
		t.Fatal(err)
	}
	out = rewritten(t, wasm, Structure(nil))
	m, err := Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	added = len(m.Funcs) - len(before.Funcs)
	for i := range before.Funcs {
		switch {
		case slices.Equal(m.Funcs[i].Body, before.Funcs[i].Body):
			same++
		case len(m.Funcs[i].Body) > 1 && Op(m.Funcs[i].Body[0]) == OpLocalGet: // calls the second form
		default:
			replaced++
		}
	}
	return out, added, replaced, same
}

// TestStructure runs random modules in the form of Go's compiler before and after
// Structure, and after all passes: with functions that are unwound and resumed, loops
// with several entries, and traps. Memory, globals and ends must be the same, and the
// fuel must be what the machine counts.
func TestStructure(t *testing.T) {
	n := 30
	if *long {
		n = 200
	}
	interp, comp := interpreter(t), compiler(t)
	var ran struct{ complete, trapped, unwound, added, replaced, irreducible int }
	for _, seed := range seeds(n) {
		wasm := generateGo(seed)
		engine := interp
		if seed%8 == 0 {
			engine = comp
		}
		converted, added, replaced, _ := structured(t, wasm)
		ran.added, ran.replaced = ran.added+added, ran.replaced+replaced
		ran.irreducible += irreducible(t, wasm)
		all := rewritten(t, wasm, allPasses()...)
		for _, period := range goPeriods {
			want := runGo(t, engine, wasm, period)
			for name, w := range map[string][]byte{"structure": converted, "all": all} {
				got := runGo(t, engine, w, period)
				if err := want.same(got.end); err != nil {
					t.Fatalf("seed %d, period %d, %s: %v", seed, period, name, err)
				}
				if !slices.Equal(want.globals, got.globals) {
					t.Fatalf("seed %d, period %d, %s: globals %x, not %x", seed, period, name, got.globals, want.globals)
				}
				if name == "all" {
					checkGoFuel(t, seed, converted, period, got)
				}
			}
			if want.err != nil {
				ran.trapped++
			} else if ran.complete++; period == 1 {
				ran.unwound++
			}
		}
	}
	t.Logf("%+v", ran)
	if ran.complete < 3*n || ran.trapped < n/20 || ran.added < 3*n || ran.replaced < n/10 || ran.irreducible < n/10 {
		t.Errorf("the generator has become tame: %+v", ran)
	}
}

// checkGoFuel compares a metered run with one of the machine, of the module before the
// meter.
func checkGoFuel(t testing.TB, seed uint64, wasm []byte, period uint64, got goState) {
	t.Helper()
	v, err := newMachine(wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	v.cost = 0
	_, err = v.invoke("run", period)
	switch {
	case (err == nil) != (got.err == nil) || !slices.Equal(v.mem, got.memory):
		t.Fatalf("seed %d, period %d: the machine ends with %v, wazero with %v", seed, period, err, got.err)
	case err == nil && got.fuel != v.cost || got.fuel < v.cost:
		t.Fatalf("seed %d, period %d: %d units used, the machine counts %d", seed, period, got.fuel, v.cost)
	}
}

// irreducible counts the functions of which a loop has several entries.
func irreducible(t testing.TB, wasm []byte) (n int) {
	t.Helper()
	m, err := Parse(wasm)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Funcs {
		instrs, err := m.Funcs[i].Decode(nil)
		if err != nil {
			t.Fatal(err)
		}
		if s := shapeOf(instrs); s != nil {
			w := layout{shape: s}
			w.connect()
			if w.graph.order().irreducible {
				n++
			}
		}
	}
	return n
}

// FuzzStructure is like TestStructure, for any seed and period.
func FuzzStructure(f *testing.F) {
	f.Add(uint64(1), uint64(1))
	f.Add(uint64(1000), uint64(5))
	f.Fuzz(func(t *testing.T, seed, period uint64) {
		wasm := generateGo(seed)
		period = max(1, uint64(uint32(period)))
		r := interpreter(t)
		want := runGo(t, r, wasm, period)
		converted := rewritten(t, wasm, Structure(nil))
		for _, w := range [][]byte{converted, rewritten(t, wasm, allPasses()...)} {
			got := runGo(t, r, w, period)
			if err := want.same(got.end); err != nil || !slices.Equal(want.globals, got.globals) {
				t.Errorf("%v; globals %x and %x", err, want.globals, got.globals)
			}
			if len(w) > len(converted) || &w[0] != &converted[0] {
				if got.fuel != 0 {
					checkGoFuel(t, seed, converted, period, got)
				}
			}
		}
	})
}

// TestStructureLeaves checks that functions that are nearly in the expected form are
// left as they are.
func TestStructureLeaves(t *testing.T) {
	for name, change := range map[string]func([]Instr) []Instr{
		"PC_B is read": func(in []Instr) []Instr { return insertSegment(in, get(pcB), op(OpDrop)) },
		"PC_B is teed": func(in []Instr) []Instr {
			return insertSegment(in, c32(0), Instr{Op: OpLocalTee, Index: pcB}, op(OpDrop))
		},
		"computed jump": func(in []Instr) []Instr {
			return insertSegment(in, global(goSteps), set(pcB), Instr{Op: OpBr, Index: 1})
		},
		"conditional branch": func(in []Instr) []Instr { return insertSegment(in, c32(1), Instr{Op: OpBrIf, Index: 1}) },
		"into a block":       func(in []Instr) []Instr { return insertSegment(in, Instr{Op: OpBr, Index: 0}) },
		"switch": func(in []Instr) []Instr {
			return insertSegment(in, c32(1), Instr{Op: OpBrTable, Labels: []uint32{0, 1}})
		},
		"another result":   func(in []Instr) []Instr { in[len(in)-2].Value = 2; return in },
		"starts elsewhere": func(in []Instr) []Instr { in[tableOf(in)].Labels[0] = 1; return in },
	} {
		t.Run(name, func(t *testing.T) {
			in := twoSegments()
			if shapeOf(in) == nil {
				t.Fatal("not in the form before the change")
			}
			if in = change(in); shapeOf(in) != nil {
				t.Error("converted")
			}
		})
	}
}

// twoSegments is a function with two segments, with jumps and an exit.
func twoSegments() []Instr {
	return []Instr{
		global(goSP), set(goLocalSP), block(OpBlock), block(OpLoop), block(OpBlock), block(OpBlock),
		get(pcB), {Op: OpBrTable, Labels: []uint32{0, 1, 1}}, op(OpEnd),
		c32(0), {Op: OpCall, Index: goYield}, {Op: OpBrIf, Index: 2}, op(OpEnd),
		c32(0), set(pcB), {Op: OpBr, Index: 0}, op(OpEnd),
		op(OpUnreachable), op(OpEnd), c32(1), op(OpEnd),
	}
}

func tableOf(in []Instr) int {
	return slices.IndexFunc(in, func(i Instr) bool { return i.Op == OpBrTable })
}

// insertSegment inserts instructions at the start of the first segment.
func insertSegment(in []Instr, list ...Instr) []Instr {
	return slices.Insert(in, tableOf(in)+2, list...)
}

// TestReduceStops checks that a function whose loops would need too many copies is left
// as it is, in a short time.
func TestReduceStops(t *testing.T) {
	var g graph
	const n = 60
	for range n {
		g.add(len(g.succ), 1000)
	}
	for x := range n {
		for y := 1; y < n; y++ {
			g.connect(x, y, y)
		}
	}
	begin := time.Now()
	if g.reduce(100_000) != nil {
		t.Error("reduced")
	}
	if took := time.Since(begin); took > testenv.Deadline(10*time.Second) {
		t.Errorf("it took %v", took)
	}
}
