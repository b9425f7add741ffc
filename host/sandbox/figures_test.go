package sandbox

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox/guestbuild"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox/rewrite"
)

var figures = flag.Bool("figures", false, "measure the sandbox and print a table (scripts/bench-sandbox)")

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
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush()
	fmt.Fprintf(out, "%d CPUs, %s/%s; medians, kinds taking turns\n\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	line := func(what, figure, against, ratio, reach string) {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", what, figure, against, ratio, reach)
	}
	line("what", "figure", "against", "ratio", "reach")
	calls(t, line)
	computing(t, out, line)
	loops(t, line)
	longTool(t, line)
	memoryPerCall(t, line)
	starts(t, line)
}

type lineFunc func(what, figure, against, ratio, reach string)

// calls measures whole calls and their parts.
func calls(t *testing.T, line lineFunc) {
	s := realSandbox(t)
	run := func(w workload) func() {
		r := Run{Request: w.request(), Caller: &workloadTools{}}
		return func() {
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
	line("trivial composite", short(m["trivial"]), "instantiate + initialise "+short(m["as compiled"]), times(m["as compiled"], m["trivial"])+" faster", "20x")
	line("  the same", "", "that of the rewritten guest "+short(m["initialize"]), times(m["initialize"], m["trivial"])+" faster", "-")
	line("  the same", "", "native "+short(m["native"]), times(m["trivial"], m["native"]), "at most 12x")
	line("instantiate alone", short(started), "trivial, native "+short(m["native"]), times(started, m["native"]), "10x")
	line("five tool calls", short(m["five"]), "trivial "+short(m["trivial"]), times(m["five"], m["trivial"]), "at most 3x")
}

// computing compares computing scripts in the sandbox, in the same guest without
// metering, and in the interpreter without a sandbox.
func computing(t *testing.T, out io.Writer, line lineFunc) {
	s := realSandbox(t)
	plain := newSandbox(t, Options{Guest: unmetered(t)})
	if err := plain.Err(); err != nil {
		t.Fatal(err)
	}
	var meter, native float64
	list := cpuBound(t)
	rows := [][]string{}
	for _, w := range append(list, realistic(t)) {
		m := takeTurns(15, 1, map[string]func(){
			"metered": func() { w.sandboxed(t, s.base) },
			"plain":   func() { w.sandboxed(t, plain.base) },
			"native":  func() { w.native(t) },
		})
		rows = append(rows, []string{"  " + w.name, short(m["metered"]), "unmetered " + short(m["plain"]) + ", native " + short(m["native"]),
			times(m["metered"], m["plain"]) + ", " + times(m["metered"], m["native"])})
		if w.name != "realistic" {
			meter += math.Log(float64(m["metered"]) / float64(m["plain"]))
			native += math.Log(float64(m["metered"]) / float64(m["native"]))
		}
	}
	n := float64(len(list))
	line("ten CPU-bound scripts", "", "unmetered, geometric mean", fmt.Sprintf("%.2fx", math.Exp(meter/n)), "at most 1.12x")
	line("the same ten", "", "native, geometric mean", fmt.Sprintf("%.1fx", math.Exp(native/n)), "at most 7.5x")
	for _, r := range rows {
		reach := "-"
		if r[0] == "  realistic" {
			reach = "at most 4x of native"
		}
		line(r[0], r[1], r[2], r[3], reach)
	}
}

// unmetered returns a guest that the host accepts, but without metering: its counter
// stays at 0.
func unmetered(t *testing.T) []byte {
	t.Helper()
	m, err := rewrite.Parse(compiled(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range rewrite.Passes() {
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

func times(a, b time.Duration) string { return fmt.Sprintf("%.2fx", float64(a)/float64(b)) }

// short rounds to about three digits.
func short(d time.Duration) string {
	switch {
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d > 100*time.Microsecond:
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}
