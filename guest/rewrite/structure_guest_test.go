package rewrite

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

var (
	long    = flag.Bool("long", false, "run all scripts in guests before and after Structure, with other settings of the garbage collector, and more modules")
	scripts = flag.Int("scripts", 0, "run this many scripts in a guest before and after Structure")
)

// guestPair is the guest before and after Structure, metered both times.
type guestPair struct {
	runtimes [2]wazero.Runtime
	modules  [2]wazero.CompiledModule
	wasm     [2][]byte
}

func newGuestPair(t *testing.T, wasm []byte) *guestPair {
	t.Helper()
	p := &guestPair{}
	for n, passes := range [][]Pass{withoutStructure(), testPasses()} {
		p.wasm[n] = rewritten(t, wasm, passes...)
		p.runtimes[n] = compiler(t)
		guestRuntime(t, p.runtimes[n], p.wasm[n])
		var err error
		if p.modules[n], err = p.runtimes[n].CompileModule(context.Background(), p.wasm[n]); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func withoutStructure() []Pass {
	return slices.DeleteFunc(testPasses(), func(p Pass) bool { return p.Name == "structure" })
}

// guestState is a started guest whose state can be restored.
type guestState struct {
	p       *guestPair
	n       int
	mod     api.Module
	memory  []byte
	globals []uint64
}

func (p *guestPair) start(t *testing.T, n int) *guestState {
	t.Helper()
	s := &guestState{p: p, n: n}
	s.open(t)
	g := newGuestCall(s.mod, "", plenty)
	g.call(t, abi.ExportInitialize)
	b, _ := s.mod.Memory().Read(0, s.mod.Memory().Size())
	s.memory = slices.Clone(b)
	s.globals = s.values()
	return s
}

func (s *guestState) open(t *testing.T) {
	s.mod = compiled(t, s.p.runtimes[s.n], s.p.modules[s.n], s.p.wasm[s.n])
}

func (s *guestState) values() (list []uint64) {
	for n := 0; ; n++ {
		g := s.mod.ExportedGlobal(fmt.Sprint(StatePrefix, n))
		if g == nil {
			return list
		}
		list = append(list, g.Get())
	}
}

// guestEnd is how a script ended.
type guestEnd struct {
	response string
	err      string
	stderr   string
	memory   []byte
	globals  []uint64
	forced   int // how often the stack was unwound or grown on our behalf
}

// run runs a script from the state after initialisation. If force is not nil, it is
// called each time that a slice of fuel is used up.
func (s *guestState) run(t *testing.T, script []byte, fuel, slice int64, force func(api.Module) bool) guestEnd {
	t.Helper()
	if int(s.mod.Memory().Size()) > len(s.memory) {
		s.mod.Close(context.Background())
		s.open(t)
	}
	if more := (len(s.memory) - int(s.mod.Memory().Size())) >> 16; more > 0 {
		s.mod.Memory().Grow(uint32(more))
	}
	if !s.mod.Memory().Write(0, s.memory) {
		t.Fatal("the memory cannot be restored")
	}
	for n, v := range s.globals {
		s.mod.ExportedGlobal(fmt.Sprint(StatePrefix, n)).(api.MutableGlobal).Set(v)
	}
	g := newGuestCall(s.mod, "", slice)
	g.host.request = script
	g.tank.left = fuel
	g.tank.fuel.Set(0)
	var end guestEnd
	g.tank.each = func() {
		if force != nil && force(s.mod) {
			end.forced++
		}
	}
	_, err := s.mod.ExportedFunction(abi.ExportRun).Call(g.ctx)
	if err != nil {
		end.err, _, _ = strings.Cut(leaf(err).Error(), "\n")
		if errors.Is(err, errFuel) {
			end.err = errFuel.Error()
		}
		end.stderr = string(g.host.stderr)
		s.mod.Close(context.Background())
		s.open(t)
		return end
	}
	b, _ := s.mod.Memory().Read(0, s.mod.Memory().Size())
	end.response, end.memory, end.globals = string(g.host.response), slices.Clone(b), s.values()
	return end
}

// Offsets in Go's struct g. Struct m begins with its g0. Go 1.26 is expected.
const (
	goStackHigh    = 8  // stack.hi
	goStackGuard   = 16 // stackguard0
	goM            = 48
	goThrowSplit   = 183 // no function may check the stack
	goStackPreempt = 0xfffffffffffffade
)

// goStackOf is the stack of the goroutine that runs: its guard, its highest address, and
// how much of it is free. The guard is nil if the stack must not grow now, as that of the
// scheduler never may.
func goStackOf(mod api.Module) (guard []byte, high, free uint64) {
	g := uint32(mod.ExportedGlobal(StatePrefix + "2").Get()) // SP, CTXT, g
	at := func(p uint32) uint64 { v, _ := mod.Memory().ReadUint64Le(p); return v }
	if g == 0 || uint32(at(uint32(at(g+goM)))) == g || at(g+goThrowSplit)&0xff != 0 {
		return nil, 0, 0
	}
	guard, _ = mod.Memory().Read(g+goStackGuard, 8)
	return guard, at(g + goStackHigh), mod.ExportedGlobal(StatePrefix+"0").Get() - at(g)
}

// preempt returns a function that makes the next function that checks its stack yield to
// the scheduler, which unwinds the native stack. It does so every other time, at random:
// a function begins again after it has yielded, and must get further then.
//
// Functions with a large frame do not notice that, and also not that the stack is full,
// because Go computes the check with 32 bits ("TODO: handle wraparound case"). So the
// stack must first have room for them.
func preempt(r *rand.Rand) func(api.Module) bool {
	const room = 8 << 10
	return func(mod api.Module) bool {
		guard, high, free := goStackOf(mod)
		if guard == nil || r.IntN(2) == 0 {
			return false
		}
		if free < room {
			binary.LittleEndian.PutUint64(guard, high)
		} else {
			binary.LittleEndian.PutUint64(guard, goStackPreempt)
		}
		return true
	}
}

// grow returns a function that makes the next function that checks its stack find that
// it is full: it is copied to one that is twice as large. It does so up to most times, at
// random.
func grow(r *rand.Rand, most int) func(api.Module) bool {
	return func(mod api.Module) bool {
		guard, high, _ := goStackOf(mod)
		if guard == nil || most == 0 || r.IntN(20) > 0 || binary.LittleEndian.Uint64(guard) == goStackPreempt {
			return false
		}
		most--
		binary.LittleEndian.PutUint64(guard, high)
		return true
	}
}

// guestScripts returns requests for the scripts of the interpreter's tests, and of
// scripts that fail in the middle.
func guestScripts(t *testing.T) (names []string, requests map[string][]byte) {
	t.Helper()
	requests = map[string][]byte{}
	add := func(name, code string, params []byte) {
		if len(params) == 0 {
			params = []byte("{}")
		}
		b, err := json.Marshal(abi.Request{Op: abi.OpRun, Name: name, Code: code, Params: params, Memory: 64 << 20, Servers: []string{"demo"}})
		if err != nil {
			t.Fatal(err)
		}
		names, requests[name] = append(names, name), b
	}
	paths, err := filepath.Glob("../interp/testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal(err, paths)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		params := map[string][]byte{}
		for _, f := range archive.Files {
			if name, ok := strings.CutSuffix(f.Name, ".params"); ok {
				params[name] = f.Data
			}
		}
		for _, f := range archive.Files {
			if name, ok := strings.CutSuffix(f.Name, ".star"); ok {
				add(filepath.Base(path)+"/"+name, string(f.Data), params[name])
			}
		}
	}
	for name, code := range map[string]string{
		"words":         guestScript,
		"recursion":     "def f(n):\n    return f(n - 1) + 1 if n else 0\nreturn f(400)",
		"too deep":      "def f(n): return f(n + 1) + 1\nreturn f(0)",
		"caught":        "def f(n):\n    try:\n        return f(n + 1) if n < 50 else 1 // 0\n    except:\n        fail(str(n))\nreturn f(0)",
		"sorting":       "def f(n):\n    return sorted([n, 1, 2], key=lambda x: f(n - 1) if n else x)[0]\nreturn f(40)",
		"collector":     "x = []\nfor i in range(3000):\n    x = (x + [str(i) * 50])[-300:]\nreturn x[-1]",
		"out of memory": "x = 'y'\nwhile True: x += x",
		"much memory":   "x = []\nwhile True: x.append('y' * 1000 + str(len(x)))",
	} {
		add(name, code, nil)
	}
	slices.Sort(names)
	return names, requests
}

// TestGuestStructured runs whole scripts in the guest before and after Structure. Every
// byte of memory, every global and the response must be the same. Then it forces
// what only happens now and then: that the native stack is unwound, at every function
// that checks its stack, that the Go stack grows, and that fuel ends in the middle. Compiling
// the guest twice takes longer than other tests, so the flags -scripts and -long ask for it.
func TestGuestStructured(t *testing.T) {
	if !*long && *scripts == 0 {
		t.Skip("takes long (.ci/run runs it with -scripts 40)")
	}
	names, requests := guestScripts(t)
	if !*long {
		r := rand.New(rand.NewPCG(1, 2))
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = append(slices.Clone(names[:min(*scripts, len(names))]), "words", "recursion", "caught")
		compareGuests(t, newGuestPair(t, guest(t)), names, requests, 0)
		return
	}
	for _, percent := range []string{"-1", "2", "100"} {
		t.Run("GC="+percent, func(t *testing.T) {
			compareGuests(t, newGuestPair(t, guestWithGC(t, percent)), names, requests, 3)
		})
	}
}

// compareGuests runs each script, and mutations changed ones.
func compareGuests(t *testing.T, p *guestPair, names []string, requests map[string][]byte, mutations int) {
	before, after := p.start(t, 0), p.start(t, 1)
	if !bytes.Equal(before.memory, after.memory) || !slices.Equal(before.globals, after.globals) {
		t.Fatal("initialised to another state")
	}
	var count struct{ scripts, preempted, grown, stopped, failed int }
	for seed, name := range names {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		for n := range 1 + mutations {
			request := requests[name]
			if n > 0 {
				request = mutate(t, r, request)
			}
			count.scripts++
			want := before.run(t, request, guestFuel, plenty, nil)
			got := after.run(t, request, guestFuel, plenty, nil)
			if want.err == errFuel.Error() {
				continue // endless; the other one has used less by then
			}
			if want.err != "" {
				count.failed++
			}
			if err := want.same(got); err != nil {
				t.Fatalf("%s, mutation %d: %v", name, n, err)
			}
			// Preempted and grown runs differ in memory, but not in what they answer.
			for _, f := range []struct {
				what  string
				slice int64
				force func(api.Module) bool
				count *int
			}{
				{"preempted", 2000 + r.Int64N(10_000), preempt(r), &count.preempted},
				{"grown", 2000 + r.Int64N(10_000), grow(r, 3), &count.grown},
			} {
				forced := after.run(t, request, 20*guestFuel, f.slice, f.force)
				*f.count += forced.forced
				if forced.response != want.response && !strings.Contains(name, "too deep") || forced.err != want.err {
					t.Fatalf("%s, mutation %d, %s %d times: %.300s, %s, not %.300s, %s\n%s", name, n, f.what, forced.forced, forced.response, forced.err, want.response, want.err, forced.stderr)
				}
			}
			if short := after.run(t, request, 1+r.Int64N(2_000_000), 3000, preempt(r)); short.err == errFuel.Error() {
				count.stopped++
			} else if short.response != want.response {
				t.Fatalf("%s, with little fuel: %.300s", name, short.response)
			}
		}
	}
	t.Logf("%+v", count)
	if count.preempted < 20*count.scripts || count.grown == 0 || count.stopped == 0 {
		t.Errorf("too little was forced: %+v", count)
	}
}

// guestFuel ends scripts that do not end by themselves.
const guestFuel = 300_000_000

func (e guestEnd) same(o guestEnd) error {
	switch {
	case e.err != o.err:
		return fmt.Errorf("ends %q and %q", e.err, o.err)
	case e.response != o.response:
		return fmt.Errorf("responses %.300s and %.300s", e.response, o.response)
	case !slices.Equal(e.globals, o.globals):
		return fmt.Errorf("globals %x and %x", e.globals, o.globals)
	case !bytes.Equal(e.memory, o.memory):
		return fmt.Errorf("memories of %d and %d bytes differ: %s", len(e.memory), len(o.memory), differences(e.memory, o.memory))
	}
	return nil
}

// differences describes where memories differ.
func differences(a, b []byte) string {
	text, n := "", 0
	for i := 0; i+8 <= min(len(a), len(b)); i += 8 {
		if x, y := binary.LittleEndian.Uint64(a[i:]), binary.LittleEndian.Uint64(b[i:]); x != y {
			if n++; n <= 20 {
				text += fmt.Sprintf("\n%#x: %#x, %#x", i, x, y)
			}
		}
	}
	return fmt.Sprintf("%d words%s", n, text)
}

// mutate changes a script: it leaves out, repeats, exchanges or cuts lines.
func mutate(t *testing.T, r *rand.Rand, request []byte) []byte {
	t.Helper()
	var req abi.Request
	if err := json.Unmarshal(request, &req); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(req.Code, "\n")
	i, j := r.IntN(len(lines)), r.IntN(len(lines))
	switch r.IntN(4) {
	case 0:
		lines = slices.Delete(lines, i, i+1)
	case 1:
		lines = slices.Insert(lines, i, lines[j])
	case 2:
		lines[i], lines[j] = lines[j], lines[i]
	case 3:
		lines[i] = lines[i][:r.IntN(len(lines[i])+1)] + "\n"
	}
	req.Code = strings.Join(lines, "")
	b, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// guestWithGC builds the guest with another setting of its garbage collector.
func guestWithGC(t *testing.T, percent string) []byte {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	main := filepath.Join(root, "guest", "main.go")
	source := readFile(t, main)
	changed := bytes.Replace(source, []byte("debug.SetGCPercent(-1)"), []byte("debug.SetGCPercent("+percent+")"), 1)
	if percent != "-1" && bytes.Equal(source, changed) {
		t.Fatal("guest/main.go does not set the percentage as expected")
	}
	dir := t.TempDir()
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {main: filepath.Join(dir, "main.go")}})
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "main.go"), changed, 0o600), os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", out, "./guest")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build ./guest: %v\n%s", err, text)
	}
	return readFile(t, out)
}
