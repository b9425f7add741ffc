package sandbox

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/profile"
	"github.com/mcp-metatool/mcp-metatool/guest/rewrite"
)

var profileFile = flag.String("profile", "", "measure in which functions of the guest scripts spend their time, and write their names to this `file` (scripts/profile-guest)")

// hotShare is the share of all calls and jumps of a workload that a function needs to be
// in the list. Taken together, the functions below it make up less than a hundredth.
const hotShare = 1e-4

// TestProfile measures guest/profile/hot.txt. Each function counts how often it is called
// and how often it jumps: these are what the faster form makes cheaper.
func TestProfile(t *testing.T) {
	if *profileFile == "" {
		t.Skip("run with -profile")
	}
	m, err := rewrite.Parse(compiled(t))
	if err != nil {
		t.Fatal(err)
	}
	names, err := m.FunctionNames()
	if err != nil {
		t.Fatal(err)
	}
	imported, functions := imports(m), len(m.Funcs)
	passes := append([]rewrite.Pass{{Name: "count", Apply: countCalls}}, rewrite.Passes(func(string) bool { return false })...)
	if err := m.Apply(passes...); err != nil {
		t.Fatal(err)
	}
	counts := profileCounts(t, m.Encode(), functions)
	hot := map[string]bool{}
	for workload, list := range counts {
		total := uint64(0)
		for _, n := range list {
			total += n
		}
		for i, n := range list {
			if float64(n) >= hotShare*float64(total) {
				hot[names[uint32(imported+i)]] = true
			}
		}
		t.Logf("%s: %d calls and jumps", workload, total)
	}
	text := strings.Join(slices.Sorted(maps.Keys(hot)), "\n") + "\n"
	if err := os.WriteFile(*profileFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d functions; %d before", len(hot), profile.Names())
}

// imports returns the number of imported functions.
func imports(m *rewrite.Module) (n int) {
	for _, i := range m.Imports {
		if i.Kind == rewrite.KindFunc {
			n++
		}
	}
	return n
}

// countCalls adds a global to the module for each of its functions, which counts how often
// the function is called and how often a loop of its begins. As Go's compiler writes
// functions, each of their jumps is one of the latter.
func countCalls(m *rewrite.Module) error {
	for i := range m.Funcs {
		f := &m.Funcs[i]
		instrs, err := f.Decode(nil)
		if err != nil {
			return err
		}
		counter := uint32(len(m.Globals))
		m.Globals = append(m.Globals, rewrite.Global{GlobalType: rewrite.GlobalType{Type: rewrite.I64, Mutable: true}, Init: rewrite.Instr{Op: rewrite.OpI64Const}})
		const i64Add = 0x7c
		var count []byte
		for _, in := range []rewrite.Instr{{Op: rewrite.OpGlobalGet, Index: counter}, {Op: rewrite.OpI64Const, Value: 1}, {Op: i64Add}, {Op: rewrite.OpGlobalSet, Index: counter}} {
			count = in.Append(count)
		}
		body := slices.Clone(count)
		for j, in := range instrs {
			end := uint32(len(f.Body))
			if j+1 < len(instrs) {
				end = instrs[j+1].At
			}
			if body = append(body, f.Body[in.At:end]...); in.Op == rewrite.OpLoop {
				body = append(body, count...)
			}
		}
		f.Body = body
	}
	return nil
}

// profileCounts runs the workloads in a guest with such counters, and returns what they
// count after each.
func profileCounts(t *testing.T, guest []byte, functions int) map[string][]uint64 {
	ctx := context.Background()
	p, err := compileWith(ctx, guest, nil)
	if err != nil {
		t.Fatal(err)
	}
	base, err := p.boot(ctx, warmups, real().log)
	if err != nil {
		t.Fatal(errors.Join(err, p.close()))
	}
	defer base.close()
	first := len(p.state) - functions
	all := map[string][]uint64{}
	for _, w := range profileWorkloads(t) {
		i := newInstance(Run{Request: w.request(), Caller: &workloadTools{}, Limits: Limits{Fuel: 1 << 40}}, real().log)
		if err := errors.Join(i.splitRequest(false), i.start(ctx, base)); err != nil {
			t.Fatal(err)
		}
		if err := i.serve(ctx); err != nil || i.scriptErr != nil {
			t.Errorf("%s: %v, %+v", w.name, err, i.scriptErr)
		}
		if all[w.name] == nil {
			all[w.name] = make([]uint64, functions)
		}
		for n := range functions {
			all[w.name][n] += i.module.ExportedGlobal(p.state[first+n]).Get() - base.globals[first+n]
		}
		i.close()
	}
	return all
}

// profileWorkloads are the scripts that are measured elsewhere, some that use the library,
// and the programs of HumanEval, as one workload.
func profileWorkloads(t *testing.T) []workload {
	list := append(cpuBound(t), trivial, fiveCalls, realistic(t))
	paths, err := filepath.Glob("testdata/profile/*.star")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		list = append(list, workload{path, read(t, path), "{}"})
	}
	f, err := os.Open("../../../guest/interp/testdata/humaneval/HumanEval.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(z); ; {
		var p struct {
			Prompt   string
			Solution string `json:"canonical_solution"`
			Test     string
			Entry    string `json:"entry_point"`
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Entry == "do_algebra" { // calls eval
			continue
		}
		list = append(list, workload{"HumanEval", fmt.Sprintf("%s%s\n%s\ncheck(%s)\nreturn 1\n", p.Prompt, p.Solution, p.Test, p.Entry), "{}"})
	}
}
