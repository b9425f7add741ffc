package guestbuild

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Sum says what a guest is and what it was built from.
type Sum struct {
	Inputs Inputs
	Wasm   [sha256.Size]byte
	Size   int64 // bytes
}

const sumHead = `# What guest.wasm is and what it was built from: written by scripts/build-guest,
# checked by scripts/verify-guest and by the tests of host/sandbox.
`

// String is the text of the sum file, one "key value" a line. The line
// "source" is the hash over the lines below it.
func (s Sum) String() string {
	source := s.Inputs.Hash()
	return fmt.Sprintf("%swasm sha256:%s\nsize %d\nsource sha256:%s\n%s",
		sumHead, hex.EncodeToString(s.Wasm[:]), s.Size, hex.EncodeToString(source[:]), s.Inputs.lines())
}

// Compare tells whether the text of a committed sum file and the guest beside
// it are what in would build, as far as that can be told without building. The
// error wraps ErrDiffers and names what differs.
func Compare(text string, wasm []byte, in Inputs) error {
	want := Sum{Inputs: in, Wasm: sha256.Sum256(wasm), Size: int64(len(wasm))}.String()
	if text == want {
		return nil
	}
	gone, come := difference(text, want)
	return fmt.Errorf("%w\nrecorded but not found:\n%sfound but not recorded:\n%s", ErrDiffers, gone, come)
}

// difference lists the lines that only one of two texts has.
func difference(a, b string) (onlyA, onlyB string) {
	return without(a, b), without(b, a)
}

func without(text, other string) string {
	have := map[string]bool{}
	for line := range strings.Lines(other) {
		have[line] = true
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !have[line] {
			b.WriteString("  " + line)
		}
	}
	return b.String()
}
