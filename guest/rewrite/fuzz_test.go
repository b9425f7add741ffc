package rewrite

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// FuzzParse checks that Parse and the passes do not panic for any input, that
// modules that wazero accepts stay valid, and that ones that it refuses do not become
// valid.
func FuzzParse(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte(header))
	for _, wasm := range runaways {
		f.Add(wasm)
	}
	for _, seed := range seeds(8) {
		f.Add(generate(seed))
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2).WithMemoryLimitPages(testPages))
	valid := func(wasm []byte) bool {
		c, err := r.CompileModule(ctx, wasm)
		if err == nil {
			_ = c.Close(ctx)
		}
		return err == nil
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		_, _ = Segments(wasm)
		_, _ = Interface(wasm)
		m, err := Parse(wasm)
		if err != nil {
			var p *ParseError
			if !errors.As(err, &p) || p.Offset > len(wasm) {
				t.Fatalf("%#v", err)
			}
			return
		}
		// Not compared with wazero: large tables take memory, and wazero refuses
		// an empty custom section at the end.
		large := func(t Table) bool { return t.Min > 1<<16 }
		if slices.ContainsFunc(m.Tables, large) || slices.ContainsFunc(m.Custom, func(c Custom) bool { return len(c.Bytes) == 0 }) {
			return
		}
		out := m.Encode()
		was := valid(wasm)
		if valid(out) != was {
			t.Fatalf("valid: %v, encoded again: %v", was, !was)
		}
		again, err := Parse(out)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Encode(), out) {
			t.Fatal("not the same when parsed again")
		}
		for _, p := range append(allPasses(), LimitMemory(maxPages)) {
			m, _ := Parse(out)
			if err := m.Apply(p); err != nil {
				continue
			}
			// A pass may remove what was invalid; Meter removes nothing.
			if is := valid(m.Encode()); is != was && (was || p.Name == "meter") {
				t.Fatalf("valid: %v, after %s: %v", was, p.Name, is)
			}
		}
	})
}

// FuzzGenerated is like TestGenerated, for any seed.
func FuzzGenerated(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(1000))
	f.Fuzz(func(t *testing.T, seed uint64) {
		wasm := generate(seed)
		r := interpreter(t)
		want := sequence(t, r, wasm, 0)
		got := sequence(t, r, rewritten(t, wasm, allPasses()...), 100)
		for i, c := range count(t, wasm) {
			if err := want[i].same(got[i]); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
			if c.err == nil && c.fuel != got[i].fuel || c.fuel > got[i].fuel {
				t.Errorf("call %d: %d units used, the machine counts %d", i, got[i].fuel, c.fuel)
			}
		}
	})
}
