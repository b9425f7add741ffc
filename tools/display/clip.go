package display

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Line returns text as by [Text] on one line of at most n characters, with "…" as the last one if
// text is longer. Line reads at most 16 bytes per character, so long texts are cheap.
func Line(text string, n int) string {
	cut := len(text) > 16*n
	if cut {
		text = text[:16*n]
	}
	text = strings.Join(strings.Fields(Text(text)), " ")
	if count := utf8.RuneCountInString(text); count > n || cut && count == n {
		return string([]rune(text)[:n-1]) + "…"
	}
	if cut {
		return text + "…"
	}
	return text
}

// Excerpt returns at most the first n bytes of text on one line, safe as by [Text], with "..."
// after them if text is longer. Excerpt is for logs and error messages.
func Excerpt(text string, n int) string {
	if len(text) > n {
		text = Head(text, n) + "..."
	}
	return strings.ReplaceAll(Text(text), "\n", " ")
}

// Clip shortens text to at most n bytes, in whole characters, and appends "…" to a longer text.
// Clip does not make text safe.
func Clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return Head(text, n) + "…"
}

// ClipSize is like [Clip], but also appends the size of a longer text.
func ClipSize(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return fmt.Sprintf("%s (%d bytes)", Clip(text, n), len(text))
}

// Head returns at most the first n bytes of text, in whole characters. Head does not make text
// safe.
func Head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// Summary returns the beginning of text, with single spaces as white space. A text of more than n
// characters is cut at the end of a word and "..." is appended. Summary does not make text safe.
func Summary(text string, n int) string {
	text = text[:min(len(text), 16*n)] // a long text need not be read to the end
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	cut := string([]rune(text)[:n])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,;:.") + "..."
}
