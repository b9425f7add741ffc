// Package display makes what others wrote fit to be shown to people.
package display

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is text safe for a terminal or a page: control and formatting characters
// other than line breaks and tabs, those that turn the direction of text
// included, become U+FFFD.
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

// Size is a number of bytes.
func Size(n uint64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
