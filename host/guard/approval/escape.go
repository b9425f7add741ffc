package approval

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of foreign texts that are shown, in characters.
const (
	maxName   = 128
	maxTarget = 300
	maxNote   = 300
	maxReason = 300
)

// plain returns foreign text as a line of plain characters, which no reader takes for text of the
// proxy. Characters that are invisible, change the direction of text, end a line or a code span, or
// only look like a space become escapes, and long gaps are counted. The escapes are the escapes of
// JSON where JSON has one, so the value of JSON stays the same.
func plain(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == ' ':
			if gap := len(text[i:]) - len(strings.TrimLeft(text[i:], " ")); gap > maxGap {
				fmt.Fprintf(&b, ` (%d spaces) `, gap)
				size = gap
			} else {
				b.WriteByte(' ')
			}
		case isPlain(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// maxGap is the longest row of spaces that is shown as spaces. A longer row could push the
// following text out of sight.
const maxGap = 8

// isPlain reports whether a character is shown without an escape.
func isPlain(r rune) bool {
	switch {
	case r == '`': // would end the code span
		return false
	case r < utf8.RuneSelf:
		return r >= ' ' && r != 0x7f
	case unicode.In(r, unicode.Mn, unicode.Me): // drawn over other characters
		return false
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), unicode.Is(unicode.Variation_Selector, r), r == '\u2800', r == '\u3164', r == '\uffa0':
		return false // letters and symbols without a shape
	}
	return strconv.IsGraphic(r) && !unicode.Is(unicode.Zs, r)
}

// clip shortens text to n characters: the beginning and the end remain, with the number of missing
// characters between. whole is false then.
func clip(text string, n int) (_ string, whole bool) {
	count := utf8.RuneCountInString(text)
	if count <= n {
		return text, true
	}
	runes := []rune(text)
	head, tail := n*3/4, n/4
	return string(runes[:head]) + fmt.Sprintf(" … (%d characters are not shown) … ", count-head-tail) + string(runes[count-tail:]), false
}

// quote returns the beginning of a foreign text in a code span, so that readers of Markdown find no
// markup in the text.
func quote(text string, n int) string {
	shown, _ := span(text, n)
	return shown
}

// span is quote, and reports whether all of the text is shown.
func span(text string, n int) (_ string, whole bool) {
	var shown string
	if len(text) > 64*n { // so long texts are cheap
		head, tail := []rune(plain(text[:cutAt(text, 32*n)])), []rune(plain(text[cutAt(text, len(text)-32*n):]))
		shown = string(head[:min(len(head), n*3/4)]) + fmt.Sprintf(" … (%d bytes in all) … ", len(text)) + string(tail[max(0, len(tail)-n/4):])
	} else {
		shown, whole = clip(plain(text), n)
	}
	if shown == "" || shown[0] == ' ' || shown[len(shown)-1] == ' ' {
		shown = `"` + shown + `"`
	}
	return "`" + shown + "`", whole
}

// cutAt returns the first offset from n on at which a character begins.
func cutAt(text string, n int) int {
	for n < len(text) && !utf8.RuneStart(text[n]) {
		n++
	}
	return n
}

// quoteNote is quote for the note of a person; "" stays empty.
func quoteNote(note string) string {
	if note == "" {
		return ""
	}
	return quote(note, maxNote)
}

// asName returns the beginning of the name of a server, script or client in a code span. Names in
// other scripts than ASCII are escaped, since two letters may look alike.
func asName(name string) string { return quote(ascii(name), maxName) }

func ascii(name string) string {
	quoted := strconv.QuoteToASCII(name)
	return quoted[1 : len(quoted)-1]
}
