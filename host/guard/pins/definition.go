package pins

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mtibben/confusables"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

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

// Digest returns the SHA-256, in lower-case hex, of the canonical form of a definition: of a tool,
// prompt, resource or resource template, as its server sent it, under the server's own name. Every
// digest of a definition, anywhere in the product, is this Digest.
//
// Two definitions have the same digest only if every reader of JSON understands them alike. Order
// of members, white space between values, and escapes in strings make no difference; every other
// change does. [Canonical] says which values have a canonical form. Any other text, for example an
// object with a repeated member, has the digest of its very bytes, which no canonical form has.
func Digest(definition []byte) string {
	canonical, err := Canonical(definition)
	h := sha256.New()
	if err != nil {
		h.Write([]byte{0}) // which no JSON begins with
		canonical = definition
	}
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil))
}

// Canonical returns the canonical form of a JSON value by RFC 8785, except for the text of numbers,
// which stays. Readers differ in the meaning of numbers: some tell 1.0 from 1, and some keep digits
// that other readers round away. The result does not alias raw.
//
// The error names the part that readers may understand differently: a repeated member of an object,
// a string that is not Unicode, or text other than a single JSON value.
func Canonical(raw []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(raw))
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return nil, err
	}
	return v, nil
}

// looks returns the looks of a name: two names with a common look can be taken for each other,
// because they differ only in case, in similar characters (the skeletons of Unicode Technical
// Standard 39), in invisible characters, or in the separator of words: "-", "." or "_". The result
// has at least one string, sorted and without duplicates.
func looks(name string) []string {
	shown := strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			return -1
		case unicode.Is(unicode.Pd, r), unicode.Is(unicode.Pc, r), unicode.IsSpace(r), r == '.':
			return '_'
		}
		return r
	}, norm.NFKC.String(name))
	fold := cases.Fold().String
	all := []string{confusables.Skeleton(fold(shown)), fold(confusables.Skeleton(shown))}
	slices.Sort(all)
	return slices.Compact(all)
}
