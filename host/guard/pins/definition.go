package pins

import (
	"errors"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Bounds of pinned definitions: the depth of a definition, and the size of all definitions of a
// list, in bytes. The bounds keep a server from making the file unreadable.
const (
	maxDepth = 256
	maxList  = 8 << 20
)

// Definition is a definition of a server with its digest, which the first use computes. Concurrent
// use is safe.
type Definition struct {
	raw []byte

	once   sync.Once
	digest string
	form   []byte // canonical; nil if no canonical form exists
	err    error
}

// NewDefinition returns a definition as sent by the server. The result keeps raw.
func NewDefinition(raw []byte) *Definition { return &Definition{raw: raw} }

func (d *Definition) compute() {
	d.once.Do(func() {
		d.digest = Digest(d.raw)
		if d.form, d.err = Canonical(d.raw); d.err == nil && depth(d.form) > maxDepth {
			d.form, d.err = nil, errTooDeep
		}
		if d.err == nil {
			if d.err = jsonvalue.Valid(d.form); d.err != nil { // could not be compared
				d.form = nil
			}
		}
	})
}

var errTooDeep = errors.New("it is nested too deeply")

// Digest is [Digest] of the definition.
func (d *Definition) Digest() string {
	d.compute()
	return d.digest
}

// Ambiguous returns why readers may understand the definition differently, or why the definition
// cannot be recorded; nil if it can be pinned.
func (d *Definition) Ambiguous() error {
	d.compute()
	return d.err
}

// canonical returns the canonical form; nil if Ambiguous is an error.
func (d *Definition) canonical() []byte {
	d.compute()
	return d.form
}

// depth returns how deeply arrays and objects of a JSON value are nested.
func depth(raw []byte) int {
	deepest, now, text := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}
