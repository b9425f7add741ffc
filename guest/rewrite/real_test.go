package rewrite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// realModules are small modules from wazero's sources, compiled from real code (Rust,
// C, C++, Zig, TinyGo, AssemblyScript).
func realModules(t testing.TB) map[string][]byte {
	files := map[string][]byte{}
	for _, path := range []string{
		"examples/allocation/rust/testdata/greet.wasm", "examples/allocation/zig/testdata/greet.wasm",
		"examples/basic/testdata/add.wasm", "examples/cli/testdata/cli.wasm", "experimental/testdata/inoutdispatcher.wasm",
		"imports/assemblyscript/example/testdata/index.wasm", "imports/emscripten/testdata/grow.wasm",
		"imports/wasi_snapshot_preview1/testdata/cargo-wasi/wasi.wasm", "imports/wasi_snapshot_preview1/testdata/tinygo/wasi.wasm",
		"imports/wasi_snapshot_preview1/testdata/zig/wasi.wasm", "imports/wasi_snapshot_preview1/testdata/zig-cc/wasi.wasm",
		"imports/wasi_snapshot_preview1/example/testdata/cargo-wasi/cat.wasm", "internal/integration_test/bench/testdata/case.wasm",
		"imports/wasi_snapshot_preview1/example/testdata/tinygo/cat.wasm",
	} {
		files[path] = readFile(t, wazeroFile(t, filepath.FromSlash(path)))
	}
	return files
}

// TestRealModules checks that modules of other compilers can be rewritten and stay
// valid, or are refused as unsupported.
func TestRealModules(t *testing.T) {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer r.Close(ctx)
	applied := map[string]int{}
	for name, wasm := range realModules(t) {
		for _, p := range append(allPasses(), Pass{"none", func(*Module) error { return nil }}) {
			m, err := Parse(wasm)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			err = m.Apply(p)
			if errors.Is(err, ErrUnsupported) || p.Name == "limit memory" && err != nil {
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			applied[p.Name]++
			out := m.Encode()
			if _, err := r.CompileModule(ctx, out); err != nil {
				t.Errorf("%s, %s: %v", name, p.Name, err)
			}
			if again, err := Parse(out); err != nil || !bytes.Equal(again.Encode(), out) {
				t.Errorf("%s, %s: not the same when parsed again: %v", name, p.Name, err)
			}
		}
	}
	if applied["meter"] != 14 || applied["none"] != 14 || applied["direct calls"] < 10 || applied["extract data"] < 10 {
		t.Errorf("passes applied: %v", applied)
	}
}

// TestRealPrograms runs the WASI programs among them, unchanged and rewritten, and
// compares their output.
func TestRealPrograms(t *testing.T) {
	arguments := map[string][]string{
		"cat.wasm": {"cat", "sub/test.txt"}, "cli.wasm": {"cli", "3", "4"}, "wasi.wasm": {"wasi", "ls", "."},
	}
	run := 0
	for name, wasm := range realModules(t) {
		args := arguments[path.Base(name)]
		if args == nil {
			continue
		}
		run++
		t.Run(name, func(t *testing.T) {
			want := runProgram(t, wasm, args)
			if want == "" {
				t.Fatal("it prints nothing")
			}
			for _, p := range [][]Pass{{Meter(testMeter)}, {DirectCalls()}, {ExtractData(), ExportState(), Meter(testMeter), DirectCalls()}} {
				if got := runProgram(t, rewritten(t, wasm, p...), args); got != want {
					t.Errorf("%s: got %q, want %q", p[0].Name, got, want)
				}
			}
		})
	}
	if run < 6 {
		t.Errorf("%d programs", run)
	}
}

// runProgram returns the output of a program, and how it ended.
func runProgram(t *testing.T, wasm []byte, args []string) string {
	t.Helper()
	ctx := context.Background()
	r := interpreter(t)
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	var out bytes.Buffer
	files := fstest.MapFS{"sub/test.txt": {Data: []byte(strings.Repeat("some text\n", 500))}, "a": {}, "b": {}}
	config := wazero.NewModuleConfig().WithStartFunctions().WithArgs(args...).WithStdout(&out).WithStderr(&out).WithFS(files)
	mod, err := r.InstantiateWithConfig(ctx, wasm, config)
	if err != nil {
		t.Fatal(err)
	}
	writeSegments(t, mod, wasm)
	_, err = mod.ExportedFunction("_start").Call(ctx)
	if out.Len() == 0 {
		return ""
	}
	return fmt.Sprint(out.String(), leaf(err))
}

// leaf returns the error without wazero's stack trace.
func leaf(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
