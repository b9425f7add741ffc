// Package display prepares text that others wrote for terminals, logs and pages, and
// formats sizes and times for people.
//
//	display.go  Text, Line, Excerpt, Clip, Size
//	escape.go   Escape, which shows what it replaces
//	writer.go   Writer: Text for a stream
//	time.go     Time
package display

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text makes text safe for a terminal or a page: control and formatting characters,
// including those that change the direction of text, become U+FFFD. Line breaks and
// tabs stay.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.Is(unicode.C, r) {
			return r
		}
		return utf8.RuneError
	}, strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n"))
}

// Line is Text on one line of at most n characters. It looks at no more than 16
// bytes for each of them, so that long texts cost little.
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

// Excerpt is the beginning of text for a log or an error message: at most n bytes,
// and "..." if there is more, on one line and safe as by [Text].
func Excerpt(text string, n int) string {
	if len(text) > n {
		text = text[:boundary(text, n)] + "..."
	}
	return strings.ReplaceAll(Text(text), "\n", " ")
}

// Clip shortens text to at most n bytes, in whole characters, and adds "…" if it
// was longer. It does not make text safe.
func Clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return text[:boundary(text, n)] + "…"
}

// ClipSize is [Clip] that also says how long the text was.
func ClipSize(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return fmt.Sprintf("%s (%d bytes)", Clip(text, n), len(text))
}

// boundary is the largest index up to n at which a character of text begins.
func boundary(text string, n int) int {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// Size formats a number of bytes.
func Size(n uint64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
