package rewrite

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// withNames adds a section with names to a module: f0, f1 and so on.
func withNames(t testing.TB, wasm []byte) []byte {
	t.Helper()
	m, err := Parse(wasm)
	if err != nil {
		t.Fatal(err)
	}
	count := len(m.funcTypes())
	list := appendUint(nil, uint32(count))
	for i := range count {
		name := fmt.Sprint("f", i)
		list = append(appendUint(appendUint(list, uint32(i)), uint32(len(name))), name...)
	}
	section := append([]byte{0, 2, 1, 'm'}, ofFunctions) // after the name of the module
	section = append(appendUint(section, uint32(len(list))), list...)
	m.Custom = append(m.Custom, Custom{nameSection, section})
	return m.Encode()
}

// TestStructureSome runs random modules in the form of Go's compiler before and after
// Structure has converted some of the functions.
func TestStructureSome(t *testing.T) {
	interp := interpreter(t)
	converted, left := 0, 0
	for _, seed := range seeds(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		wasm := generateGo(seed)
		all, added, _, _ := structured(t, wasm)
		named := withNames(t, wasm)
		hot := map[string]bool{}
		some := rewritten(t, named, Structure(func(name string) bool {
			hot[name] = random.IntN(2) == 0
			return hot[name]
		}))
		if hot[""] || len(hot) == 0 {
			t.Fatalf("seed %d: asked about %v", seed, hot)
		}
		before, now := functions(t, wasm), functions(t, some)
		if now > functions(t, all) {
			t.Fatalf("seed %d: %d functions, %d if all are converted", seed, now, functions(t, all))
		}
		converted, left = converted+now-before, left+before+added-now
		for _, period := range goPeriods[:3] {
			want, got := runGo(t, interp, wasm, period), runGo(t, interp, some, period)
			if err := want.same(got.end); err != nil || !slices.Equal(want.globals, got.globals) {
				t.Fatalf("seed %d, period %d: %v; globals %x, not %x", seed, period, err, got.globals, want.globals)
			}
		}
		none := rewritten(t, named, Structure(func(string) bool { return false }))
		if string(none) != string(named) {
			t.Fatalf("seed %d: changed without need", seed)
		}
	}
	t.Logf("%d functions converted, %d left", converted, left)
	if converted < 20 || left < 20 {
		t.Error("the generator has become tame")
	}
}

func functions(t testing.TB, wasm []byte) int {
	t.Helper()
	m, err := Parse(wasm)
	if err != nil {
		t.Fatal(err)
	}
	return len(m.Funcs)
}

func TestFunctionNames(t *testing.T) {
	m, err := Parse(withNames(t, generateGo(1)))
	if err != nil {
		t.Fatal(err)
	}
	names, err := m.FunctionNames()
	if err != nil || len(names) != len(m.funcTypes()) || names[3] != "f3" {
		t.Errorf("%v, %v", names, err)
	}
	for _, c := range []struct{ section, want string }{
		{"\x01", "unexpected end"},
		{"\x01\x05\x01", "5 bytes announced"},
		{"\x01\x03\x01\x00\x09", "9 bytes announced"},
		{"\x01\x05\xff\xff\xff\xff\x0f", "4294967295"},
	} {
		broken := &Module{Custom: []Custom{{nameSection, []byte(c.section)}}}
		if _, err := broken.FunctionNames(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.section, err)
		}
		if err := broken.Apply(Structure(nil)); err == nil {
			t.Errorf("%q: accepted", c.section)
		}
	}
}
