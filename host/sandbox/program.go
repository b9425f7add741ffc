package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

const (
	// compileWorkers is how many functions are compiled at a time. More than
	// one also lets a cancelled compile stop.
	compileWorkers = 2
	// probeTime bounds the one start of a guest that asks for its version.
	probeTime = 10 * time.Second
)

// program is a guest that is compiled, keeps the contract, and can be
// instantiated any number of times, concurrently.
type program struct {
	runtime wazero.Runtime
	cache   *compileCache // nil without
	module  wazero.CompiledModule
	// initial is the memory an instance starts with, in bytes.
	initial uint64
}

// load compiles guest and checks it. A cache that cannot be used costs time,
// not the guest. What went wrong in a refused guest is text only: to a run it
// is neither a fault of its own instance nor of its context.
func load(ctx context.Context, guest []byte, cacheDir string, log *slog.Logger) (*program, error) {
	p, err := compile(ctx, guest, cacheDir, log)
	if err == nil {
		if err = p.probe(ctx, log); err == nil {
			return p, nil
		}
		err = errors.Join(err, p.close())
	}
	if ctx.Err() != nil {
		return nil, ErrClosed
	}
	return nil, fmt.Errorf("%w: %v", ErrGuest, err)
}

func compile(ctx context.Context, guest []byte, cacheDir string, log *slog.Logger) (*program, error) {
	if cacheDir != "" {
		cache, err := openCache(cacheDir, guest)
		if err != nil {
			log.Warn("sandbox: going without a compilation cache", "error", err)
			return compileWith(ctx, guest, nil)
		}
		p, err := compileWith(ctx, guest, cache)
		if err == nil || ctx.Err() != nil {
			return p, err
		}
		// A damaged or unwritable cache fails here, and so does a guest that
		// does not compile: without the cache it is plain which.
		log.Warn("sandbox: compiling again without the cache", "error", errors.Join(err, cache.discard()))
	}
	return compileWith(ctx, guest, nil)
}

func compileWith(ctx context.Context, guest []byte, cache *compileCache) (*program, error) {
	// WithCloseOnContextDone is what stops a guest that does not return. It
	// checks at every loop and call; metered code will do so by its fuel.
	config := wazero.NewRuntimeConfigCompiler().WithCloseOnContextDone(true).WithDebugInfoEnabled(false)
	if cache != nil {
		config = config.WithCompilationCache(cache.CompilationCache)
	}
	p := &program{runtime: wazero.NewRuntimeWithConfig(ctx, config), cache: cache}
	if err := p.link(ctx, guest); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *program) link(ctx context.Context, guest []byte) error {
	provided := map[string]api.FunctionDefinition{}
	for _, host := range []struct {
		name      string
		functions []hostFunction
	}{{abi.HostModule, abiFunctions}, {wasiModule, wasiFunctions}} {
		b := p.runtime.NewHostModuleBuilder(host.name)
		for _, f := range host.functions {
			b.NewFunctionBuilder().WithGoModuleFunction(f.guarded(), f.params, f.results).Export(f.name)
		}
		m, err := b.Instantiate(ctx)
		if err != nil {
			return err
		}
		for name, def := range m.ExportedFunctionDefinitions() {
			provided[host.name+"."+name] = def
		}
	}
	var err error
	p.module, err = p.runtime.CompileModule(experimental.WithCompilationWorkers(ctx, compileWorkers), guest)
	if err != nil {
		return err
	}
	if err := checkImports(p.module, provided); err != nil {
		return err
	}
	p.initial, err = checkExports(p.module)
	return err
}

// probe starts one instance to ask it for its version of the contract.
func (p *program) probe(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	i, err := newInstance(Run{}, log)
	if err != nil {
		return err
	}
	defer i.close()
	if err := i.start(ctx, p); err != nil {
		return fmt.Errorf("it does not start: %w", i.classify(ctx, err))
	}
	version, err := i.call(ctx, abi.ExportVersion)
	if err != nil {
		return fmt.Errorf("%s: %w", abi.ExportVersion, i.classify(ctx, err))
	}
	if version != abi.Version {
		return fmt.Errorf("it has version %d of the contract, the host has %d", version, abi.Version)
	}
	return nil
}

// instantiate makes an anonymous instance over mem. Nothing of the guest has
// run in it but a start function, if the module has one.
func (p *program) instantiate(ctx context.Context, mem memory) (api.Module, error) {
	ctx = experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(
		func(_, _ uint64) experimental.LinearMemory { return mem }))
	return p.runtime.InstantiateModule(ctx, p.module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
}

// close is not for a run's context: the runtime has to go even after that.
func (p *program) close() error {
	err := p.runtime.Close(context.Background())
	if p.cache != nil {
		err = errors.Join(err, p.cache.Close(context.Background()))
	}
	return err
}

// checkImports wants nothing imported but what the host provides.
func checkImports(m wazero.CompiledModule, provided map[string]api.FunctionDefinition) error {
	if len(m.ImportedMemories()) > 0 {
		return errors.New("it imports a memory (a guest owns its memory)")
	}
	for _, def := range m.ImportedFunctions() {
		module, name, _ := def.Import()
		have, ok := provided[module+"."+name]
		if !ok {
			return fmt.Errorf("it imports %s.%s, which the host does not have", module, name)
		}
		if got, want := signature(def), signature(have); got != want {
			return fmt.Errorf("it imports %s.%s as %s, the host has %s", module, name, got, want)
		}
	}
	return nil
}

// exports is every function a guest exports.
var exports = map[string]string{
	abi.ExportInitialize: "() -> ()",
	abi.ExportVersion:    "() -> (i32)",
	abi.ExportRun:        "() -> ()",
}

// checkExports wants exactly the exports of the contract, and tells how much
// memory the guest starts with.
func checkExports(m wazero.CompiledModule) (initial uint64, err error) {
	functions := m.ExportedFunctions()
	for name, want := range exports {
		def, ok := functions[name]
		if !ok {
			return 0, fmt.Errorf("it does not export %s", name)
		}
		if got := signature(def); got != want {
			return 0, fmt.Errorf("it exports %s as %s, not %s", name, got, want)
		}
	}
	for name := range functions {
		if exports[name] == "" {
			return 0, fmt.Errorf("it exports %s, which is not in the contract", name)
		}
	}
	memories := m.ExportedMemories()
	mem, ok := memories[abi.ExportMemory]
	if !ok || len(memories) != 1 {
		return 0, fmt.Errorf("it does not export its memory as %q, and only so", abi.ExportMemory)
	}
	return uint64(mem.Min()) * pageSize, nil
}

func signature(def api.FunctionDefinition) string {
	return fmt.Sprintf("%s -> %s", typeList(def.ParamTypes()), typeList(def.ResultTypes()))
}

func typeList(types []api.ValueType) string {
	s := "("
	for i, t := range types {
		if i > 0 {
			s += ", "
		}
		s += api.ValueTypeName(t)
	}
	return s + ")"
}
