package interp

import (
	"math"
	"strings"
	"unsafe"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/tape"
	"github.com/mcp-metatool/mcp-metatool/guest/extend"
	"go.starlark.net/starlark"
)

// The values of answers. Most scripts use a small part of the answers, so the dicts of a tape make
// their values on demand. Scripts cannot see the difference.

// answerValue returns the value of a successful call.
func (r *run) answerValue(a abi.Answer) (starlark.Value, error) {
	if a.Tape == nil {
		return r.decode(a.Value)
	}
	t := &tapeReader{words: a.Tape, text: tapeText(a.Tape)}
	// Later values keep the whole tape in memory, so the size is limited.
	limit := r.memory
	if limit == 0 {
		limit = mostMemory
	}
	if size := uint64(len(a.Tape)) * wordBytes; extend.LazyDict != nil && r.lazyBytes+size <= limit/lazyPart {
		r.lazyBytes += size
		t.lazy = true
	}
	return t.value(tape.Root), nil
}

const (
	// lazyPart is the part of a run's memory for tapes of lazy dicts.
	lazyPart  = 16
	wordBytes = 4
)

// tapeText returns the bytes of a tape after the words.
func tapeText(words []uint32) string {
	n := int(words[0])
	rest := words[n:]
	return unsafe.String((*byte)(unsafe.Pointer(unsafe.SliceData(rest))), len(rest)*wordBytes)
}

// tapeReader makes the values of a tape. Package tape explains the words.
type tapeReader struct {
	words []uint32
	text  string
	lazy  bool
	// keys has the keys of shapes.
	keys map[uint32]*[]starlark.Value
}

var _ extend.LazySource = (*tapeReader)(nil)

// value returns the value in the slot at an index.
func (t *tapeReader) value(slot uint32) starlark.Value {
	a, b := t.words[slot], t.words[slot+1]
	rest := a >> tape.TagBits
	switch tape.Tag(a & (1<<tape.TagBits - 1)) {
	case tape.String:
		return starlark.String(t.string(rest, b))
	case tape.Int:
		return starlark.MakeInt64(int64(int32(b)))
	case tape.Dict:
		return t.dict(rest, b)
	case tape.List:
		elems := make([]starlark.Value, rest)
		for i := range elems {
			elems[i] = t.value(b + uint32(i)*tape.SlotWords)
		}
		return starlark.NewList(elems)
	case tape.BigInt:
		return integer(t.text[b : b+rest])
	case tape.Float:
		return starlark.Float(math.Float64frombits(uint64(t.words[b]) | uint64(t.words[b+1])<<32))
	case tape.True:
		return starlark.True
	case tape.False:
		return starlark.False
	}
	return starlark.None
}

// string returns a part of the text: a copy unless the tape is kept anyway, so a script with a
// single kept string does not keep the whole answer.
func (t *tapeReader) string(length, offset uint32) string {
	s := t.text[offset : offset+length]
	if t.lazy {
		return s
	}
	return strings.Clone(s)
}

func (t *tapeReader) dict(shape, slots uint32) starlark.Value {
	n := t.words[shape]
	if n == 0 {
		return newObject(0)
	}
	if t.lazy {
		return Object{extend.LazyDict(int(n), t, shape, slots).(*starlark.Dict)}
	}
	o := newObject(int(n))
	for i, k := range *t.shapeKeys(shape) {
		// SetKey cannot fail: keys are strings.
		_ = o.Dict.SetKey(k, t.value(slots+uint32(i)*tape.SlotWords))
	}
	return o
}

// shapeKeys returns the keys of a shape.
func (t *tapeReader) shapeKeys(shape uint32) *[]starlark.Value {
	if keys := t.keys[shape]; keys != nil {
		return keys
	}
	n := t.words[shape]
	keys := make([]starlark.Value, n)
	for i := range keys {
		keys[i] = starlark.String(t.key(shape, n, uint32(i)))
	}
	if t.keys == nil {
		t.keys = make(map[uint32]*[]starlark.Value)
	}
	t.keys[shape] = &keys
	return &keys
}

// key returns key i of a shape of n keys.
func (t *tapeReader) key(shape, n, i uint32) string {
	at := shape + 1 + n + i*tape.KeyWords
	return t.string(t.words[at], t.words[at+1])
}

// Find returns the index of a key in a shape, -1 if absent.
func (t *tapeReader) Find(shape uint32, key string) int {
	n := t.words[shape]
	signature := tape.Signature(key)
	for i, s := range t.words[shape+1 : shape+1+n] {
		if s == signature && t.key(shape, n, uint32(i)) == key {
			return i
		}
	}
	return -1
}

// Keys returns the keys of a shape, as a *[]starlark.Value.
func (t *tapeReader) Keys(shape uint32) any { return t.shapeKeys(shape) }

// Make makes value i of a dict with these slots. v is a *starlark.Value.
func (t *tapeReader) Make(slots uint32, i int, v any) {
	*v.(*starlark.Value) = t.value(slots + uint32(i)*tape.SlotWords)
}
