package rewrite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

const plenty = 1 << 40

// TestGenerated runs random modules unchanged, after each pass and after all passes,
// and compares results, memory and traps. It compares the fuel used with the cost
// that the machine counts for the module before Meter.
func TestGenerated(t *testing.T) {
	n := 25
	if *long {
		n = 150
	}
	interp, comp := interpreter(t), compiler(t)
	var ran struct{ complete, trapped, refills int }
	for _, seed := range seeds(n) {
		wasm := generate(seed)
		engine := interp
		if seed%8 == 0 {
			engine = comp
		}
		variants := []struct {
			name   string
			wasm   []byte
			fuelOf []byte // the module that the machine runs; nil: not metered
			slice  int64
		}{
			{"parse and encode", rewritten(t, wasm), nil, 0},
			{"extract data", rewritten(t, wasm, ExtractData()), nil, 0},
			{"export state", rewritten(t, wasm, ExportState()), nil, 0},
			{"direct calls", rewritten(t, wasm, DirectCalls()), nil, 0},
			{"meter", rewritten(t, wasm, Meter(testMeter)), wasm, plenty},
			{"meter, small slices", rewritten(t, wasm, Meter(testMeter)), wasm, 50},
			{"direct calls, meter", rewritten(t, wasm, DirectCalls(), Meter(testMeter)), rewritten(t, wasm, DirectCalls()), 1000},
			{"all", rewritten(t, wasm, allPasses()...), wasm, 1000},
		}
		want := sequence(t, engine, wasm, 0)
		for _, v := range variants {
			got := sequence(t, engine, v.wasm, v.slice)
			for i := range want {
				if err := want[i].same(got[i]); err != nil {
					t.Fatalf("seed %d, %s, call %d: %v", seed, v.name, i, err)
				}
			}
			if v.fuelOf == nil {
				continue
			}
			for i, c := range count(t, v.fuelOf) {
				if (c.err == nil) != (got[i].err == nil) || !slices.Equal(c.results, got[i].results) || !slices.Equal(c.memory, got[i].memory) {
					t.Fatalf("seed %d, %s, call %d: the machine ends with %x, %v; wazero with %x, %v", seed, v.name, i, c.results, c.err, got[i].results, got[i].err)
				}
				ran.refills += got[i].refills
				if c.err != nil {
					ran.trapped++
					if got[i].fuel < c.fuel {
						t.Fatalf("seed %d, %s, call %d: %d units used before a trap, of %d executed", seed, v.name, i, got[i].fuel, c.fuel)
					}
					continue
				}
				ran.complete++
				if got[i].fuel != c.fuel {
					t.Fatalf("seed %d, %s, call %d: %d units used, the machine counts %d", seed, v.name, i, got[i].fuel, c.fuel)
				}
			}
		}
	}
	t.Logf("%d calls complete, %d trapped, %d refills", ran.complete, ran.trapped, ran.refills)
	if ran.complete < n || ran.trapped < n/20 || ran.refills < n {
		t.Errorf("the generator has become tame: %+v", ran)
	}
}

// sequence makes two calls in one instance, so that the second starts in the state
// after the first.
func sequence(t *testing.T, r wazero.Runtime, wasm []byte, slice int64) []end {
	t.Helper()
	mod := instance(t, r, wasm)
	defer mod.Close(context.Background())
	var ends []end
	for _, name := range []string{"run", "again"} {
		e := invoke(mod, name, plenty, slice, arguments(mod, name)...)
		for _, g := range []string{"g0", "g1"} { // compared as results
			if e.err == nil {
				e.results = append(e.results, mod.ExportedGlobal(g).Get())
			}
		}
		ends = append(ends, e)
	}
	return ends
}

func arguments(mod api.Module, name string) []uint64 {
	return argumentsFor(len(mod.ExportedFunction(name).Definition().ParamTypes()))
}

func argumentsFor(n int) []uint64 { return []uint64{3, 1 << 20, 5}[:n] }

// count runs the sequence in the machine. fuel is the cost.
func count(t *testing.T, wasm []byte) []end {
	t.Helper()
	v, err := newMachine(wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ends []end
	for i, name := range []string{"run", "again"} {
		v.cost = 0
		params := v.m.Types[v.m.Funcs[i].Type].Params
		var e end
		e.results, e.err = v.invoke(name, argumentsFor(len(params))...)
		e.fuel, e.memory = v.cost, slices.Clone(v.mem)
		if e.err == nil {
			e.results = append(slices.Clone(e.results), v.globals[0], v.globals[1])
		}
		ends = append(ends, e)
	}
	return ends
}

// TestFuelBounds runs with every amount of fuel around the needed one. With enough,
// the run is the same as without metering; with less, it ends in fuel_out. Only the
// amount matters, not the slices.
func TestFuelBounds(t *testing.T) {
	r := interpreter(t)
	tested := 0
	for _, seed := range seeds(60) {
		wasm := rewritten(t, generate(seed), allPasses()...)
		try := func(fuel, slice int64) end {
			mod := instance(t, r, wasm)
			defer mod.Close(context.Background())
			return invoke(mod, "run", fuel, slice, arguments(mod, "run")...)
		}
		full := try(plenty, plenty)
		if full.err != nil {
			continue
		}
		tested++
		// Active functions have paid in advance, so a run needs a little more
		// fuel than it uses.
		const ahead = 1 << 20
		for _, slice := range []int64{1, 17, plenty} {
			if e := try(full.fuel+ahead, slice); e.err != nil || e.fuel != full.fuel {
				t.Fatalf("seed %d, slices of %d: %d units used, %v, want %d", seed, slice, e.fuel, e.err, full.fuel)
			}
		}
		for _, fuel := range []int64{1, full.fuel / 2} {
			a, b := try(fuel, 10), try(fuel, plenty)
			if (a.err == nil) != (b.err == nil) || a.err == nil && a.fuel != full.fuel || a.err != nil && !errors.Is(a.err, errFuel) {
				t.Fatalf("seed %d, %d of %d units: %v and %v", seed, fuel, full.fuel, a.err, b.err)
			}
		}
	}
	if tested < 20 {
		t.Errorf("only %d runs were complete", tested)
	}
}

// TestGeneratorIsDeterministic checks that a seed always gives the same module.
func TestGeneratorIsDeterministic(t *testing.T) {
	for _, seed := range seeds(20) {
		if !slices.Equal(generate(seed), generate(seed)) {
			t.Fatal(fmt.Sprint("seed ", seed))
		}
	}
}
