package sandbox

import (
	"context"
	"path/filepath"
	"testing"
)

func BenchmarkRun(b *testing.B) {
	for name, code := range map[string]string{
		"trivial":   "return 1 + 1",
		"fiveCalls": "return [s.echo({'n': i, 'items': ['a', 'b', {'c': 1.5}]}).n for i in range(5)]",
	} {
		b.Run(name, func(b *testing.B) {
			realSandbox(b)
			b.ReportAllocs()
			var memory uint64
			for b.Loop() {
				out, err := runScript(b, context.Background(), code, "{}", Limits{}, &fakeCaller{})
				if err != nil || out.Err != nil {
					b.Fatal(err, out.Err)
				}
				memory = out.Memory
			}
			b.ReportMetric(float64(memory), "guest-B")
		})
	}
}

// BenchmarkStart makes an initialised instance and drops it.
func BenchmarkStart(b *testing.B) {
	s := realSandbox(b)
	for b.Loop() {
		i, err := newInstance(Run{}, s.log)
		if err != nil {
			b.Fatal(err)
		}
		if err := i.start(context.Background(), s.program); err != nil {
			b.Fatal(err)
		}
		i.close()
	}
}

// BenchmarkCompile makes the embedded guest ready: from nothing, and from the
// cache.
func BenchmarkCompile(b *testing.B) {
	ready := func(dir string) {
		s := New(Options{CacheDir: dir})
		if err := s.Err(); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			ready("")
		}
	})
	b.Run("cached", func(b *testing.B) {
		dir := filepath.Join(b.TempDir(), "cache")
		ready(dir)
		for b.Loop() {
			ready(dir)
		}
	})
}
