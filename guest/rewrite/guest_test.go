package rewrite

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// Tests with the guest of the product, built by scripts/build-guest: real code from
// Go's compiler, with a Starlark interpreter. The host here can only run one script,
// under wazero or under the machine.

// guestWasm returns the guest as the compiler writes it. This package rewrites it
// into the committed guest.
var guestWasm = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", file, "./guest")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build ./guest: %w\n%s", err, out)
	}
	return os.ReadFile(file)
})

func guest(t testing.TB) []byte {
	t.Helper()
	wasm, err := guestWasm()
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// guestHost is the host of one run. It accesses memory through view.
type guestHost struct {
	request, response []byte
	failed            bool
	clock             uint64
	stderr            []byte
	view              func(ptr, n uint32) []byte
}

// functions returns the imports. Other functions of WASI return "bad descriptor".
func (h *guestHost) functions() map[string]func(a []uint64) uint64 {
	put := func(ptr uint64, v uint64, n uint32) { // little endian, n bytes
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], v)
		copy(h.view(uint32(ptr), n), b[:])
	}
	return map[string]func(a []uint64) uint64{
		"request_read": func(a []uint64) uint64 {
			if len(h.request) <= int(uint32(a[1])) {
				copy(h.view(uint32(a[0]), uint32(a[1])), h.request)
			}
			return abi.Pack(abi.OK, uint32(len(h.request)))
		},
		"response_write": func(a []uint64) uint64 {
			h.failed = uint32(a[0]) != abi.ResponseResult
			h.response = slices.Clone(h.view(uint32(a[1]), uint32(a[2])))
			return abi.Pack(abi.OK, 0)
		},
		"log":        func([]uint64) uint64 { return abi.Pack(abi.OK, 0) },
		"progress":   func([]uint64) uint64 { return abi.Pack(abi.OK, 0) },
		"args_get":   func([]uint64) uint64 { return 0 },
		"random_get": func(a []uint64) uint64 { clear(h.view(uint32(a[0]), uint32(a[1]))); return 0 },
		"clock_time_get": func(a []uint64) uint64 {
			h.clock += 1000
			put(a[2], h.clock, 8)
			return 0
		},
		"args_sizes_get":    func(a []uint64) uint64 { put(a[0], 0, 4); put(a[1], 0, 4); return 0 },
		"environ_sizes_get": func(a []uint64) uint64 { put(a[0], 0, 4); put(a[1], 0, 4); return 0 },
		"environ_get":       func([]uint64) uint64 { return 0 },
		"sched_yield":       func([]uint64) uint64 { return 0 },
		"proc_exit":         func(a []uint64) uint64 { panic(fmt.Sprint("the guest left with ", a[0])) },
		"fd_write": func(a []uint64) uint64 {
			b := h.view(uint32(a[1]), 8)
			n := binary.LittleEndian.Uint32(b[4:])
			h.stderr = append(h.stderr, h.view(binary.LittleEndian.Uint32(b), n)...)
			put(a[3], uint64(n), 4)
			return 0
		},
	}
}

func (h *guestHost) call(name string, args []uint64) uint64 {
	if f := h.functions()[name]; f != nil {
		return f(args)
	}
	return 8 // EBADF
}

func requestFor(code string) []byte {
	b, err := json.Marshal(abi.Request{Op: abi.OpRun, Name: "test", Code: code, Params: json.RawMessage("{}"), Memory: 256 << 20})
	if err != nil {
		panic(err)
	}
	return b
}

type hostKey struct{}

// guestRuntime returns a runtime with the imports of wasm.
func guestRuntime(t testing.TB, r wazero.Runtime, wasm []byte) {
	t.Helper()
	ctx := context.Background()
	m, err := parse(wasm, false)
	if err != nil {
		t.Fatal(err)
	}
	builders := map[string]wazero.HostModuleBuilder{}
	for _, i := range m.Imports {
		if i.Module == testMeter.Module {
			continue
		}
		b := builders[i.Module]
		if b == nil {
			b = r.NewHostModuleBuilder(i.Module)
			builders[i.Module] = b
		}
		typ := m.Types[i.Type]
		results := len(typ.Results)
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
			h := ctx.Value(hostKey{}).(*guestHost)
			h.view = func(ptr, n uint32) []byte {
				b, ok := mod.Memory().Read(ptr, n)
				if !ok {
					panic("the guest passes a wild pointer")
				}
				return b
			}
			if v := h.call(i.Name, stack[:len(typ.Params)]); results > 0 {
				stack[0] = v
			}
		}), valBytes(typ.Params), valBytes(typ.Results)).Export(i.Name)
	}
	for _, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// guestRun has the exports in the order of a run.
var guestRun = []string{abi.ExportInitialize, abi.ExportRun}

