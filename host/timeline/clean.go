package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes text that others wrote safe to show: control and formatting
// characters, those that turn the direction of text included, become U+FFFD.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.Is(unicode.C, r) {
			return r
		}
		return utf8.RuneError
	}, strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n"))
}

// line is clean text on one line of at most n characters.
func line(text string, n int) string {
	text = strings.Join(strings.Fields(clean(text)), " ")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// pretty is raw JSON on several lines, its numbers as they are, and not much
// more than most bytes of it; most is 0 for all. How much is left out is told.
func pretty(raw []byte, most int) (text, left string) {
	if raw == nil {
		return "", ""
	}
	if most > 0 && len(raw) > 8*most { // reading all of it for its beginning alone takes long
		return cut(string(raw), most)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return cut(string(raw), most)
	}
	return cut(b.String(), most)
}

// cut is the beginning of text, clean, and how much was cut off.
func cut(text string, most int) (head, left string) {
	if most > 0 && len(text) > most {
		i := most
		for i > 0 && !utf8.RuneStart(text[i]) {
			i--
		}
		text, left = text[:i], fmt.Sprintf("%s more", size(uint64(len(text)-i)))
	}
	return clean(text), left
}

// size is a number of bytes for people.
func size(n uint64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
