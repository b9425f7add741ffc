package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
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

// warmup is a script that the embedded guest runs before the snapshot is taken. The script does the
// work that otherwise each run would do first: making tables at first use, filling free lists,
// growing the stack.
type warmup struct {
	code, params string
	// want is the result as JSON or, for a failing script, the type of the error.
	want string
	// typical reports that the script writes to memory like most scripts.
	typical bool
}

// warmups do the work that most scripts do. They run in this order.
var warmups = []warmup{
	{code: warmupLibrary, params: "{}", want: `["xb",2,"2024-01-02",[[1,"a"]],"{\"a\": 1}"]`},
	{code: warmupData, params: warmupParams, want: `[3,"ABC",{"k":[1,2.5,null,true,"é"]},["b","a"],720]`},
	{code: "def f(n):\n    return f(n - 1) + 1 if n else 0\nreturn f(60)", params: "{}", want: "60"},
	{code: "r = []\nfor i in range(5):\n    r.append(s.echo({'n': i, 'items': ['a', {'b': 1.5}]}).n)\nreturn r", params: "{}", want: "[0,1,2,3,4]", typical: true},
	{code: "return s.fail({'x': 1})", params: "{}", want: string(abi.ErrTool)},
	{code: "x = {'a': 1}\nreturn x['b']", params: "{}", want: string(abi.ErrRuntime)},
	{code: "return nope", params: "{}", want: string(abi.ErrValidation)},
	{code: "print('hello', 1)\nreturn params", params: `{"a":[1,2,3]}`, want: `{"a":[1,2,3]}`, typical: true},
	{code: "return 1 + 1", params: "{}", want: "2", typical: true},
}

const warmupParams = `{"n":3,"s":"abc","o":{"k":[1,2.5,null,true,"é"]}}`

const warmupData = `
def fact(n):
    r = 1
    for i in range(1, n + 1):
        r *= i
    return r
d = {"a": 2, "b": 1}
names = sorted(d.keys(), key = lambda k: d[k])
text = json.encode(params.o)
if "x" in text or text.startswith("y"):
    fail("no")
s2 = "%s-%d" % ("a", 1)
parts = [p.strip().upper() for p in "a, b".split(",")]
return [params.n, params.s.upper(), json.decode(text), names, fact(6)]
`

// warmupLibrary imports the modules that scripts import most.
const warmupLibrary = `
import collections, datetime, functools, itertools, json, math, random, re, statistics, time
c = collections.Counter([1, 1])
d = datetime.date(2024, 1, 1) + datetime.timedelta(days=1)
return [re.sub(r"a+", "b", "xaa"), c[1], d.isoformat(), list(zip(itertools.islice(itertools.count(1), 1), ["a"])), json.dumps({"a": 1})]
`

func (w warmup) run() Run {
	return Run{
		Request: abi.Request{Op: abi.OpRun, Name: "tool", Code: w.code, Params: json.RawMessage(w.params), Servers: []string{"s"}},
		Limits:  Limits{Fuel: bootFuel},
		Caller:  warmupCaller{},
	}
}

func (w warmup) check(result []byte, err *abi.Error) error {
	got := string(result)
	if err != nil {
		got = string(err.Type)
	}
	if got != w.want {
		return fmt.Errorf("the script ended with %.200q (%+v), not with %q", got, err, w.want)
	}
	return nil
}

// warmupCaller is the Caller of the warmups. The tools answer with their arguments, and one fails.
type warmupCaller struct{}

func (warmupCaller) CallTools(_ context.Context, calls []abi.ToolCall) []abi.Answer {
	answers := make([]abi.Answer, len(calls))
	for n, c := range calls {
		answers[n] = abi.Answer{Value: c.Arguments}
		if c.Tool == "fail" {
			answers[n] = abi.Answer{Err: &abi.CallError{Type: abi.ErrTool, Server: c.Server, Tool: c.Tool, Message: "it failed", Details: json.RawMessage(`{"code":1}`)}}
		}
	}
	return answers
}

func (warmupCaller) Undo(context.Context, abi.ToolCall) *abi.CallError { return nil }
func (warmupCaller) Commit()                                           {}
func (warmupCaller) Log(abi.LogLevel, string) func()                   { return nil }
func (warmupCaller) Progress(abi.Progress)                             {}

