package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// determinedFile is the environment variable that makes TestDeterminism of another
// process write its results to the file that it names.
const determinedFile = "SANDBOX_TEST_DETERMINED_FILE"

// TestDeterminism checks that result, error, memory, fuel and snapshot are always the
// same. It runs the corpus three times: one after the other, many at once in another
// order, and in another process. With -long, that compiles the guest itself.
func TestDeterminism(t *testing.T) {
	s := realSandbox(t)
	runs := corpus(t)
	got := make([]string, len(runs)+1)
	got[0] = fmt.Sprintf("snapshot %x", sha256.Sum256(contentOf(t, s.base)))
	if file := os.Getenv(determinedFile); file != "" {
		for n, r := range runs {
			got[n+1] = r.describe(s)
		}
		if err := os.WriteFile(file, []byte(strings.Join(got, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}

	elsewhere := make(chan error, 1)
	file := filepath.Join(t.TempDir(), "found")
	go func() {
		child := exec.Command(os.Args[0], "-test.run=^TestDeterminism$", fmt.Sprintf("-long=%t", *long))
		child.Env = append(os.Environ(), determinedFile+"="+file, "GOGC=20", "GOMAXPROCS=1")
		if *long {
			child.Env = append(child.Env, withoutCache+"=1")
		}
		out, err := child.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		elsewhere <- err
	}()
	for n, r := range runs {
		got[n+1] = r.describe(s)
	}
	again := slices.Clone(got)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := len(runs) - 1 - worker; n >= 0; n -= 4 {
				again[n+1] = runs[n].describe(s)
			}
		})
	}
	wg.Wait()
	if err := <-elsewhere; err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Split(string(text), "\n")
	if len(other) != len(got) {
		t.Fatalf("%d runs in another process, not %d", len(other), len(got))
	}
	for n := range got {
		if got[n] != again[n] {
			t.Errorf("differs when run again:\n%s\n%s", got[n], again[n])
		}
		if got[n] != other[n] {
			t.Errorf("differs in another process:\n%s\n%s", got[n], other[n])
		}
		// They allocate many times their limit of memory.
		if strings.HasPrefix(got[n], "collector") && !strings.HasSuffix(got[n], "error null, <nil>") {
			t.Errorf("without a collection? %s", got[n])
		}
	}
	t.Logf("%d scripts, each the same in 3 runs in 2 processes", len(runs))
}

// corpusRun is one script with its params, limits and tools.
type corpusRun struct {
	name string
	run  func(s *Sandbox) (Outcome, error)
}

// describe returns everything that must be the same each time.
func (r corpusRun) describe(s *Sandbox) string {
	out, err := r.run(s)
	failure, _ := json.Marshal(out.Err)
	return fmt.Sprintf("%s: fuel %d, memory %d, %d calls, result %x, error %s, %v",
		r.name, out.Fuel, out.Memory, out.Calls, sha256.Sum256(out.Result), failure, err)
}

// corpus returns scripts of the interpreter's tests, hostile scripts that do not end by
// timeout, and some that keep the garbage collector busy. It has every 48th script
// and one hostile script for each category, which ends by fuel soon; with -long, all of them.
func corpus(t *testing.T) []corpusRun {
	t.Helper()
	var runs []corpusRun
	scripts, every := 0, 48
	if *long {
		every = 1
	}
	for _, path := range glob(t, "../../../guest/interp/testdata/*.txtar") {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		params := map[string]string{}
		for _, f := range archive.Files {
			if name, ok := strings.CutSuffix(f.Name, ".params"); ok {
				params[name] = string(f.Data)
			}
		}
		for _, f := range archive.Files {
			name, ok := strings.CutSuffix(f.Name, ".star")
			if !ok {
				continue
			}
			if scripts++; scripts%every == 0 {
				runs = append(runs, scriptRun(name, string(f.Data), params[name], Limits{}))
			}
		}
	}
	seen := map[string]bool{}
	for _, a := range attacks(t) {
		if a.want != "timeout" && a.want != "cancelled" && (*long || !seen[a.category()]) {
			seen[a.category()] = true
			if !*long {
				a.limits.Fuel = min(a.limits.Fuel, 20_000_000)
			}
			runs = append(runs, corpusRun{"hostile " + a.name, func(s *Sandbox) (Outcome, error) { return a.run(context.Background(), s) }})
		}
	}
	for name, code := range map[string]string{
		"collector, strings": "x = []\nfor i in range(6000):\n    x = (x + [str(i) * 50])[-500:]\nreturn x[-1]",
		"collector, dicts":   "r = 0\nfor i in range(1500):\n    d = {str(k): [k, i] for k in range(50)}\n    r += len(d)\nreturn r",
		"collector, json":    "v = {'a': [1, 2.5, 'x' * 100] * 20}\nfor i in range(150):\n    v = json.decode(json.encode(v))\nreturn len(v.a)",
	} {
		runs = append(runs, scriptRun(name, code, "{}", Limits{Memory: 16 << 20}))
	}
	slices.SortFunc(runs, func(a, b corpusRun) int { return strings.Compare(a.name, b.name) })
	return runs
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err == nil && len(paths) == 0 {
		err = errors.New("no such files")
	}
	if err != nil {
		t.Fatal(pattern, err)
	}
	return paths
}

// scriptRun returns a run of a script with two servers. Their tools answer with the
// arguments, except for one that fails.
func scriptRun(name, code, params string, limits Limits) corpusRun {
	r := abi.Request{Op: abi.OpRun, Name: name, Code: code, Servers: []string{"demo", "other"}}
	if params != "" {
		r.Params = json.RawMessage(params)
	}
	tools := func(_ context.Context, c abi.ToolCall) abi.Answer {
		if c.Tool == "broken" {
			return abi.Answer{Err: &abi.CallError{Type: abi.ErrTool, Server: c.Server, Tool: c.Tool, Message: "it is broken"}}
		}
		return abi.Answer{Value: c.Arguments}
	}
	return corpusRun{name, func(s *Sandbox) (Outcome, error) {
		return s.Run(context.Background(), Run{Request: r, Limits: limits, Caller: &fakeCaller{tools: tools}})
	}}
}
