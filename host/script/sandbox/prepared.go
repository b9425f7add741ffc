package sandbox

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

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
