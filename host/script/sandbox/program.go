package sandbox

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/rewrite"
)

// compileWorkers is the number of functions compiled at a time. More than one also lets a cancelled
// compile stop.
const compileWorkers = 2

// program is a compiled guest, linked with the host. A program can be instantiated any number of
// times, concurrently.
type program struct {
	runtime wazero.Runtime
	engine  wazero.CompilationCache // engine of runtime; nil if private
	module  wazero.CompiledModule
	guest   []byte        // or the guest's skeleton; nil after the start
	cache   *compileCache // source of the native code; nil if the code was compiled
	// initial is the size of the memory of a new instance, in bytes.
	initial uint64
	state   []string // the names of the globals that are state
	// reusable says that an instance with restored memory and state is as good as a new one.
	reusable bool
}

// compile compiles a guest, with a cache if possible. guest returns the guest with digest, and is
// called only if the cache has no native code.
func compile(ctx context.Context, guest func() ([]byte, error), digest [sha256.Size]byte, opts Options, log *slog.Logger) (*program, error) {
	if opts.CacheDir == "" {
		return compileAnew(ctx, guest)
	}
	cache, damaged, err := openCache(opts.CacheDir, digest)
	if damaged > 0 {
		log.Warn("sandbox: the compilation cache was damaged: compiling again", "files", damaged)
	}
	if err != nil {
		log.Warn("sandbox: going without a compilation cache", "error", err)
		return compileAnew(ctx, guest)
	}
	p, err := cache.load(ctx)
	if errors.Is(err, errNotCached) {
		if err = cache.fillElsewhere(ctx, opts); err != nil && ctx.Err() == nil {
			if !errors.Is(err, errors.ErrUnsupported) {
				log.Info("sandbox: more memory is used", "error", err)
			}
			var wasm []byte
			if wasm, err = guest(); err != nil {
				return nil, err
			}
			err = cache.fill(ctx, wasm)
			debug.FreeOSMemory()
		}
		if err == nil {
			p, err = cache.load(ctx)
		}
	}
	switch {
	case err == nil:
		return p, nil
	case ctx.Err() != nil:
		return nil, err
	}
	// An unusable cache fails here, and so does a guest that does not compile. Compiling without
	// the cache tells them apart.
	log.Warn("sandbox: compiling again without the cache", "error", errors.Join(err, cache.discard()))
	return compileAnew(ctx, guest)
}

// compileAnew compiles a guest without a cache.
func compileAnew(ctx context.Context, guest func() ([]byte, error)) (*program, error) {
	wasm, err := guest()
	if err != nil {
		return nil, err
	}
	return compileWith(ctx, wasm, nil)
}

func compileWith(ctx context.Context, guest []byte, cache wazero.CompilationCache) (*program, error) {
	// WithCloseOnContextDone would check at every loop and call. Instead, the host checks the
	// context whenever a slice of fuel is used up.
	config := wazero.NewRuntimeConfigCompiler().WithDebugInfoEnabled(false)
	if cache != nil {
		config = config.WithCompilationCache(cache)
	}
	p := &program{runtime: wazero.NewRuntimeWithConfig(ctx, config), engine: cache}
	if err := p.link(ctx, guest); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *program) link(ctx context.Context, guest []byte) error {
	provided, err := p.provide(ctx)
	if err != nil {
		return err
	}
	p.module, err = p.runtime.CompileModule(experimental.WithCompilationWorkers(ctx, compileWorkers), guest)
	if err != nil {
		return err
	}
	if err := checkImports(p.module, provided); err != nil {
		return err
	}
	if p.initial, err = checkExports(p.module); err != nil {
		return err
	}
	p.guest = guest
	if p.state, err = stateOf(guest); err != nil {
		return err
	}
	p.reusable, err = rewrite.Restorable(guest)
	return err
}

// provide defines all functions that a guest can import.
func (p *program) provide(ctx context.Context) (map[string]api.FunctionDefinition, error) {
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
			return nil, err
		}
		for name, def := range m.ExportedFunctionDefinitions() {
			provided[host.name+"."+name] = def
		}
	}
	return provided, nil
}

// fill puts the guest's data into a new instance's memory.
func (p *program) fill(m api.Module) error {
	segments, err := rewrite.Segments(p.guest)
	if err != nil {
		return err
	}
	for _, s := range segments {
		if !m.Memory().Write(s.Offset, s.Bytes) {
			return fmt.Errorf("data of %d bytes at %#x is outside of the guest's memory", len(s.Bytes), s.Offset)
		}
	}
	return nil
}

// instantiate makes an anonymous instance with mem. No code of the guest has run in the instance,
// except a start function if the module has one.
func (p *program) instantiate(ctx context.Context, mem memory) (api.Module, error) {
	ctx = experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(
		func(_, _ uint64) experimental.LinearMemory { return mem }))
	return p.runtime.InstantiateModule(ctx, p.module, moduleConfig)
}

// moduleConfig has a source of random numbers that is never read, because the host has its own
// WASI. Without a source, wazero makes and seeds a new one for each instance.
var moduleConfig = wazero.NewModuleConfig().WithName("").WithStartFunctions().WithRandSource(eof{})

