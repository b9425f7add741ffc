// Package display prepares text from servers, scripts and files for terminals, logs and
// error messages, and formats sizes and times for people.
//
//	display.go  Text, OneLine, Size
//	clip.go     Line, Excerpt, Clip, ClipSize, Head, Summary: bounded text
//	escape.go   Escape and EscapeLine, which show what they replace
//	writer.go   Writer: Text for a stream
//	time.go     Time
//	style.go    Style, UseColor: colours
//	wrap.go     Width, Pad, Cut, Wrap, Paragraphs: text in the columns of a terminal
//	table.go    Table
//
// Text, OneLine, Line, Excerpt, Escape, EscapeLine and Writer make text safe. The other
// functions of clip.go only make it shorter. All functions are safe for concurrent use.
package display

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text makes text safe for a terminal or a page: control and formatting characters,
// including those that change the direction of text, and Unicode's separators of lines and
// paragraphs, become U+FFFD. Line breaks and tabs stay.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) {
			return r
		}
		return utf8.RuneError
	}, strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n"))
}

// OneLine makes text safe like [Text] and puts it on one line, with single spaces as white
// space.
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
