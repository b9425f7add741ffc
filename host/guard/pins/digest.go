package pins

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"
)

// Digest returns the SHA-256, in lower-case hex, of the canonical form of a definition: of a
// tool, prompt, resource or resource template, as its server sent it, under the server's own
// name. Wherever a definition is named by a digest, it is this one.
//
// Two definitions have the same digest only if every reader of JSON understands them alike.
// Order of members, white space between values, and escapes in strings make no difference;
// everything else does. See [Canonical] for what can be canonical. Anything else, such as
// an object that has a member twice, has the digest of its very bytes, which no canonical
// form has.
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

// Canonical returns the canonical form of a JSON value: that of RFC 8785, except that numbers
// keep their text. Readers differ in what they make of numbers: some tell 1.0 from 1, and
// some keep digits that others round away. The result does not alias raw.
//
// The error says what readers may understand differently: a member that an object has
// twice, a string that is not Unicode, or text that is not one JSON value.
func Canonical(raw []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(raw))
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return nil, err
	}
	return v, nil
}
