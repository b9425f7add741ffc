package display

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Escape makes text safe like [Text], but shows the replaced characters: control characters,
// bidirectional overrides and invalid UTF-8 become escapes such as \x1b. Newlines and tabs stay; a
// carriage return before a newline is dropped.
func Escape(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case Harmless(r):
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

// EscapeLine is like [Escape], but returns a single line: newlines become \n, and tabs spaces.
func EscapeLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", " ").Replace(Escape(s))
}

// isPlain reports whether a text consists of printable ASCII, newlines and tabs.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// Harmless reports whether Escape leaves a character unchanged. The zero-width joiner, which
// combines several emoji, is harmless.
func Harmless(r rune) bool {
	const joiner = '\u200d'
	return r == '\n' || r == '\t' || r == joiner || strconv.IsGraphic(r)
}
