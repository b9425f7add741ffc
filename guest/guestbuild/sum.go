package guestbuild

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/rewrite"
)

// Sum describes a guest and the inputs of the build.
type Sum struct {
	Inputs Inputs
	Wasm   [sha256.Size]byte
	Size   int64 // bytes
	// Interface has the guest's imports and exports; see rewrite.Interface.
	Interface []string
}

func sumOf(in Inputs, wasm []byte) (Sum, error) {
	lines, err := rewrite.Interface(wasm)
	return Sum{Inputs: in, Wasm: sha256.Sum256(wasm), Size: int64(len(wasm)), Interface: lines}, err
}

const sumHead = `# guest.wasm and the inputs of its build. Written by scripts/build-guest, checked by
# scripts/verify-guest and by the tests of host/script/sandbox.
`

// String returns the text of the sum file, with a key and a value in each line. The
// line "source" has the hash of the lines below it.
func (s Sum) String() string {
	source := s.Inputs.Hash()
	var lines strings.Builder
	for _, line := range s.Interface {
		lines.WriteString(line + "\n")
	}
	return fmt.Sprintf("%swasm sha256:%s\nsize %d\n%ssource sha256:%s\n%s",
		sumHead, hex.EncodeToString(s.Wasm[:]), s.Size, lines.String(), hex.EncodeToString(source[:]), s.Inputs.lines())
}

// Compare checks that the text of a committed sum file matches the guest and the inputs in, without
// a build. The error wraps ErrDiffers and lists the differences.
func Compare(text string, wasm []byte, in Inputs) error {
	sum, err := sumOf(in, wasm)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDiffers, err)
	}
	want := sum.String()
	if text == want {
		return nil
	}
	recorded, found := difference(text, want)
	return fmt.Errorf("%w\nrecorded but not found:\n%sfound but not recorded:\n%s", ErrDiffers, recorded, found)
}

// difference returns the lines found in only one of two texts.
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
