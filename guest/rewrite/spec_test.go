package rewrite

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// The test suite of the WebAssembly specification, which is in wazero's sources:
// thousands of valid and invalid modules, and calls of their exports.

var wazeroDir = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	return strings.TrimSpace(string(out)), err
})

func wazeroFile(t testing.TB, path ...string) string {
	t.Helper()
	dir, err := wazeroDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{dir}, path...)...)
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type specCommand struct {
	Type       string
	Line       int
	Name       string
	As         string
	Filename   string
	ModuleType string `json:"module_type"`
	Action     struct {
		Type, Module, Field string
		Args                []struct{ Type, Value string }
	}
}

// specRun runs one file of the suite on the original modules and on the rewritten
// ones.
type specRun struct {
	t         *testing.T
	dir       string
	commands  []specCommand
	original  wazero.Runtime
	rewritten wazero.Runtime
	named     map[string]*specModule
	last      *specModule
	counts    map[string]int
}

type specModule struct {
	original, rewritten api.Module
	machine             *machine // nil if other modules can change its state
}

// TestSpecification runs the tests of the WebAssembly specification that wazero has, before and
// after rewriting; a third of their files without -long.
func TestSpecification(t *testing.T) {
	dir := wazeroFile(t, "internal", "integration_test", "spectest", "v2", "testdata")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) < 80 {
		t.Fatalf("%d files in %s, %v", len(files), dir, err)
	}
	counts := map[string]int{}
	parts := 3
	if *long {
		parts = 1
	}
	for i, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if strings.HasPrefix(name, "simd") || i%parts > 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			counts["files"]++
			var script struct{ Commands []specCommand }
			if err := json.Unmarshal(readFile(t, file), &script); err != nil {
				t.Fatal(err)
			}
			s := &specRun{t: t, dir: dir, commands: script.Commands, original: interpreter(t), rewritten: interpreter(t), named: map[string]*specModule{}, counts: counts}
			env := readFile(t, wazeroFile(t, "internal", "integration_test", "spectest", "testdata", "spectest.wasm"))
			for _, r := range []wazero.Runtime{s.original, s.rewritten} {
				if _, err := r.InstantiateWithConfig(context.Background(), env, wazero.NewModuleConfig().WithName("spectest")); err != nil {
					t.Fatal(err)
				}
			}
			for i := range s.commands {
				s.run(i)
			}
		})
	}
	t.Log(counts)
	if counts["files"] < 80/parts {
		return // some were asked for
	}
	// Files differ in size.
	if counts["calls"] < 15_000/(parts*parts) || counts["counted"] < 10_000/(parts*parts) || counts["all passes"] < 150/(parts*parts) || counts["refused"] < 1_500/(parts*parts) {
		t.Errorf("too little was tested: %v", counts)
	}
}

// run executes one command of the file.
func (s *specRun) run(i int) {
	c := &s.commands[i]
	switch c.Type {
	case "module":
		s.last = s.load(i)
		if c.Name != "" {
			s.named[c.Name] = s.last
		}
	case "assert_unlinkable", "assert_uninstantiable":
		s.load(i)
	case "assert_invalid", "assert_malformed":
		if c.ModuleType == "binary" {
			s.refuse(c)
		}
	case "register":
		s.module(c.Name).machine = nil
	case "action", "assert_return", "assert_trap", "assert_exhaustion":
		s.act(c)
	default:
		s.t.Fatalf("line %d: %s", c.Line, c.Type)
	}
}

func (s *specRun) module(name string) *specModule {
	if name == "" {
		return s.last
	}
	return s.named[name]
}

// load instantiates a module on both sides. It must succeed on both or fail on both.
func (s *specRun) load(i int) *specModule {
	c := &s.commands[i]
	wasm := readFile(s.t, filepath.Join(s.dir, c.Filename))
	m, err := Parse(wasm)
	if err != nil {
		s.t.Fatalf("line %d: %v", c.Line, err)
	}
	applied := 0
	for _, p := range []Pass{Structure(nil), ExtractData(), ExportState(), Meter(testMeter), DirectCalls()} {
		again, err := Parse(m.Encode()) // a pass may leave invalid indices behind
		if err != nil {
			s.t.Fatal(err)
		}
		switch err := again.Apply(p); {
		case err == nil:
			m = again
			applied++
		case !errors.Is(err, ErrUnsupported) && c.Type == "module":
			s.t.Fatalf("line %d: %v", c.Line, err)
		}
	}
	config := wazero.NewModuleConfig().WithName(s.registered(i)).WithStartFunctions()
	ctx := context.Background()
	a, errA := s.original.InstantiateWithConfig(ctx, wasm, config)
	b, errB := s.rewritten.InstantiateWithConfig(ctx, m.Encode(), config)
	if (errA == nil) != (errB == nil) || c.Type == "module" && errA != nil {
		s.t.Fatalf("line %d: %v, %v", c.Line, errA, errB)
	}
	if errA != nil || c.Type != "module" { // wazero accepts empty segments out of range
		return nil
	}
	writeSegments(s.t, b, m.Encode())
	if applied == 5 {
		s.counts["all passes"]++
	}
	out := &specModule{original: a, rewritten: b}
	if len(m.Imports) == 1 && m.Start == nil { // the meter's
		if out.machine, err = newMachine(wasm, nil); err != nil {
			s.t.Fatalf("line %d: %v", c.Line, err)
		}
	}
	return out
}

