package parse

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsStringPrefix reports whether a word right before a quote belongs to a string
// literal of Python.
func IsStringPrefix(word string) bool {
	switch strings.ToLower(word) {
	case "r", "b", "rb", "br", "u", "f", "fr", "rf":
		return true
	}
	return false
}

// IsFString reports whether a literal is an f-string.
func IsFString(literal string) bool {
	return strings.ContainsAny(literal[:strings.IndexAny(literal, `"'`)], "fF")
}

// LiteralLength is the length of the string literal at the start of s, with a prefix of n letters.
func LiteralLength(s string, n int) int {
	if IsFString(s) {
		length, _, _ := ScanFString(s, 0)
		return length
	}
	return n + StringLength(s[n:])
}

// StringLength is the length of the string literal at the start of s, up to the end of line if not
// closed.
func StringLength(s string) int {
	length, _, _ := stringEnd(s)
	return length
}

// stringEnd is StringLength, with the number of the literal's quotes and whether the literal is
// closed.
func stringEnd(s string) (length, quotes int, closed bool) {
	quote := s[:1]
	if strings.HasPrefix(s, strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == quote[0] && strings.HasPrefix(s[i:], quote):
			return i + len(quote), len(quote), true
		case s[i] == '\\':
			i++
		case len(quote) == 1 && (s[i] == '\n' || s[i] == '\r'):
			return i, len(quote), false
		}
	}
	return len(s), len(quote), false
}

// IsWordStart reports whether a name or keyword begins at the start of s.
func IsWordStart(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r == '_' || unicode.IsLetter(r)
}

// RunLength is the length of the letters, digits and underscores s starts with.
func RunLength(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return i
		}
	}
	return len(s)
}
