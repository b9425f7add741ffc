// Package display prepares text from servers, scripts and files for terminals, logs and error
// messages, and formats sizes and times for people.
//
// Text, OneLine, Line, Excerpt, Escape, EscapeLine and Writer make text safe. Clip, ClipSize, Head
// and Summary only make text shorter. Table, Wrap and Pad lay out text in the columns of a
// terminal. All functions are safe for concurrent use.
package display

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text makes text safe for a terminal or a page: control and formatting characters, including
// overrides of the direction of text, and Unicode's separators of lines and paragraphs, become
// U+FFFD. Line breaks and tabs stay.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) {
			return r
		}
		return utf8.RuneError
	}, strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n"))
}

// OneLine makes text safe like [Text] and joins the lines, with single spaces as white space.
func OneLine(text string) string { return Text(strings.Join(strings.Fields(text), " ")) }

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