// guestCall is one script in one instance.
type guestCall struct {
	host *guestHost
	tank *tank
	mod  api.Module
	ctx  context.Context
}

func newGuestCall(mod api.Module, code string, slice int64) *guestCall {
	g := &guestCall{host: &guestHost{request: requestFor(code)}, tank: &tank{left: plenty, slice: slice}, mod: mod}
	g.ctx = context.WithValue(context.Background(), hostKey{}, g.host)
	if fuel := mod.ExportedGlobal(testMeter.Global); fuel != nil {
		g.tank.fuel = fuel.(api.MutableGlobal)
		g.ctx = context.WithValue(g.ctx, tankKey{}, g.tank)
	}
	return g
}

func (g *guestCall) call(t testing.TB, name string) {
	t.Helper()
	if _, err := g.mod.ExportedFunction(name).Call(g.ctx); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, g.host.stderr)
	}
	if g.host.failed {
		t.Fatalf("script failed: %s", g.host.response)
	}
}

// used returns the fuel that a metered guest has used so far.
func (g *guestCall) used() int64 { return plenty - g.tank.left - int64(g.tank.fuel.Get()) }

// machineGuest runs a script in the machine. fuel is the cost that it counts, and called
// tells which functions were called.
func machineGuest(t testing.TB, wasm []byte, code string) (response string, fuel int64, called []bool) {
	t.Helper()
	h := &guestHost{request: requestFor(code)}
	imports := map[string]machineHost{}
	m, err := parse(wasm, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range m.Imports {
		results := len(m.Types[i.Type].Results)
		imports[i.Module+"."+i.Name] = func(v *machine, args []uint64) []uint64 {
			h.view = func(ptr, n uint32) []byte { return v.bytes(uint64(ptr), uint64(n)) }
			return []uint64{h.call(i.Name, args)}[:results]
		}
	}
	v, err := newMachine(wasm, imports)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range guestRun {
		if _, err := v.invoke(name); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, h.stderr)
		}
	}
	return string(h.response), v.cost, v.called
}

// withOnly returns a module in which all functions trap but those that are called.
func withOnly(t testing.TB, wasm []byte, called []bool) []byte {
	t.Helper()
	m, err := Parse(wasm)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Funcs {
		if !called[i] {
			m.Funcs[i].Locals, m.Funcs[i].Body = nil, []byte{byte(OpUnreachable), byte(OpEnd)}
		}
	}
	return m.Encode()
}

const guestScript = `
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
words = ["%s-%d" % (c, n) for n in range(20) for c in "abc".elems()]
counts = {}
for w in words:
    counts[w[0]] = counts.get(w[0], 0) + 1
big = 1
for i in range(30):
    big *= 1000000007
return {"fib": fib(10), "sorted": sorted(words)[:3], "counts": counts, "big": big, "json": json.decode('[1, 2.5, {"x": null}]')}
`

const guestAnswer = `{"fib":55,"sorted":["a-0","a-1","a-10"],"counts":{"a":20,"b":20,"c":20},"big":`

// TestGuest checks that the rewritten guest returns the same answer as the original,
// and that it uses as much fuel as the machine counts in the guest with structured
// control flow, for any size of slices. Only functions that the machine calls are compiled,
// which takes a tenth of the time.
func TestGuest(t *testing.T) {
	if !*long && *scripts == 0 {
		t.Skip("takes long (.ci/run runs it with -scripts 40)")
	}
	wasm := guest(t)
	original, more, called := machineGuest(t, wasm, guestScript)
	want, cost, _ := machineGuest(t, rewritten(t, wasm, Structure(nil)), guestScript)
	if !strings.HasPrefix(want, guestAnswer) || want != original || cost >= more {
		t.Fatalf("the machine answers %s, %d units; before Structure %s, %d units", want, cost, original, more)
	}
	metered := rewritten(t, withOnly(t, wasm, called), testPasses()...)
	r := compiler(t)
	guestRuntime(t, r, metered)
	module, err := r.CompileModule(context.Background(), metered)
	if err != nil {
		t.Fatal(err)
	}
	for _, slice := range []int64{plenty, 1_000_000} {
		g := newGuestCall(compiled(t, r, module, metered), guestScript, slice)
		for _, name := range guestRun {
			g.call(t, name)
		}
		if got := string(g.host.response); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if fuel := g.used(); fuel != cost {
			t.Errorf("slices of %d: %d units used, the machine counts %d", slice, fuel, cost)
		}
	}
	t.Logf("%d units", cost)
}

// testPasses returns Passes with the meter of the tests.
func testPasses() []Pass {
	passes := Passes(nil)
	for i := range passes {
		if passes[i].Name == "meter" {
			passes[i] = Meter(testMeter)
		}
	}
	return passes
}
