package codepoints

import (
	"strings"
	"testing"
	"unicode/utf8"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// pieces returns the code points of s. Bytes that are not UTF-8 are pieces of their own.
func pieces(s string) []string {
	var all []string
	for len(s) > 0 {
		_, n := utf8.DecodeRuneInString(s)
		all, s = append(all, s[:n]), s[n:]
	}
	return all
}

func check(t *testing.T, x *Index, s string) {
	t.Helper()
	want := pieces(s)
	if got := x.Len(s); got != len(want) {
		t.Fatalf("Len(%q) is %d, want %d", s, got, len(want))
	}
	step := max(1, len(want)/37)
	for start := 0; start <= len(want); start += step {
		if got := x.Offset(s, start); got != len(strings.Join(want[:start], "")) {
			t.Fatalf("Offset(%q, %d) is %d", s, start, got)
		}
		for end := start; end <= len(want); end += step {
			if got := x.Slice(s, start, end); got != strings.Join(want[start:end], "") {
				t.Fatalf("Slice(%q, %d, %d) is %q", s, start, end, got)
			}
		}
	}
}

func TestIndex(t *testing.T) {
	var x Index
	for _, s := range []string{
		"", "a", "Zoë", "日本語", "a\xffb", "\xe2\x82", "e\u0301", "👩‍👩‍👧",
		strings.Repeat("a", shortText), strings.Repeat("a", shortText+1), strings.Repeat("é", shortText/2), strings.Repeat("é", shortText),
		strings.Repeat("a", 1000) + "é", "é" + strings.Repeat("a", 1000),
		strings.Repeat("aé日👩", 16), strings.Repeat("aé日👩", 300), strings.Repeat("\xff", 200), strings.Repeat("日", stride*4),
	} {
		check(t, &x, s)
	}
}

// TestManyTexts checks that the data about one text is not used for another.
func TestManyTexts(t *testing.T) {
	var x Index
	var texts []string
	for i := range 3 * maxTexts {
		texts = append(texts, strings.Repeat("é", 50+i)+strings.Repeat("a", 100-i))
	}
	for range 3 {
		for _, s := range texts {
			check(t, &x, s)
			check(t, &x, s[:80]) // begins at the same address
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add("Zoë", 3)
	f.Add("a\xff日", 40)
	f.Fuzz(func(t *testing.T, s string, times int) {
		if times < 0 || times > 100 || len(s)*times > 20_000 {
			t.Skip("too long")
		}
		var x Index
		check(t, &x, strings.Repeat(s, times))
	})
}

// BenchmarkAll measures reading every code point of a text by its index.
func BenchmarkAll(b *testing.B) {
	for name, s := range map[string]string{
		"ascii-10": strings.Repeat("a", 10), "ascii-10000": strings.Repeat("a", 10_000),
		"accents-10": strings.Repeat("é", 10), "accents-10000": strings.Repeat("é", 10_000),
	} {
		b.Run(name, func(b *testing.B) {
			var x Index
			for b.Loop() {
				for i := range x.Len(s) {
					if x.Slice(s, i, i+1) == "" {
						b.Fatal("empty")
					}
				}
			}
		})
	}
}