// eof is a reader without content.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// close frees the runtime. close takes no context, because the runtime must also be freed after the
// context has ended.
func (p *program) close() error {
	err := p.runtime.Close(context.Background())
	if p.engine != nil {
		err = errors.Join(err, p.engine.Close(context.Background()))
	}
	return err
}

// checkImports checks that a guest imports only functions of the host.
func checkImports(m wazero.CompiledModule, provided map[string]api.FunctionDefinition) error {
	if len(m.ImportedMemories()) > 0 {
		return errors.New("the guest imports a memory (a guest owns its memory)")
	}
	for _, def := range m.ImportedFunctions() {
		module, name, _ := def.Import()
		have, ok := provided[module+"."+name]
		if !ok {
			return fmt.Errorf("the guest imports %s.%s, which the host does not have", module, name)
		}
		if got, want := signature(def), signature(have); got != want {
			return fmt.Errorf("the guest imports %s.%s as %s, the host has %s", module, name, got, want)
		}
	}
	return nil
}

// exports has exactly the functions that a guest must export.
var exports = map[string]string{
	abi.ExportInitialize: "() -> ()",
	abi.ExportVersion:    "() -> (i32)",
	abi.ExportRun:        "() -> ()",
}

// checkExports checks that a guest has exactly the exports of package abi, and returns the size of
// the initial memory in bytes.
func checkExports(m wazero.CompiledModule) (initial uint64, err error) {
	functions := m.ExportedFunctions()
	for name, want := range exports {
		def, ok := functions[name]
		if !ok {
			return 0, fmt.Errorf("the guest does not export %s", name)
		}
		if got := signature(def); got != want {
			return 0, fmt.Errorf("the guest exports %s as %s, not %s", name, got, want)
		}
	}
	for name := range functions {
		if exports[name] == "" {
			return 0, fmt.Errorf("the guest exports %s, which is not in the contract", name)
		}
	}
	memories := m.ExportedMemories()
	mem, ok := memories[abi.ExportMemory]
	if !ok || len(memories) != 1 {
		return 0, fmt.Errorf("the guest does not export its memory as %q only", abi.ExportMemory)
	}
	return uint64(mem.Min()) * pageSize, nil
}

// stateOf returns the globals of an instance's state, and checks that the guest has only the
// exports of package abi.
func stateOf(guest []byte) (state []string, err error) {
	lines, err := rewrite.Interface(guest)
	if err != nil {
		return nil, err
	}
	fuel := false
	for _, line := range lines {
		next := fmt.Sprint(abi.ExportStatePrefix, len(state))
		switch {
		case !strings.HasPrefix(line, "export ") || !strings.Contains(line, `" global `):
		case line == fmt.Sprintf("export %q global mut i64", abi.ExportFuel):
			fuel = true
		case strings.HasPrefix(line, fmt.Sprintf("export %q global mut ", next)):
			state = append(state, next)
		default:
			return nil, fmt.Errorf("%s of the guest is not in the contract", line)
		}
	}
	if !fuel {
		return nil, fmt.Errorf("the guest is not metered: its fuel counter %q is not exported", abi.ExportFuel)
	}
	return state, nil
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

// packed is the guest of the product, compressed. guest.sum lists the inputs of the build;
// scripts/build-guest writes both.
//
//go:embed guest.wasm.gz
var packed string

//go:embed guest.sum
var embeddedSum string

// GuestDigest returns the SHA-256 of the embedded guest, in lower-case hex.
func GuestDigest() string { return guestDigest() }

var guestDigest = sync.OnceValue(func() string {
	digest := embeddedDigest()
	return hex.EncodeToString(digest[:])
})

// embeddedDigest returns the digest of the guest in guest.sum; zeros for a missing digest.
func embeddedDigest() (digest [sha256.Size]byte) {
	for line := range strings.Lines(embeddedSum) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "wasm sha256:"); ok && len(text) == 2*len(digest) {
			if _, err := hex.Decode(digest[:], []byte(text)); err != nil {
				return [sha256.Size]byte{}
			}
		}
	}
	return digest
}

// unpack returns the embedded guest, and checks the guest against guest.sum, which takes a fifth of
// a second. A start that finds native code under the digest in guest.sum does not unpack the guest.
func unpack() ([]byte, error) {
	r, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("guest.wasm.gz: %w", err)
	}
	size := binary.LittleEndian.Uint32([]byte(packed[len(packed)-4:])) // RFC 1952, 2.3.1: ISIZE
	guest := bytes.NewBuffer(make([]byte, 0, min(size, maxSkeleton)+bytes.MinRead))
	if _, err := guest.ReadFrom(r); err != nil {
		return nil, fmt.Errorf("guest.wasm.gz: %w", err)
	}
	if sha256.Sum256(guest.Bytes()) != embeddedDigest() {
		return nil, errors.New("the embedded guest does not match guest.sum (run scripts/build-guest)")
	}
	return guest.Bytes(), nil
}
