package rewrite

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// testPages is the memory limit of a test module.
const testPages = 1024

var testMeter = MeterOptions{Module: "meter", Name: "fuel_out", Global: "fuel"}

// allPasses returns the pipeline of the product with the names of the tests.
func allPasses() []Pass {
	return []Pass{Structure(nil), ExtractData(), ExportState(), LimitMemory(genMaxMemory), Meter(testMeter), DirectCalls()}
}

// rewritten returns a module after passes.
func rewritten(t testing.TB, wasm []byte, passes ...Pass) []byte {
	t.Helper()
	m, err := Parse(wasm)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Apply(passes...); err != nil {
		t.Fatal(err)
	}
	return m.Encode()
}

func interpreter(t testing.TB) wazero.Runtime {
	return runtimeWith(t, wazero.NewRuntimeConfigInterpreter())
}

func compiler(t testing.TB) wazero.Runtime {
	return runtimeWith(t, wazero.NewRuntimeConfigCompiler())
}

// tank has the fuel of one run and implements fuel_out.
type tank struct {
	left  int64 // in addition to the counter
	slice int64
	fuel  api.MutableGlobal
	calls int
	each  func() // called at each call; nil: nothing is
}

type tankKey struct{}

var errFuel = errors.New("out of fuel")

// refill is fuel_out.
func refill(ctx context.Context, mod api.Module, _ []uint64) {
	k, _ := ctx.Value(tankKey{}).(*tank)
	if k == nil { // a start function, or fuel is not counted
		mod.ExportedGlobal("fuel").(api.MutableGlobal).Set(1 << 60)
		return
	}
	k.calls++
	if k.each != nil {
		k.each()
	}
	k.left += int64(k.fuel.Get()) // below 0
	if k.left <= 0 {
		k.fuel.Set(0)
		panic(errFuel)
	}
	n := min(k.slice, k.left)
	k.left -= n
	k.fuel.Set(uint64(n))
}

func runtimeWith(t testing.TB, config wazero.RuntimeConfig) wazero.Runtime {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, config.WithMemoryLimitPages(testPages))
	t.Cleanup(func() { _ = r.Close(ctx) })
	if _, err := r.NewHostModuleBuilder("meter").NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(refill), nil, nil).Export("fuel_out").Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

// instance returns an instance of a module in wazero, with the segments of
// ExtractData written.
func instance(t testing.TB, r wazero.Runtime, wasm []byte) api.Module {
	t.Helper()
	ctx := context.Background()
	mod, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mod.Close(ctx) })
	writeSegments(t, mod, wasm)
	return mod
}

// compiled returns another instance of a compiled module.
func compiled(t testing.TB, r wazero.Runtime, c wazero.CompiledModule, wasm []byte) api.Module {
	t.Helper()
	mod, err := r.InstantiateModule(context.Background(), c, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	writeSegments(t, mod, wasm)
	return mod
}

func writeSegments(t testing.TB, mod api.Module, wasm []byte) {
	t.Helper()
	segments, err := Segments(wasm)
	if err != nil {
		return // ExtractData was not among the passes
	}
	for _, s := range segments {
		if !mod.Memory().Write(s.Offset, s.Bytes) {
			t.Fatalf("segment of %d bytes at %d does not fit", len(s.Bytes), s.Offset)
		}
	}
}

// end is how a call ended, and the state after it.
type end struct {
	results []uint64
	err     error // errMachineTrap for any trap
	memory  []byte
	fuel    int64 // used; 0 if not counted
	refills int
}

// invoke calls an export, with the given fuel if the module is metered.
func invoke(mod api.Module, name string, fuel, slice int64, args ...uint64) end {
	ctx := context.Background()
	var k *tank
	if g := mod.ExportedGlobal("fuel"); g != nil {
		k = &tank{left: fuel, slice: slice, fuel: g.(api.MutableGlobal)}
		k.fuel.Set(0)
		ctx = context.WithValue(ctx, tankKey{}, k)
	}
	var e end
	e.results, e.err = mod.ExportedFunction(name).Call(ctx, args...)
	if e.err != nil && !errors.Is(e.err, errFuel) {
		e.err = fmt.Errorf("%w: %v", errMachineTrap, e.err)
	}
	if k != nil {
		e.fuel, e.refills = fuel-k.left-int64(k.fuel.Get()), k.calls
	}
	if !reflect.ValueOf(mod.Memory()).IsNil() { // wazero gives a nil *MemoryInstance for none
		mem, _ := mod.Memory().Read(0, mod.Memory().Size())
		e.memory = slices.Clone(mem)
	}
	return e
}

// same compares two ends except for fuel.
func (e end) same(o end) error {
	switch {
	case (e.err == nil) != (o.err == nil):
		return fmt.Errorf("errors %v and %v", e.err, o.err)
	case !slices.Equal(e.results, o.results):
		return fmt.Errorf("results %x and %x", e.results, o.results)
	case !slices.Equal(e.memory, o.memory):
		return fmt.Errorf("memories of %d and %d bytes differ", len(e.memory), len(o.memory))
	}
	return nil
}

func moduleNamed(name string) wazero.ModuleConfig {
	return wazero.NewModuleConfig().WithName(name).WithStartFunctions()
}
