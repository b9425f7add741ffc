package tools

import (
	linked "container/list"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
)

// Schemas keeps compiled schemas by their texts, so each is compiled at its first use. When memory
// runs out, the least recently used schemas are dropped, and compiled again at their next use.
// Schemas is safe for concurrent use.
type Schemas struct {
	most int64 // bytes

	mu     sync.Mutex // a leaf
	used   int64
	byText map[[sha256.Size]byte]*linked.Element
	order  linked.List // of *keptSchema, most recently used first
}

// DefaultSchemas is how many bytes of compiled schemas are kept if nothing else is said.
const DefaultSchemas = 16 << 20

// NewSchemas returns Schemas of about most bytes at most.
func NewSchemas(most int64) *Schemas {
	return &Schemas{most: most, byText: map[[sha256.Size]byte]*linked.Element{}}
}

// Turn is called before work on the host with its size, in units of a [Spend]. It may wait until
// the caller may compute, and returns a function that ends the turn.
type Turn func(units uint64) (end func())

// compileWork is the work of compiling a byte of a schema.
const compileWork = 1000

// keptSchema is compiled once.
type keptSchema struct {
	key    [sha256.Size]byte
	once   sync.Once
	done   atomic.Bool
	schema *Schema
	err    error
	size   int64 // guarded by Schemas.mu
}

// Input is CompileInputSchema. A turn other than nil is called before any compilation.
func (s *Schemas) Input(raw []byte, what string, turn Turn) (*Schema, error) {
	return s.get("input", raw, what, turn, CompileInputSchema)
}

// Any is CompileSchema in the same way.
func (s *Schemas) Any(raw []byte, what string, turn Turn) (*Schema, error) {
	return s.get("any", raw, what, turn, CompileSchema)
}

func (s *Schemas) get(kind string, raw []byte, what string, turn Turn, compile func([]byte, string) (*Schema, error)) (*Schema, error) {
	k := s.kept(sha256.Sum256(fmt.Appendf(nil, "%s %s %s", kind, what, raw)))
	if turn != nil && !k.done.Load() { // other callers wait for their own turn, as long as their runs last
		defer turn(uint64(len(raw)) * compileWork)()
	}
	k.once.Do(func() {
		defer k.done.Store(true)
		k.schema, k.err = compile(raw, what)
		size := int64(keptOverhead)
		if k.schema != nil {
			size += k.schema.size
		} else if k.err != nil {
			size += int64(len(k.err.Error()))
		}
		s.grown(k, size)
	})
	return k.schema, k.err
}

// keptOverhead is the memory of an entry in Schemas besides the schema, in bytes.
const keptOverhead = 512

// kept returns the entry of a key, which may not be compiled yet.
func (s *Schemas) kept(key [sha256.Size]byte) *keptSchema {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byText[key]; e != nil {
		s.order.MoveToFront(e)
		return e.Value.(*keptSchema)
	}
	k := &keptSchema{key: key}
	s.byText[key] = s.order.PushFront(k)
	return k
}

// grown records the memory of a schema, and drops other schemas.
func (s *Schemas) grown(k *keptSchema, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byText[k.key]; e == nil || e.Value != k {
		return // the entry was dropped during its compilation
	}
	k.size = size
	s.used += size
	for e := s.order.Back(); e != nil && s.used > s.most; {
		old, before := e.Value.(*keptSchema), e.Prev()
		if old.size > 0 { // otherwise the entry is being compiled
			s.used -= old.size
			delete(s.byText, old.key)
			s.order.Remove(e)
		}
		e = before
	}
}

// maxLocations is the largest total, in bytes, of the paths from the root to all places in a
// schema. The compiler keeps a path for each.
const maxLocations = 4 << 20

// The sizes of compiled schemas, in bytes, as measured.
const (
	schemaSize      = 1300 // a schema in the schema
	valueSize       = 128  // a JSON value of another kind
	instructionSize = 70   // an instruction of a regular expression
)

// measure returns about how many bytes a document takes when compiled, and the share of these bytes
// for paths of schemas.
func measure(doc any) (size, locations int64) {
	var walk func(v any, at int64)
	walk = func(v any, at int64) {
		size += valueSize
		switch c := v.(type) {
		case map[string]any:
			size, locations = size+schemaSize, locations+at
			for name, sub := range c {
				size += int64(2 * len(name))
				walk(sub, at+escapedLength(name))
			}
		case []any:
			for _, sub := range c {
				walk(sub, at+6)
			}
		case bool: // which may be a schema
			size, locations = size+schemaSize/4, locations+at
		case string:
			size += int64(2 * len(c))
		}
	}
	walk(doc, int64(len(baseURL)+1))
	return size + 2*locations, locations
}

// escapedLength returns about how many bytes a name has in the path of a JSON pointer, as a
// fragment of a URL.
func escapedLength(name string) int64 {
	n := 1
	for i := range len(name) {
		switch b := name[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '_', b == '-', b == '.':
			n++
		default:
			n += 4
		}
	}
	return int64(n)
}
