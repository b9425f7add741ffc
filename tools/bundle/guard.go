package bundle

import "strings"

// maxNesting is how deep brackets may be nested, and how many parts a key may
// have. Bundles need 1 and 3; the TOML library takes a minute for some ten
// thousand, and nothing can stop it.
const maxNesting = 16

// nesting finds the byte offset where a TOML text is nested deeper than that,
// -1 if it never is. In a text that is not valid TOML it may find one where
// there is none.
func nesting(text string) int {
	depth, dots := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '#':
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				return -1
			}
			i += end - 1
		case '"', '\'':
			end := endOfString(text[i:])
			if end < 0 {
				return -1 // the library will say so
			}
			i += end - 1
		case '[', '{':
			if depth++; depth > maxNesting {
				return i
			}
			dots = 0
		case ']', '}':
			depth = max(0, depth-1)
		case '\n', '=', ',':
			dots = 0
		case '.':
			if dots++; dots > maxNesting {
				return i
			}
		}
	}
	return -1
}

// endOfString is the length of the TOML string that a text begins with, -1 if it
// does not end.
func endOfString(text string) int {
	mark := text[:1]
	if triple := strings.Repeat(mark, 3); strings.HasPrefix(text, triple) {
		mark = triple
	}
	for i := len(mark); i < len(text); i++ {
		switch {
		case text[i] == '\\' && mark[0] == '"':
			i++
		case text[i] == '\n' && len(mark) == 1:
			return -1
		case strings.HasPrefix(text[i:], mark):
			i += len(mark)
			// Up to two more quotes belong to the string.
			for more := 0; len(mark) == 3 && more < 2 && i < len(text) && text[i] == mark[0]; more++ {
				i++
			}
			return i
		}
	}
	return -1
}
