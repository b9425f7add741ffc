package abi

import (
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestWorkedNumbers checks Pack and Unpack with the numbers in the package's
// documentation.
func TestWorkedNumbers(t *testing.T) {
	for packed, want := range map[uint64]struct {
		code Code
		n    uint32
	}{
		0x0000_0000_0000_0005: {OK, 5},
		0x0000_0001_0000_012c: {ToolError, 300},
		0x0000_0002_0000_0000: {Invalid, 0},
		0x0000_0003_0000_0000: {Limit, 0},
		0x0000_0001_0000_0025: {ToolError, 37},
		0x0000_0000_ffff_ffff: {OK, 1<<32 - 1},
	} {
		if got := Pack(want.code, want.n); got != packed {
			t.Errorf("Pack(%d, %d) = %#x, want %#x", want.code, want.n, got, packed)
		}
		if code, n := Unpack(packed); code != want.code || n != want.n {
			t.Errorf("Unpack(%#x) = %d, %d", packed, code, n)
		}
	}
}
