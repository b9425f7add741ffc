package bundle

import (
	"fmt"
	"strings"
	"unicode"
)

// quote is text as a TOML string: as it is between ”' where that is possible,
// so that it can be read. What cannot be seen, or makes a terminal show
// something else than is there, is escaped. The text must be valid UTF-8.
func quote(text string) string {
	lines := strings.Contains(text, "\n")
	switch {
	case strings.ContainsFunc(text, hidden) || strings.Contains(text, "'''") || strings.HasSuffix(text, "'"):
		return basic(text, lines)
	case lines:
		return "'''\n" + text + "'''"
	case strings.Contains(text, "'") || !strings.ContainsAny(text, `"\`):
		return basic(text, false)
	}
	return "'" + text + "'"
}

// hidden runes are the invisible, those that control, and those that reverse
// the direction of text ("Trojan Source", CVE-2021-42574).
func hidden(r rune) bool {
	if r >= ' ' && r <= '~' { // nearly all
		return false
	}
	return r != '\n' && r != '\t' && unicode.In(r, unicode.C, unicode.Zl, unicode.Zp)
}

// basic is a string with escapes, on several lines or on one.
func basic(text string, lines bool) string {
	var b strings.Builder
	mark := `"`
	if lines {
		mark = `"""`
		b.WriteString(mark + "\n")
	} else {
		b.WriteString(mark)
	}
	quotes := 0 // just written
	for i, r := range text {
		last := i == len(text)-1
		switch {
		case r == '"' && (!lines || quotes == 2 || last):
			b.WriteString(`\"`)
			quotes = 0
			continue
		case r == '"':
			b.WriteByte('"')
			quotes++
			continue
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\r':
			b.WriteString(`\r`)
		case hidden(r) && r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08X`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
		quotes = 0
	}
	b.WriteString(mark)
	return b.String()
}
