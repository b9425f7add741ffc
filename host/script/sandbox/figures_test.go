package sandbox

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/guestbuild"
	"github.com/mcp-metatool/mcp-metatool/guest/profile"
	"github.com/mcp-metatool/mcp-metatool/guest/rewrite"
)

var figures = flag.Bool("figures", false, "measure the sandbox and print a table (scripts/bench-sandbox)")

var figuresRounds = flag.Int("figures.rounds", 3, "how often everything is measured")

// TestFigures prints how fast the sandbox is, with -figures. Measurements that are
// compared alternate, so that other load affects both. Nothing is asserted.
func TestFigures(t *testing.T) {
	if *figuresStart != "" {
		printFirstResult(t)
		return
	}
	if !*figures {
		t.Skip("run with -figures")
	}
	var all table
	for range *figuresRounds {
		calls(t, &all)
		saved(t, &all)
		manyServers(t, &all)
		computing(t, &all)
		loops(t, &all)
		memoryPerCall(t, &all)
		starts(t, &all)
		manyProcesses(t, &all)
	}
	all.print(os.Stdout)
}

// calls measures whole calls and their parts.
func calls(t *testing.T, all *table) {
	s := realSandbox(t)
	run := func(w workload) func() {
		caller := &workloadTools{}
		n := 0
		return func() {
			n++
			r := Run{Request: w.request(), Caller: caller}
			r.Request.Name = fmt.Sprint("new", n) // a script that never ran before
			if out, err := s.Run(context.Background(), r); err != nil || out.Err != nil {
				t.Fatal(out.Err, err)
			}
		}
	}
	m := takeTurns(40, 20, map[string]func(){
		"trivial": run(trivial), "five": run(fiveCalls),
		"native":      func() { trivial.native(t) },
		"initialize":  func() { initialized(t, s.base.program).close() },
		"as compiled": asCompiled(t),
	})
	var instantiate []time.Duration
	for range 400 {
		i := newInstance(Run{}, s.log)
		begin := time.Now()
		err := i.start(context.Background(), s.base)
		instantiate = append(instantiate, time.Since(begin))
		i.close()
		if err != nil {
			t.Fatal(err)
		}
	}
	started := median(instantiate)
	all.ratio("trivial eval_starlark, against native", m["trivial"], m["native"], 12)
	all.ratio("five tool calls, against trivial", m["five"], m["trivial"], 3)
	all.ratio("making an instance, against trivial native", started, m["native"], 10)
	all.ratio("instance without a snapshot, against trivial", m["initialize"], m["trivial"], 0)
	all.ratio("the same, of the guest as compiled", m["as compiled"], m["trivial"], 0)
}

// computing compares computing scripts in the sandbox, in the same guest without
// metering, and in the interpreter without a sandbox.
func computing(t *testing.T, all *table) {
	s := realSandbox(t)
	plain := newSandbox(t, Options{Guest: unmetered(t)})
	if err := plain.Err(); err != nil {
		t.Fatal(err)
	}
	var meter, native float64
	list := cpuBound(t)
	for _, w := range append(list, realistic(t)) {
		m := takeTurns(15, 1, map[string]func(){
			"metered": func() { w.sandboxed(t, s.base) },
			"plain":   func() { w.sandboxed(t, plain.base) },
			"native":  func() { w.native(t) },
		})
		most := 0.0
		if w.name == "realistic" {
			most = 4
		} else {
			meter += math.Log(float64(m["metered"]) / float64(m["plain"]))
			native += math.Log(float64(m["metered"]) / float64(m["native"]))
		}
		all.ratio(w.name+", against native", m["metered"], m["native"], most)
	}
	n := float64(len(list))
	all.add("ten CPU-bound scripts, geometric mean, against native", math.Exp(native/n), 7.5, times)
	all.add("metered, against unmetered", math.Exp(meter/n), 1.12, times)
}

// unmetered returns a guest that the host accepts, but without metering: its counter
// stays at 0.
func unmetered(t *testing.T) []byte {
	t.Helper()
	m, err := rewrite.Parse(compiled(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range rewrite.Passes(profile.Hot) {
		if p.Name == "meter" {
			p.Apply = func(m *rewrite.Module) error {
				m.Exports = append(m.Exports, rewrite.Export{Name: abi.ExportFuel, Kind: rewrite.KindGlobal, Index: uint32(len(m.Globals))})
				m.Globals = append(m.Globals, rewrite.Global{GlobalType: rewrite.GlobalType{Type: rewrite.I64, Mutable: true}, Init: rewrite.Instr{Op: rewrite.OpI64Const}})
				return nil
			}
		}
		if err := m.Apply(p); err != nil {
			t.Fatal(err)
		}
	}
	return m.Encode()
}

// asCompiled makes and initialises an instance of the guest as compiled, with its
// table and its data. Before there were snapshots, every call did this.
func asCompiled(t *testing.T) func() {
	t.Helper()
	ctx := t.Context()
	p := &program{runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithDebugInfoEnabled(false))}
	t.Cleanup(func() { _ = p.close() })
	_, err := p.provide(ctx)
	if err == nil {
		p.module, err = p.runtime.CompileModule(ctx, compiled(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		i := newInstance(Run{}, real().log)
		defer i.close()
		i.memory = newMemory(i.limits.Memory)
		var err error
		if i.module, err = p.instantiate(context.WithValue(ctx, instanceKey{}, i), i.memory); err != nil {
			t.Fatal(err)
		}
		if _, err := i.call(ctx, abi.ExportInitialize); err != nil {
			t.Fatal(err)
		}
	}
}

// compiled returns the guest before it is rewritten.
func compiled(t *testing.T) []byte {
	t.Helper()
	root, err := guestbuild.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	wasm, err := guestbuild.Compile(t.Context(), root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// takeTurns runs each of kinds inARow times, and repeats this n times. It returns the
// median time of each.
func takeTurns(n, inARow int, kinds map[string]func()) map[string]time.Duration {
	took := map[string][]time.Duration{}
	for range n {
		for name, run := range kinds {
			for range inARow {
				begin := time.Now()
				run()
				took[name] = append(took[name], time.Since(begin))
			}
		}
	}
	medians := map[string]time.Duration{}
	for name, list := range took {
		medians[name] = median(list)
	}
	return medians
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}
