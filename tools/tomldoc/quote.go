package tomldoc

import (
	"fmt"
	"strings"
	"unicode"
)

// Quote returns text as a TOML string: readable, between ”' where possible. Invisible characters,
// and characters that make a terminal show a different text, are escaped. The text must be valid
// UTF-8.
func Quote(text string) string {
	if strings.ContainsFunc(text, hidden) || strings.Contains(text, "'''") || strings.HasSuffix(text, "'") {
		return basic(text, strings.Contains(text, "\n"))
	}
	if strings.Contains(text, "\n") {
		return "'''\n" + text + "'''"
	}
	return QuoteLine(text)
}

// QuoteLine is [Quote] for a string on a single line: line breaks are escaped.
func QuoteLine(text string) string {
	if strings.ContainsFunc(text, hidden) || strings.ContainsAny(text, "'\n") || !strings.ContainsAny(text, `"\`) {
		return basic(text, false)
	}
	return "'" + text + "'"
}

// QuoteKey returns a name as a key: bare where possible.
func QuoteKey(name string) string {
	bare := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !bare(r) }) < 0 {
		return name
	}
	return basic(name, false)
}

// hidden reports whether a character is invisible, a control character, or changes the direction of
// text ("Trojan Source", CVE-2021-42574).
func hidden(r rune) bool {
	if r >= ' ' && r <= '~' { // the most common case
		return false
	}
	return r != '\n' && r != '\t' && unicode.In(r, unicode.C, unicode.Zl, unicode.Zp)
}

// basic returns a TOML string with escapes, on several lines or on a single line.
func basic(text string, lines bool) string {
	var b strings.Builder
	mark := `"`
	if lines {
		mark = `"""`
		b.WriteString(mark + "\n")
	} else {
		b.WriteString(mark)
	}
	quotes := 0 // consecutive quotes written so far
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
		case r == '\n' && !lines:
			b.WriteString(`\n`)
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
