package sandbox

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// copied returns the snapshot s with an image that is copied, as on systems without
// copy on write.
func copied(t testing.TB, s *snapshot) *snapshot {
	t.Helper()
	c := *s
	c.image = newCopyImage(contentOf(t, s))
	c.prepared = newPreparedStates()
	c.pool = newPool(&c, real().log)
	return &c
}

// contentOf returns a copy of the memory with which instances of s start.
func contentOf(t testing.TB, s *snapshot) []byte {
	t.Helper()
	i := startInstance(t, s)
	defer i.close()
	content, _ := i.module.Memory().Read(0, i.module.Memory().Size())
	return bytes.Clone(content)
}

func startInstance(t testing.TB, s *snapshot) *instance {
	t.Helper()
	i := newInstance(Run{}, real().log)
	if err := i.start(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	return i
}

// ending is a script and the way its run ends.
type ending struct {
	name, code string
	limits     Limits
	cancel     bool // cancel at the first log entry
	want       string
}

var endings = []ending{
	{name: "well", code: "return [s.echo({'n': i}).n for i in range(3)]", want: "[0,1,2]"},
	{name: "in an error", code: "x = ['y' * i for i in range(200)]\nreturn x[1000]", want: "runtime"},
	{name: "cancelled", code: "x = ['y' * i for i in range(500)]\nprint('now')\nwhile True: x.append(str(len(x)))", cancel: true, want: "cancelled"},
	{name: "out of memory", code: "x = []\nwhile True: x.append('y' * 1000 + str(len(x)))", limits: Limits{Memory: 10 << 20}, want: "memory"},
	{name: "out of memory at once", code: "x = 'y'\nwhile True: x += x", limits: Limits{Memory: 12 << 20}, want: "memory"},
	{name: "out of fuel", code: "x = {}\nwhile True: x[len(x)] = 'y'", limits: Limits{Fuel: 3_000_000}, want: "fuel"},
	{name: "too deep", code: "def f(n): return f(n + 1) + 1\nreturn f(0)", want: "resource"},
	{name: "grown", code: "x = ['y' * 1000 + str(i) for i in range(6000)]\nreturn len(x)", want: "6000"},
}

// run runs the script in an instance of s and returns how it ended.
func (e ending) run(t testing.TB, s *snapshot) (string, Outcome) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	caller := &fakeCaller{tools: echoTools}
	if e.cancel {
		caller.onLog = func(string) { cancel() }
	}
	i := newInstance(Run{Request: request(e.code, "{}"), Limits: e.limits, Caller: caller}, real().log)
	out, err := i.run(ctx, s)
	var limit *LimitError
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled", out
	case errors.As(err, &limit):
		return string(limit.Limit), out
	case err != nil:
		return err.Error(), out
	case out.Err != nil:
		return string(out.Err.Type), out
	}
	return string(out.Result), out
}

// TestStartState checks that an instance starts with exactly the memory and globals of
// the snapshot, whatever earlier runs did and however they ended.
func TestStartState(t *testing.T) {
	base := realSandbox(t).base
	want := contentOf(t, base)
	snapshots := map[string]*snapshot{"of this system": base, "copied": copied(t, base)}
	if s := withoutPagemap(t, base); s != nil {
		snapshots["without pagemap"] = s
	}
	for name, s := range snapshots {
		t.Run(name, func(t *testing.T) {
			check := func(after string) {
				if name != "copied" {
					s.pool.settle() // so that the same instance is looked at
				}
				i := startInstance(t, s)
				defer i.close()
				got, _ := i.module.Memory().Read(0, i.module.Memory().Size())
				if !bytes.Equal(got, want) {
					t.Errorf("after a run that ended %s, memory differs at %d of %d bytes", after, difference(got, want), len(got))
				}
				for n, global := range s.program.state {
					if got := i.module.ExportedGlobal(global).Get(); got != s.globals[n] {
						t.Errorf("after a run that ended %s, %s is %d, not %d", after, global, got, s.globals[n])
					}
				}
				if i.wasi.clock != s.wasi.clock || i.wasi.random != s.wasi.random {
					t.Errorf("after a run that ended %s, the world differs", after)
				}
			}
			rounds := 1
			if *long {
				rounds = 40
			}
			for range rounds {
				for _, e := range endings {
					if got, _ := e.run(t, s); got != e.want {
						t.Fatalf("%s: ended in %.200s, want %s", e.name, got, e.want)
					}
					check(e.name)
				}
			}
			together := len(endings)
			if *long {
				together *= 4
			}
			var wg sync.WaitGroup
			for n := range together {
				wg.Go(func() {
					e := endings[n%len(endings)]
					if got, _ := e.run(t, s); got != e.want {
						t.Errorf("%s: ended in %.200s, want %s", e.name, got, e.want)
					}
					check(e.name)
				})
			}
			wg.Wait()
			if _, is := s.image.(*copyImage); !is && s.pool.taken < rounds*len(endings) {
				t.Errorf("only %d of %d instances were used again", s.pool.taken, s.pool.taken+s.pool.made)
			}
		})
	}
}