// prepared is the state of the guest after compiling a script, as a difference to the snapshot.
// prepared is immutable. A run that starts from a prepared state continues exactly like a run that
// has compiled the script itself, and uses the same fuel: the fuel for compiling is charged in
// either case.
type prepared struct {
	changes changes // of the memory
	globals []uint64
	wasi    wasiState
	fuel    uint64 // used by compiling
}

// programKey determines the guest's state after compiling a script. Limits other than the limit of
// memory only decide whether the guest gets there.
type programKey struct {
	name, code          string
	servers, agentTools string // joined
	memory              uint64
}

func keyOf(req abi.Request) programKey {
	return programKey{
		name: req.Name, code: req.Code, servers: strings.Join(req.Servers, "\x00"),
		agentTools: strings.Join(req.AgentTools, "\x00"), memory: req.Memory,
	}
}

const (
	// maxPrepared is how many bytes all prepared states of a snapshot may take.
	maxPrepared = 16 << 20
	// maxChanges is the largest size of a prepared state in bytes. Compiling a tool of 300 lines
	// changes half a megabyte.
	maxChanges = 4 << 20
	// maxSeen is the number of remembered scripts that were run once and may never be run again.
	maxSeen = 256
)

// preparedStates has prepared states of a snapshot, within a limit of bytes. The least recently
// used states are dropped.
type preparedStates struct {
	seed maphash.Seed

	mu     sync.Mutex
	states map[programKey]*preparedEntry
	bytes  int
	tick   uint64 // counts uses
	// seen has the hashes of scripts that were run once, seen[next] the oldest.
	seen [maxSeen]uint64
	next int
}

type preparedEntry struct {
	state *prepared
	bytes int
	used  uint64 // the tick of the last use
}

func newPreparedStates() *preparedStates {
	return &preparedStates{seed: maphash.MakeSeed(), states: map[programKey]*preparedEntry{}}
}

// size returns how many bytes the states take.
func (s *preparedStates) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// get returns the state after compiling a script; nil for none. Then keep reports whether the state
// should be put here, because the script will probably run again.
func (s *preparedStates) get(key programKey, repeats bool) (state *prepared, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick++
	if e := s.states[key]; e != nil {
		e.used = s.tick
		return e.state, false
	}
	if repeats {
		return nil, true
	}
	hash := maphash.Comparable(s.seed, key)
	for _, h := range s.seen {
		if h == hash {
			return nil, true
		}
	}
	s.seen[s.next] = hash
	s.next = (s.next + 1) % maxSeen
	return nil, false
}

// put keeps the state after compiling a script.
func (s *preparedStates) put(key programKey, state *prepared) {
	size := state.changes.bytes() + len(key.name) + len(key.code) + len(key.servers) + len(key.agentTools)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states[key] != nil || size > maxPrepared {
		return
	}
	for s.bytes+size > maxPrepared {
		var oldest programKey
		for k, e := range s.states {
			if o := s.states[oldest]; o == nil || e.used < o.used {
				oldest = k
			}
		}
		s.bytes -= s.states[oldest].bytes
		delete(s.states, oldest)
	}
	s.tick++
	s.states[key] = &preparedEntry{state, size, s.tick}
	s.bytes += size
}

// capture returns the state of an instance whose guest has just compiled a script; nil if the state
// cannot be kept.
func (i *instance) capture() *prepared {
	m, ok := i.memory.(restorable)
	if i.vm == nil || !ok || !i.from.program.reusable || len(i.wasi.stderr) > 0 {
		return nil
	}
	p := &prepared{wasi: i.wasi, fuel: i.fuel.used()}
	if p.fuel >= i.limits.Fuel { // overdrawn: more was used than is known
		return nil
	}
	if p.changes, ok = m.Changes(maxChanges); !ok {
		return nil
	}
	for _, g := range i.vm.state {
		p.globals = append(p.globals, g.Get())
	}
	return p
}

// mentioned returns the names that occur in code as a word, in the order of names.
func mentioned(code string, names []string) []string {
	if len(names) == 0 {
		return nil
	}
	words := make(map[string]bool, len(names))
	for _, name := range names {
		words[name] = false
	}
	for from := 0; from < len(code); from++ {
		if !isWord(code[from]) {
			continue
		}
		to := from + 1
		for to < len(code) && isWord(code[to]) {
			to++
		}
		if _, ok := words[code[from:to]]; ok {
			words[code[from:to]] = true
		}
		from = to
	}
	var list []string
	for _, name := range names {
		if words[name] {
			list = append(list, name)
		}
	}
	return list
}

// isWord reports whether c can be part of the script name of a server.
func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
