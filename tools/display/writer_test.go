package display

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestWriterIgnoresSplits checks that the output does not depend on how the text is split into
// writes.
func TestWriterIgnoresSplits(t *testing.T) {
	const text = "é\x1b]8;;x\x07a\r\nb\rc\u202e\u009b31m\U000e0001語\xc3"
	want := Text(text)
	for i := range len(text) + 1 {
		for j := i; j <= len(text); j++ {
			if got := written(t, text[:i], text[i:j], text[j:]); got != want {
				t.Fatalf("cut at %d and %d: %q, want %q", i, j, got, want)
			}
		}
	}
}

func written(t *testing.T, parts ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, p := range parts {
		if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func FuzzWriter(f *testing.F) {
	f.Add([]byte("\xe2\x80"), []byte("\xae\r"), []byte("\n\x1b"))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		got := written(t, string(a), string(b), string(c))
		if i := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && r != '\t' && unicode.Is(unicode.C, r) }); i >= 0 || !utf8.ValidString(got) {
			t.Errorf("%q at %d", got, i)
		}
	})
}
