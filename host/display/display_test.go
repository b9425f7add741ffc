package display

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"plain ü 語\ttab\nline": "plain ü 語\ttab\nline",
		"\x1b[2J":              "\uFFFD[2J",
		"a\r\nb\rc":            "a\nb\uFFFDc",
		"\u202Ertl\u200b":      "\uFFFDrtl\uFFFD",
		"bad\xff":              "bad\uFFFD",
	} {
		if got := Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{" a\n b\t c ", 10, "a b c"}, {"ääää", 4, "ääää"}, {"äääää", 4, "äää…"}, {"", 1, ""},
		{strings.Repeat("x", 1e6), 4, "xxx…"}, {"a" + strings.Repeat(" ", 1e6) + "b", 4, "a…"}, {strings.Repeat("x ", 40), 4, "x x…"},
	} {
		if got := Line(c.text, c.n); got != c.want {
			t.Errorf("Line(%q, %d) = %q, want %q", c.text, c.n, got, c.want)
		}
	}
}
