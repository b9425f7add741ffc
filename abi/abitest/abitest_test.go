package abitest

import (
	"bytes"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestCases(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.Name] {
			t.Errorf("two cases %q", c.Name)
		}
		seen[c.Name] = true
		if (c.End == EndLimit) != (c.Limit != "") || c.End == "" {
			t.Errorf("%s: end %q, limit %q", c.Name, c.End, c.Limit)
		}
	}
}

func TestEncoding(t *testing.T) {
	// The examples of the LEB128 section of the specification, and the edges.
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{unsigned(0), "\x00"}, {unsigned(127), "\x7f"}, {unsigned(128), "\x80\x01"}, {unsigned(624485), "\xe5\x8e\x26"},
		{signed(63), "\x3f"}, {signed(64), "\xc0\x00"}, {signed(-1), "\x7f"}, {signed(-64), "\x40"}, {signed(-65), "\xbf\x7f"}, {signed(-123456), "\xc0\xbb\x78"},
		{I32Const(1<<32 - 1), "\x41\x7f"}, {I64Const(1<<64 - 1), "\x42\x7f"},
		{Module{}.Encode(), "\x00asm\x01\x00\x00\x00"},
	} {
		if !bytes.Equal(c.got, []byte(c.want)) {
			t.Errorf("got %x, want %x", c.got, c.want)
		}
	}
}
