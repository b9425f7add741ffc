package pins

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"
)

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
