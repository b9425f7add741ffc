package sandbox

import (
	"context"
	"path/filepath"
	"testing"
)

// BenchmarkRun measures a whole call: through Sandbox.Run, and by the interpreter
// without a sandbox.
func BenchmarkRun(b *testing.B) {
	s := realSandbox(b)
	for _, w := range append(cpuBound(b), trivial, fiveCalls, realistic(b)) {
		b.Run(w.name, func(b *testing.B) {
			b.ReportAllocs()
			var out Outcome
			for b.Loop() {
				var err error
				if out, err = s.Run(context.Background(), Run{Request: w.request(), Caller: &workloadTools{}}); err != nil || out.Err != nil {
					b.Fatal(err, out.Err)
				}
			}
			b.ReportMetric(float64(out.Memory), "guest-B")
			b.ReportMetric(float64(out.Fuel), "fuel")
		})
		b.Run(w.name+"/native", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.native(b)
			}
		})
	}
}

// BenchmarkStart measures making and dropping an instance: from the snapshot, from
// one that is copied, and without one, by initialising the guest.
func BenchmarkStart(b *testing.B) {
	s := realSandbox(b)
	for name, snap := range map[string]*snapshot{"snapshot": s.base, "copied": copied(b, s.base)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				startInstance(b, snap).close()
			}
		})
	}
	b.Run("initialize", func(b *testing.B) {
		for b.Loop() {
			initialized(b, s.base.program).close()
		}
	})
}

// initialized returns an instance that was made without a snapshot.
func initialized(t testing.TB, p *program) *instance {
	t.Helper()
	i := newInstance(Run{}, real().log)
	if err := i.initialize(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	return i
}

// BenchmarkCompile measures loading the embedded guest, without and with the cache.
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
