package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

const (
	// bootTime and bootFuel limit the making of a snapshot. A slow guest runs out of fuel first.
	// bootTime is for code that uses no fuel, and far longer than needed on a busy machine: after
	// that time, the cache is thought to be broken, and all processes compile.
	bootTime = 5 * time.Minute
	bootFuel = 1 << 33
)

// snapshot is the whole state of an instance at a moment. Instances made from a snapshot continue
// from there. A program can have any number of snapshots. Their state is immutable.
type snapshot struct {
	program *program
	image   image    // the memory
	globals []uint64 // the values of program.state
	wasi    wasiState
	pool    *pool // instances for later runs
	// prepared has states after compiling scripts; nil if the guest cannot compile a script and
	// execute the program later. The embedded guest can.
	prepared *preparedStates
}

// load compiles a guest and makes the snapshot from which runs start. Without a usable cache, load
// only takes longer. The error for a refused guest does not wrap the cause, because the cause is
// neither a fault of a run's instance nor of a run's context.
func load(ctx context.Context, opts Options, log *slog.Logger) (*snapshot, error) {
	guest, digest, scripts := unpack, embeddedDigest(), warmups
	if opts.Guest != nil {
		guest, digest, scripts = func() ([]byte, error) { return opts.Guest, nil }, sha256.Sum256(opts.Guest), nil
	}
	p, err := compile(ctx, guest, digest, opts, log)
	if err == nil {
		var s *snapshot
		if s, err = p.boot(ctx, scripts, log); err == nil {
			return s, nil
		}
		err = errors.Join(err, p.close())
		if p.cache != nil && ctx.Err() == nil {
			log.Warn("sandbox: the code of the compilation cache does not work: compiling again", "error", errors.Join(err, p.cache.discard()))
			opts.CacheDir = ""
			return load(ctx, opts, log)
		}
	}
	if ctx.Err() != nil {
		return nil, ErrClosed
	}
	return nil, fmt.Errorf("%w: %v", ErrGuest, err)
}

// boot initialises an instance, serves the scripts in the instance, and takes the snapshot. The
// guest does the same in every process, so the snapshot is always the same.
func (p *program) boot(ctx context.Context, scripts []warmup, log *slog.Logger) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	i := newInstance(Run{Limits: Limits{Fuel: bootFuel}}, log)
	defer i.close()
	if err := i.initialize(ctx, p); err != nil {
		return nil, fmt.Errorf("the guest does not start: %w", i.classify(ctx, err))
	}
	version, err := i.call(ctx, abi.ExportVersion)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", abi.ExportVersion, i.classify(ctx, err))
	}
	if version != abi.Version {
		return nil, fmt.Errorf("the guest has version %d of the contract, the host has %d", version, abi.Version)
	}
	for n, w := range scripts {
		if err := i.warm(ctx, w); err != nil {
			return nil, fmt.Errorf("warming up, script %d: %w", n, err)
		}
	}
	s, err := p.capture(i)
	if err != nil {
		return nil, err
	}
	if len(scripts) > 0 {
		s.prepared = newPreparedStates()
	}
	for n, w := range scripts {
		if err := s.learn(ctx, w, log); err != nil {
			return nil, errors.Join(fmt.Errorf("after warming up, script %d: %w", n, err), s.close())
		}
	}
	return s, nil
}

// initialize starts the guest's runtime in new memory.
func (i *instance) initialize(ctx context.Context, p *program) error {
	if p.initial > i.limits.Memory {
		return i.memoryLimit()
	}
	i.memory = newMemory(i.limits.Memory)
	m, err := p.instantiate(context.WithValue(ctx, instanceKey{}, i), i.memory)
	if err != nil {
		return err
	}
	i.module = m
	if err := p.fill(m); err != nil {
		return err
	}
	i.fuel.start(fuelCounter(m), int64(i.limits.Fuel), nil)
	_, err = i.call(ctx, abi.ExportInitialize)
	return err
}

// warm serves a script in i, which can serve further requests afterwards.
func (i *instance) warm(ctx context.Context, w warmup) error {
	serving := newInstance(w.run(), i.log)
	serving.makeRoom(i.memory.Peak()) // as for runs, so that the scripts have the same limit
	if err := serving.splitRequest(true); err != nil {
		return err
	}
	serving.module, serving.memory, serving.wasi, serving.serving = i.module, i.memory, i.wasi, true
	serving.fuel.start(fuelCounter(i.module), bootFuel, nil)
	err := serving.serve(ctx)
	i.wasi = serving.wasi
	if err = serving.classify(ctx, err); err != nil {
		return err
	}
	return w.check(serving.result, serving.scriptErr)
}

// capture takes the state of i.
func (p *program) capture(i *instance) (*snapshot, error) {
	content, ok := i.module.Memory().Read(0, i.module.Memory().Size())
	if !ok {
		return nil, errors.New("its memory cannot be read")
	}
	s := &snapshot{program: p, wasi: i.wasi}
	s.wasi.stderr = nil
	for _, name := range p.state {
		s.globals = append(s.globals, i.module.ExportedGlobal(name).Get())
	}
	var err error
	if s.image, err = newImage(content); err != nil {
		i.log.Warn("sandbox: runs start slower", "error", err)
	}
	s.pool = newPool(s, i.log)
	return s, nil
}

// learn serves a script in an instance of the snapshot to find out which parts of the
// memory change.
func (s *snapshot) learn(ctx context.Context, w warmup, log *slog.Logger) error {
	i := newInstance(w.run(), log)
	defer i.close()
	i.makeRoom(s.image.Size())
	if err := i.splitRequest(s.prepared != nil); err != nil {
		return err
	}
	if err := i.start(ctx, s); err != nil {
		return err
	}
	if err := i.serve(ctx); err != nil {
		return i.classify(ctx, err)
	}
	if w.typical {
		s.image.Learn(i.memory)
	}
	return w.check(i.result, i.scriptErr)
}

// free frees the snapshot, but not the program.
func (s *snapshot) free() {
	s.pool.close()
	s.image.Close()
}

func (s *snapshot) close() error {
	s.free()
	return s.program.close()
}
