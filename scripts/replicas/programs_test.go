//go:build unix

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/scripts/overlay"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestClockEditsFit checks that this release of Go has the places to edit.
func TestClockEditsFit(t *testing.T) {
	testenv.Program(t, "go")
	if _, err := overlay.Write(t.TempDir(), "clock", clockEdits, nil); err != nil {
		t.Error(err)
	}
}

// TestOtherGuest checks that the other guest has one section more, and the digest that its sum
// file says.
func TestOtherGuest(t *testing.T) {
	empty := []byte("\x00asm\x01\x00\x00\x00")
	sum := []byte("# head\nwasm sha256:" + hex.EncodeToString(make([]byte, 32)) + "\nsize 8\n")
	wasm, changed, err := otherGuest(empty, sum)
	if err != nil {
		t.Fatal(err)
	}
	section, ok := bytes.CutPrefix(wasm, empty)
	if !ok || len(section) < 3 || section[0] != 0 || int(section[1]) != len(section)-2 || string(section[3:3+section[2]]) != "fleet" {
		t.Errorf("%q", wasm)
	}
	digest := sha256.Sum256(wasm)
	if want := "# head\nwasm sha256:" + hex.EncodeToString(digest[:]) + "\nsize 8\n"; string(changed) != want {
		t.Errorf("%s", changed)
	}
	if _, _, err := otherGuest(empty, []byte("size 8\n")); err == nil {
		t.Error("a sum file without a digest is taken")
	}
}
