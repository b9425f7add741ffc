package sandbox

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// packed is the guest of the product, compressed. guest.sum lists the inputs of the build;
// scripts/build-guest writes both.
//
//go:embed guest.wasm.gz
var packed string

//go:embed guest.sum
var embeddedSum string

// GuestDigest returns the SHA-256 of the embedded guest, in lower-case hex.
func GuestDigest() string { return guestDigest() }

var guestDigest = sync.OnceValue(func() string {
	digest := embeddedDigest()
	return hex.EncodeToString(digest[:])
})

// embeddedDigest returns the digest of the guest in guest.sum; zeros for a missing digest.
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

// unpack returns the embedded guest, and checks the guest against guest.sum, which takes a fifth of
// a second. A start that finds native code under the digest in guest.sum does not unpack the guest.
func unpack() ([]byte, error) {
	r, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("guest.wasm.gz: %w", err)
	}
	size := binary.LittleEndian.Uint32([]byte(packed[len(packed)-4:])) // RFC 1952, 2.3.1: ISIZE
	guest := bytes.NewBuffer(make([]byte, 0, min(size, maxSkeleton)+bytes.MinRead))
	if _, err := guest.ReadFrom(r); err != nil {
		return nil, fmt.Errorf("guest.wasm.gz: %w", err)
	}
	if sha256.Sum256(guest.Bytes()) != embeddedDigest() {
		return nil, errors.New("the embedded guest does not match guest.sum (run scripts/build-guest)")
	}
	return guest.Bytes(), nil
}
