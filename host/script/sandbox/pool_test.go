package sandbox

import (
	"context"
	"runtime"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// ownSnapshot returns another snapshot of the shared program, with a pool of its own.
func ownSnapshot(t testing.TB) *snapshot {
	t.Helper()
	s := realSandbox(t)
	own, err := s.base.program.boot(context.Background(), warmups, s.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.free)
	if _, ok := own.image.(*copyImage); ok {
		withoutInstances(t)
	}
	return own
}

// atRest waits until the pool is at rest and returns what it keeps.
func (p *pool) atRest() []*vm {
	p.settle()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle
}

// TestPool checks which instances are used again, and that they are bounded.
func TestPool(t *testing.T) {
	s := ownSnapshot(t)
	kept := map[string]bool{"well": true, "in an error": true, "some pages": true, "deep": true}
	for _, e := range append([]ending{
		{name: "some pages", code: "x = ['y' * 100 + str(i) for i in range(200)]\nreturn len(x)", want: "200"},
		{name: "deep", code: "def f(n):\n    return f(n - 1) + 1 if n else 0\nreturn f(100)", want: "100"},
	}, endings...) {
		s.pool.close()
		if got, _ := e.run(t, s); got != e.want {
			t.Fatalf("%s: ended in %.200s, want %s", e.name, got, e.want)
		}
		idle := s.pool.atRest()
		if (len(idle) == 1) != kept[e.name] {
			t.Errorf("%s: %d instances are kept, want %t", e.name, len(idle), kept[e.name])
		}
		for _, v := range idle {
			if size, ok := nativeStack(v.run); !ok || size == 0 || size > maxStack {
				t.Errorf("%s: a native stack of %d bytes is kept (known: %t)", e.name, size, ok)
			}
		}
	}
	before, quick := s.pool.taken, 0
	const again = 20
	for range again {
		endings[0].run(t, s)
		s.pool.settle()
		if m := s.pool.idle[len(s.pool.idle)-1].memory.(restorable); m.Quick() {
			quick++
		}
	}
	if got := s.pool.taken - before; got < again-1 {
		t.Errorf("%d of %d runs have used an instance again", got, again)
	}
	if quick == 0 {
		t.Errorf("after none of %d runs restoring was quick", again)
	}

	most := idlePerCPU * runtime.GOMAXPROCS(0)
	var open []*instance
	for range most + 3 {
		open = append(open, startInstance(t, s))
	}
	for _, i := range open {
		i.close()
	}
	if idle := s.pool.atRest(); len(idle) != most {
		t.Errorf("%d instances are kept, want %d", len(idle), most)
	}
}

// TestPoolLimits checks that an instance is used again only if its memory has room for
// the limit of the run, and that the limit is that of the run.
func TestPoolLimits(t *testing.T) {
	s := ownSnapshot(t)
	run := func(limit uint64, code string) (string, Outcome) {
		e := ending{code: code, limits: Limits{Memory: limit}}
		got, out := e.run(t, s)
		s.pool.settle()
		return got, out
	}
	const grows = "x = 'y' * 9000000\nreturn len(x)"
	for _, c := range []struct {
		limit uint64
		code  string
		want  string
		taken bool
	}{
		{160 << 20, "return 1", "1", false}, // more than the warm-up scripts
		{320 << 20, "return 1", "1", false}, // too little room in that one
		{12 << 20, grows, "memory", true},   // dropped
		{320 << 20, "return 1", "1", false},
		{320 << 20, grows, "9000000", true},
	} {
		before := s.pool.taken
		got, _ := run(c.limit, c.code)
		if taken := s.pool.taken > before; got != c.want || taken != c.taken {
			t.Errorf("%.20q with %d: ended in %s, want %s; used again: %t, want %t", c.code, c.limit, got, c.want, taken, c.taken)
		}
	}
}

// TestPoolNeedsARestorableGuest checks that instances of a guest with more state than
// memory and exported globals are not used again.
func TestPoolNeedsARestorableGuest(t *testing.T) {
	s := newSandbox(t, Options{Guest: guestNamed(t, "result")})
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	p := s.base.pool
	if _, is := s.base.image.(*copyImage); is || !s.base.program.reusable {
		withoutInstances(t)
	}
	for _, reusable := range []bool{true, false} {
		p.close()
		s.base.program.reusable = reusable
		before := p.taken
		for range 3 {
			if _, err := s.Run(context.Background(), Run{Request: abi.Request{Op: abi.OpRun}, Caller: &fakeCaller{}}); err != nil {
				t.Fatal(err)
			}
			p.settle()
		}
		if taken, idle := p.taken-before, len(p.atRest()); reusable != (taken == 2) || reusable != (idle == 1) {
			t.Errorf("reusable %t: %d taken, %d kept", reusable, taken, idle)
		}
	}
}

// withoutInstances ends a test of instances that are kept. Linux can keep them.
func withoutInstances(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("instances are not kept on this system")
	}
	testenv.Lacks(t, "instances", "the kernel cannot tell what an instance has changed")
}
