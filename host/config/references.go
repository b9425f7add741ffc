package config

import (
	"errors"
	"strings"
)

// piece is a part of a string: text, or a reference if name is not "".
type piece struct{ text, name string }

var errReferenceForm = errors.New(`contains a {{ that does not begin a reference such as {{name}} (write \{{ for a literal {{)`)

// splitReferences splits a string at its references:
//
//	{{NAME}}  a reference; there may be spaces around NAME, which consists of letters,
//	          digits, _ and - and begins with a letter or _
//	\{{       the two characters {{
//
// Everything else is text. The pieces have the order of the string, and no two pieces of
// text are neighbours.
func splitReferences(s string) ([]piece, error) {
	var pieces []piece
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			pieces = append(pieces, piece{text: text.String()})
			text.Reset()
		}
	}
	for {
		at := strings.Index(s, "{{")
		if at < 0 {
			text.WriteString(s)
			flush()
			return pieces, nil
		}
		if at > 0 && s[at-1] == '\\' {
			text.WriteString(s[:at-1] + "{{")
			s = s[at+2:]
			continue
		}
		text.WriteString(s[:at])
		inner, rest, closed := strings.Cut(s[at+2:], "}}")
		name := strings.Trim(inner, " ")
		if !closed || !IsReferenceName(name) {
			return nil, errReferenceForm
		}
		flush()
		pieces = append(pieces, piece{name: name})
		s = rest
	}
}

// IsReferenceName reports whether a reference {{NAME}} can have the name.
func IsReferenceName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-') {
			return false
		}
	}
	return name != ""
}

// ReferenceIn returns the name of the reference that a text consists of; ok is false if it is
// anything else.
func ReferenceIn(text string) (name string, ok bool) {
	pieces, err := splitReferences(text)
	if err != nil || len(pieces) != 1 || pieces[0].name == "" {
		return "", false
	}
	return pieces[0].name, true
}

// HasReferences reports whether a text, which may be wrong in other ways, has a {{ that is
// not escaped.
func HasReferences(text string) bool {
	return strings.Contains(strings.ReplaceAll(text, `\{{`, ""), "{{")
}