// registered returns the name under which others will import module i.
func (s *specRun) registered(i int) string {
	last := true
	for _, c := range s.commands[i+1:] {
		switch c.Type {
		case "module":
			last = false
		case "register":
			if c.Name == "" && last || c.Name != "" && c.Name == s.commands[i].Name {
				return c.As
			}
		}
	}
	return ""
}

// refuse checks that a module that wazero refuses does not become valid.
func (s *specRun) refuse(c *specCommand) {
	ctx := context.Background()
	wasm := readFile(s.t, filepath.Join(s.dir, c.Filename))
	if _, err := s.original.CompileModule(ctx, wasm); err == nil {
		return // a proposal that wazero supports and the suite does not
	}
	s.counts["refused"]++
	m, err := Parse(wasm)
	if err != nil {
		var p *ParseError
		if !errors.As(err, &p) || p.Offset > len(wasm) {
			s.t.Errorf("%s: %#v", c.Filename, err)
		}
		return
	}
	if _, err := s.rewritten.CompileModule(ctx, m.Encode()); err == nil {
		s.t.Errorf("%s: valid when encoded again", c.Filename)
	}
	if err := m.Apply(Meter(testMeter)); err != nil {
		return
	}
	if _, err := s.rewritten.CompileModule(ctx, m.Encode()); err == nil {
		s.t.Errorf("%s: valid when metered", c.Filename)
	}
}

func (s *specRun) act(c *specCommand) {
	m := s.module(c.Action.Module)
	if c.Action.Type == "get" {
		a, b := m.original.ExportedGlobal(c.Action.Field).Get(), m.rewritten.ExportedGlobal(c.Action.Field).Get()
		if a != b && !strings.Contains(m.original.ExportedGlobal(c.Action.Field).String(), "ref") {
			s.t.Errorf("line %d: %x, %x", c.Line, a, b)
		}
		return
	}
	s.counts["calls"]++
	var args []uint64
	for _, a := range c.Action.Args {
		v, err := strconv.ParseUint(a.Value, 10, 64)
		if err != nil && a.Value != "null" {
			s.t.Fatal(err)
		}
		args = append(args, v)
	}
	a := invoke(m.original, c.Action.Field, 0, 0, args...)
	var b end
	if m.machine != nil {
		b = invoke(m.rewritten, c.Action.Field, plenty, 1000, args...)
	} else { // other modules may run, with their own counters
		b.results, b.err = m.rewritten.ExportedFunction(c.Action.Field).Call(context.Background(), args...)
		b.memory = a.memory
	}
	if slices.Contains(m.original.ExportedFunction(c.Action.Field).Definition().ResultTypes(), api.ValueType(FuncRef)) {
		a.results, b.results = nil, nil // pointers
	}
	if err := a.same(b); err != nil {
		s.t.Errorf("line %d, %s: %v", c.Line, c.Action.Field, err)
	}
	s.count(c, m, b, args)
}

// count compares the fuel used with the cost that the machine counts.
func (s *specRun) count(c *specCommand, m *specModule, b end, args []uint64) {
	if m.machine == nil {
		return
	}
	if c.Type == "assert_exhaustion" {
		m.machine = nil // stack sizes differ
		return
	}
	m.machine.cost = 0
	_, err := m.machine.invoke(c.Action.Field, args...)
	if (err == nil) != (b.err == nil) {
		s.t.Errorf("line %d, %s: %v, the machine %v", c.Line, c.Action.Field, b.err, err)
	} else if cost := m.machine.cost; err == nil && cost != b.fuel || cost > b.fuel {
		s.t.Errorf("line %d, %s: %d units used, the machine counts %d", c.Line, c.Action.Field, b.fuel, cost)
	}
	s.counts["counted"]++
}