func difference(a, b []byte) int {
	for n := range min(len(a), len(b)) {
		if a[n] != b[n] {
			return n
		}
	}
	return min(len(a), len(b))
}

// TestSnapshots checks that a program can have several snapshots, and that instances
// start from their own.
func TestSnapshots(t *testing.T) {
	s := realSandbox(t)
	var taken []*snapshot
	for _, scripts := range [][]warmup{nil, {{code: "return 'x' * 100000 + 'end'", params: "{}", want: `"` + strings.Repeat("x", 100000) + `end"`}}} {
		other, err := s.base.program.boot(context.Background(), scripts, s.log)
		if err != nil {
			t.Fatal(err)
		}
		defer other.free()
		taken = append(taken, other)
	}
	if a, b := contentOf(t, taken[0]), contentOf(t, taken[1]); bytes.Equal(a, b) || bytes.Contains(a, []byte("xxxxxend")) || !bytes.Contains(b, []byte("xxxxxend")) {
		t.Error("the snapshots do not hold what their instances did")
	}
	for range 3 {
		for n, other := range append(taken, s.base) {
			if got, _ := endings[0].run(t, other); got != endings[0].want {
				t.Errorf("snapshot %d: ended in %s", n, got)
			}
		}
	}
}

// TestWarmup checks that there is no snapshot if a warm-up script does not end as
// expected.
func TestWarmup(t *testing.T) {
	s := realSandbox(t)
	for name, w := range map[string]warmup{
		"another result": {code: "return 2", params: "{}", want: "1"},
		"an error":       {code: "return 1 // 0", params: "{}", want: "1"},
		"no response":    {code: "x = 'y'\nwhile True: x += x", params: "{}", want: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.base.program.boot(context.Background(), []warmup{w}, s.log); err == nil || !strings.Contains(err.Error(), "warming up, script 0") {
				t.Error(err)
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.base.program.boot(ctx, []warmup{{code: "while True: pass"}}, s.log); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// slow is a context in which a guest starts slowly: once it has begun, four minutes pass.
type slow struct {
	context.Context
	once *sync.Once
}

func (s slow) Value(key any) any {
	s.once.Do(func() { time.Sleep(4 * time.Minute) })
	return s.Context.Value(key)
}

// TestSlowStart starts a guest on a machine that is very busy: the compiled code counts as broken
// if that fails, and is then compiled again by each process, which makes it busier still.
func TestSlowStart(t *testing.T) {
	program := realSandbox(t).base.program
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s, err := program.boot(slow{context.Background(), &sync.Once{}}, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		s.free()
		if took := time.Since(begin); took < 4*time.Minute {
			t.Errorf("it was not slow: %v", took)
		}
	})
}

// TestNativeStack checks that the deepest recursion of a script keeps the host's
// native stacks below 32 MiB. They are on the host's heap, so the allocations of a run
// bound them, including the smaller stacks that a growing stack replaces. One MiB is
// for everything else.
func TestNativeStack(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the guest's memory is on the heap, too: memory_other.go")
	}
	const most = 33 << 20
	s := realSandbox(t)
	for name, code := range map[string]string{
		"calls":          "def f(n): return f(n + 1) + 1\nreturn f(0)",
		"comprehensions": "def f(n): return [f(n + 1) for x in [1]]\nreturn f(0)",
		"sorting":        "def f(n): return sorted([n], key=lambda x: f(x + 1))\nreturn f(0)",
		"any arguments":  "def f(*a, **k): return f(*a, **k)\nreturn f(1, 2, x=3)",
		"hashing":        "x = ()\nfor i in range(100000): x = (x,)\nreturn {x: 1}",
		"printing":       "x = ()\nfor i in range(100000): x = (x,)\nprint(x)",
		"encoding":       "x = []\nfor i in range(100000): x = [x]\nreturn json.encode(x)",
		"nested source":  "return " + strings.Repeat("[", 20000) + strings.Repeat("]", 20000),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := s.Run(context.Background(), Run{Request: request(code, "{}"), Caller: &fakeCaller{tools: echoTools}})
			runtime.ReadMemStats(&after)
			var limit *LimitError
			if err != nil && !(errors.As(err, &limit) && limit.Limit == LimitRecursion) {
				t.Fatal(err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > most {
				t.Errorf("%d bytes allocated, more than %d", got, most)
			}
		})
	}
}

// TestFuelLimit checks that runs without fuel end with its limit, and that others have
// used less.
func TestFuelLimit(t *testing.T) {
	run := func(fuel uint64) (Outcome, error) {
		return runScript(t, context.Background(), "x = 0\nfor i in range(1000): x += i\nreturn x", "{}", Limits{Fuel: fuel}, &fakeCaller{})
	}
	out, err := run(0)
	if err != nil || out.Err != nil || out.Fuel == 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	enough := out.Fuel
	for _, fuel := range []uint64{enough, enough + 1, 1 << 63} {
		if out, err := run(fuel); err != nil || out.Err != nil || out.Fuel != enough {
			t.Errorf("with %d: %+v, %v", fuel, out, err)
		}
	}
	for _, fuel := range []uint64{1, 1000, enough / 2} {
		out, err := run(fuel)
		var limit *LimitError
		if !errors.As(err, &limit) || limit.Limit != LimitFuel || limit.Value != fuel || out.Fuel != fuel {
			t.Errorf("with %d: %+v, %v", fuel, out, err)
		}
	}
}

// TestHostWorkIsCharged checks that work of the host for a guest uses fuel, and ends
// the run long before the guest's own instructions would.
func TestHostWorkIsCharged(t *testing.T) {
	for _, name := range []string{"endless progress", "endless fetching"} {
		s := newSandbox(t, Options{Guest: guestNamed(t, name)})
		caller := &fakeCaller{tools: func(context.Context, abi.ToolCall) abi.Answer { return abi.Answer{Value: []byte("1")} }}
		out, err := s.Run(context.Background(), Run{Caller: caller, Limits: Limits{Fuel: 1000 * callCost}})
		var limit *LimitError
		if !errors.As(err, &limit) || limit.Limit != LimitFuel || len(caller.progress) > 1000 {
			t.Errorf("%s: %d reports, %+v, %v", name, len(caller.progress), out, err)
		}
	}
}

// TestEmbeddedDigest checks that the embedded guest matches guest.sum, and that another
// one is refused before it runs.
func TestEmbeddedDigest(t *testing.T) {
	was, wasPacked := embeddedSum, packed
	defer func() { embeddedSum, packed = was, wasPacked }()
	for _, damaged := range []string{"", wasPacked[:5], wasPacked[:len(wasPacked)-1], wasPacked[:1000] + "x" + wasPacked[1001:]} {
		packed = damaged
		if _, err := load(context.Background(), Options{}, real().log); !errors.Is(err, ErrGuest) || !strings.Contains(err.Error(), "guest.wasm.gz") {
			t.Errorf("with %d bytes: %v", len(damaged), err)
		}
	}
	packed = wasPacked
	for _, sum := range []string{"", "wasm sha256:00\n", strings.Replace(was, "wasm sha256:", "wasm sha256:0", 1), strings.Repeat("0", 64)} {
		embeddedSum = sum
		if _, err := load(context.Background(), Options{}, real().log); !errors.Is(err, ErrGuest) || !strings.Contains(err.Error(), "guest.sum") {
			t.Errorf("with %.40q: %v", sum, err)
		}
	}
}
