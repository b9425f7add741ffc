package guestbuild

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/sandbox/rewrite"
)

// Sum says what a guest is and what it was built from.
type Sum struct {
	Inputs Inputs
	Wasm   [sha256.Size]byte
	Size   int64 // bytes
	// Interface is what it imports and exports, see rewrite.Interface.
	Interface []string
}

func sumOf(in Inputs, wasm []byte) (Sum, error) {
	lines, err := rewrite.Interface(wasm)
	return Sum{Inputs: in, Wasm: sha256.Sum256(wasm), Size: int64(len(wasm)), Interface: lines}, err
}

const sumHead = `# What guest.wasm is and what it was built from: written by scripts/build-guest,
# checked by scripts/verify-guest and by the tests of host/sandbox.
`

// String is the text of the sum file, one "key value" a line. The line
// "source" is the hash over the lines below it.
func (s Sum) String() string {
	source := s.Inputs.Hash()
	var faces strings.Builder
	for _, line := range s.Interface {
		faces.WriteString(line + "\n")
	}
	return fmt.Sprintf("%swasm sha256:%s\nsize %d\n%ssource sha256:%s\n%s",
		sumHead, hex.EncodeToString(s.Wasm[:]), s.Size, faces.String(), hex.EncodeToString(source[:]), s.Inputs.lines())
}

// Compare tells whether the text of a committed sum file and the guest beside
// it are what in would build, as far as that can be told without building. The
// error wraps ErrDiffers and names what differs.
func Compare(text string, wasm []byte, in Inputs) error {
	sum, err := sumOf(in, wasm)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDiffers, err)
	}
	want := sum.String()
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
