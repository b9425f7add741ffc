package rewrite

import (
	"flag"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/mcp-metatool/mcp-metatool/abi"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// BenchmarkGuest measures rewriting the guest.
func BenchmarkGuest(b *testing.B) {
	wasm := guest(b)
	b.SetBytes(int64(len(wasm)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Guest(wasm, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSegments measures finding the segments in the rewritten guest.
func BenchmarkSegments(b *testing.B) {
	wasm, err := Guest(guest(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Segments(wasm); err != nil {
			b.Fatal(err)
		}
	}
}

var cpuScripts = map[string]string{
	"fib":     "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nreturn fib(18)",
	"loop":    "x = 0\nfor i in range(60000):\n    x += i % 7\nreturn x",
	"dict":    "d = {}\nfor i in range(8000):\n    d['k%d' % (i % 500)] = i\nreturn len(d)",
	"sort":    "return sorted([(i * 7919) % 10007 for i in range(6000)])[5]",
	"strings": "s = []\nfor i in range(5000):\n    s.append('item ' + str(i))\nreturn len(','.join(s).split(','))",
	"json":    "v = [{'id': i, 'name': 'n%d' % i, 'tags': ['a', 'b']} for i in range(500)]\nreturn len(json.encode(json.decode(json.encode(v))))",
	"sieve":   "n = 12000\ns = [True] * n\nfor i in range(2, 110):\n    if s[i]:\n        for j in range(i * i, n, i):\n            s[j] = False\nreturn len([i for i in range(2, n) if s[i]])",
	"matrix":  "n = 20\na = [[i * j % 5 for j in range(n)] for i in range(n)]\nreturn len([[a[i][k] * a[k][j] for k in range(n)] for i in range(n) for j in range(n)])",
	"bigint":  "x = 1\nfor i in range(1, 400):\n    x *= i\nreturn len(str(x))",
	"floats":  "x = 0.5\nfor i in range(20000):\n    x = x * 1.0001 + 0.25 - x / 3\nreturn int(x)",
}

// BenchmarkOverhead compares CPU-bound scripts with and without metering,
// alternating. The ratios are of the fastest of a few runs; "direct" is with only
// DirectCalls. With -benchtime 1x, which is to show that it runs, each script runs once.
func BenchmarkOverhead(b *testing.B) {
	plain := guest(b)
	variants := []struct {
		name string
		mod  func(testing.TB) api.Module
	}{
		{"plain", nil}, {"direct", nil}, {"meter", nil}, {"all", nil},
	}
	wasms := [][]byte{plain, rewritten(b, plain, DirectCalls()), rewritten(b, plain, Meter(testMeter)), rewritten(b, plain, testPasses()...)}
	for i, wasm := range wasms {
		r := compiler(b)
		guestRuntime(b, r, wasm)
		c, err := r.CompileModule(b.Context(), wasm)
		if err != nil {
			b.Fatal(err)
		}
		variants[i].mod = func(t testing.TB) api.Module { return compiled(t, r, c, wasm) }
	}
	runs := 7
	if flag.Lookup("test.benchtime").Value.String() == "1x" {
		runs = 1
	}
	for b.Loop() {
		sum := make([]float64, len(variants))
		for _, name := range slices.Sorted(maps.Keys(cpuScripts)) {
			best := make([]time.Duration, len(variants))
			for range runs {
				for i, v := range variants {
					d := timeGuest(b, v.mod(b), cpuScripts[name])
					if best[i] == 0 || d < best[i] {
						best[i] = d
					}
				}
			}
			for i := range variants {
				sum[i] += math.Log(float64(best[i]) / float64(best[0]))
			}
			b.Logf("%-8s plain %v, direct %.2f, meter %.2f, all %.2f", name, best[0],
				float64(best[1])/float64(best[0]), float64(best[2])/float64(best[0]), float64(best[3])/float64(best[0]))
		}
		for i, v := range variants[1:] {
			b.ReportMetric(math.Exp(sum[i+1]/float64(len(cpuScripts))), v.name+"/plain")
		}
	}
}

// timeGuest returns the time of a script, without the start of the guest.
func timeGuest(b *testing.B, mod api.Module, script string) time.Duration {
	b.Helper()
	defer mod.Close(b.Context())
	g := newGuestCall(mod, script, 1_000_000)
	g.call(b, abi.ExportInitialize)
	start := time.Now()
	g.call(b, abi.ExportRun)
	return time.Since(start)
}
