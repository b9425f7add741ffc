//go:build !linux

package sandbox

import (
	"math/rand/v2"
	"testing"
)

func testRestore(t *testing.T, _ image, _ []byte, _ *rand.Rand) {
	t.Skip("images are copied on this system")
}

// withoutPagemap returns nothing: all snapshots are without it.
func withoutPagemap(*testing.T, *snapshot) *snapshot { return nil }
