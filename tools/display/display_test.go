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
		"line\u2028par\u2029":  "line\uFFFDpar\uFFFD",
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

func TestExcerptAndClip(t *testing.T) {
	for _, tt := range []struct {
		text                    string
		n                       int
		excerpt, clip, clipSize string
	}{
		{"", 0, "", "", ""},
		{"abc", 3, "abc", "abc", "abc"},
		{"abcd", 3, "abc...", "abc…", "abc… (4 bytes)"},
		{"aöb", 2, "a...", "a…", "a… (4 bytes)"},
		{"öö", 1, "...", "…", "… (4 bytes)"},
		{"a\x1b[2J\nb\u202e", 10, "a\uFFFD[2J b\uFFFD", "a\x1b[2J\nb\u202e", "a\x1b[2J\nb\u202e"},
		{"\xff\xfe", 1, "\uFFFD...", "\xff…", "\xff… (2 bytes)"},
		{"\x80\x80", 2, "\uFFFD", "\x80\x80", "\x80\x80"},
	} {
		if got := Excerpt(tt.text, tt.n); got != tt.excerpt {
			t.Errorf("Excerpt(%q, %d) = %q, want %q", tt.text, tt.n, got, tt.excerpt)
		}
		if got, want := Head(tt.text, tt.n), strings.TrimSuffix(tt.clip, "…"); got != want {
			t.Errorf("Head(%q, %d) = %q, want %q", tt.text, tt.n, got, want)
		}
		if got := Clip(tt.text, tt.n); got != tt.clip {
			t.Errorf("Clip(%q, %d) = %q, want %q", tt.text, tt.n, got, tt.clip)
		}
		if got := ClipSize(tt.text, tt.n); got != tt.clipSize {
			t.Errorf("ClipSize(%q, %d) = %q, want %q", tt.text, tt.n, got, tt.clipSize)
		}
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " a\n b\t\r\n c ": "a b c", "\x1b[2J\u202ex": "\uFFFD[2J\uFFFDx", "\xff": "\uFFFD",
	} {
		if got := OneLine(text); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{"a\tb\nc\r\nd": `a b\nc\nd`, "\x07": `\x07`} {
		if got := EscapeLine(text); got != want {
			t.Errorf("EscapeLine(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{" a\n b ", 3, "a b"}, {"one two three", 8, "one two..."}, {"one, two", 5, "one..."}, {"a bcdefgh", 5, "a bcd..."}, {"ääää", 3, "äää..."},
	} {
		if got := Summary(c.text, c.n); got != c.want {
			t.Errorf("Summary(%q, %d) = %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"a\tb\nc": "a\tb\nc", "a\r\nb\rc": "a\nb\\rc", "\x1b[0m\x07": `\x1b[0m\x07`, "\xc3(": `\xc3(`,
		"é 👩\u200d👩\u00a0": "é 👩\u200d👩\u00a0", "\u0085\u202e\U000e0041": `\u0085\u202e\U000e0041`, "\ufffd": "\ufffd",
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
