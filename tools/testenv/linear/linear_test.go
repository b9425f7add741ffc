package linear

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// recorder is a testing.TB that notes errors.
type recorder struct {
	testing.TB
	errors int
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.errors++ }

var kept []byte

// TestCheck checks that work in proportion passes, and that the square of it does not.
func TestCheck(t *testing.T) {
	input := func(size int) []byte { return bytes.Repeat([]byte("a"), size) }
	calls := 0
	for _, tt := range []struct {
		name string
		do   func(input []byte)
		want bool
	}{
		{"nothing", func([]byte) {}, true},
		{"one copy", func(b []byte) { kept = bytes.Clone(b) }, true},
		{"growing", func(b []byte) {
			kept = nil
			for i := range b {
				kept = append(kept, b[i]^1)
			}
		}, true},
		{"a pool that loses its buffer once", func([]byte) {
			if calls++; calls == 4 {
				kept = make([]byte, 8<<20)
			}
		}, true},
		{"a copy for every 16 bytes", func(b []byte) {
			for i := 0; i < len(b); i += 16 {
				kept = bytes.Clone(b)
			}
		}, false},
		{"what is left, for every 16 bytes", func(b []byte) {
			for i := 0; i < len(b); i += 16 {
				kept = bytes.Clone(b[i:])
			}
		}, false},
	} {
		var r recorder
		Check(&r, input, tt.do)
		if (r.errors == 0) != tt.want {
			t.Errorf("%s: %d errors", tt.name, r.errors)
		}
	}
}

// TestShapes checks that shapes are about as large as they are to be.
func TestShapes(t *testing.T) {
	var names []string
	for _, s := range Shapes {
		names = append(names, s.Name)
		for _, size := range []int{100, Size, 4 * Size} {
			if n := len(s.Make(size, "name")); n < size*3/4 || n > size+1024 {
				t.Errorf("%s: %d bytes for %d", s.Name, n, size)
			}
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(Shapes) {
		t.Error("two shapes have the same name")
	}
	for _, s := range Shapes {
		if s.Name == "repeated, escaped" && !strings.HasPrefix(string(s.Make(20, "ab")), `{"\u0061\u0062":1,"\u0061`) {
			t.Errorf("%s", s.Make(20, "ab"))
		}
	}
}

func TestExported(t *testing.T) {
	var r recorder
	CheckTable(&r, ".", []string{"Check"}, nil)
	if r.errors != 1 { // Check takes no bytes itself
		t.Errorf("%d errors", r.errors)
	}
	if got := exported(t, "../../../host/mcp/requeststate"); len(got) == 0 {
		t.Error("nothing is found in a package that takes bytes")
	}
}
