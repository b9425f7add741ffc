package sandbox

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"strings"
	"sync"
)

// embedded is the guest of the product. guest.sum lists the inputs of its build;
// scripts/build-guest writes both.
//
//go:embed guest.wasm
var embedded []byte

//go:embed guest.sum
var embeddedSum string

// GuestDigest returns the SHA-256 of the embedded guest, in lower-case hex.
func GuestDigest() string { return guestDigest() }

var guestDigest = sync.OnceValue(func() string {
	digest := embeddedDigest()
	return hex.EncodeToString(digest[:])
})

// embeddedDigest returns the digest of the guest in guest.sum; zeros if it has none.
func embeddedDigest() (digest [sha256.Size]byte) {
	for line := range strings.Lines(embeddedSum) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "wasm sha256:"); ok && len(text) == 2*len(digest) {
			if _, err := hex.Decode(digest[:], []byte(text)); err != nil {
				return [sha256.Size]byte{}
			}
		}
	}
	return digest
}
