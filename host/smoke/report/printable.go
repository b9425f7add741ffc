package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// printable is a text in which everything that is not seen but acts (control
// characters, ANSI escapes, bidirectional overrides) and what is not UTF-8 is
// written as an escape, such as \x1b. Newlines and tabs stay, a carriage return
// in front of a newline goes.
func printable(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if plain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case harmless(r):
			b.WriteRune(r)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// plain tells whether a text is all printable ASCII.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// harmless characters are shown as they are. The joiner makes one emoji of
// several.
func harmless(r rune) bool {
	const joiner = '\u200d'
	return r == '\n' || r == '\t' || r == joiner || strconv.IsGraphic(r)
}

// oneLine is a printable text on one line.
func oneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", " ").Replace(printable(s))
}
