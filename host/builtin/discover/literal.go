package discover

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxLiteral is the longest literal that is written out, in bytes.
const maxLiteral = 200

// literal is a JSON value as scripts write it; "..." when that is too long.
func literal(n *node, most int) string {
	if text, ok := appendLiteral("", n, most); ok {
		return text
	}
	return "..."
}

// appendLiteral appends to text; false when the result is longer than most.
func appendLiteral(text string, n *node, most int) (string, bool) {
	if len(text)+len(n.raw) > 6*most { // escapes make a string six times as long
		return text, false
	}
	switch n.kind {
	case '{':
		text += "{"
		for i, m := range n.members {
			text += comma(i) + strconv.Quote(m.name) + ": "
			var ok bool
			if text, ok = appendLiteral(text, m.value, most); !ok {
				return text, false
			}
		}
		text += "}"
	case '[':
		text += "["
		for i, item := range n.items {
			var ok bool
			if text, ok = appendLiteral(text+comma(i), item, most); !ok {
				return text, false
			}
		}
		text += "]"
	case '"':
		text += strconv.Quote(n.text())
	case 't':
		text += "True"
	case 'f':
		text += "False"
	case 'n':
		text += "None"
	default:
		text += string(n.raw)
	}
	return text, len(text) <= most
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ", "
}

// keywords cannot be names of attributes or of keyword arguments: they are
// words of the grammar, or reserved by it (Starlark specification, "Lexical
// elements").
var keywords = setOf("and", "break", "continue", "def", "elif", "else", "for", "if", "in", "lambda", "load", "not", "or",
	"pass", "return", "while", "as", "assert", "async", "await", "class", "del", "except", "finally", "from", "global",
	"import", "is", "nonlocal", "raise", "try", "with", "yield", "True", "False", "None")

// Identifier tells whether scripts can write name after a dot, or as a keyword
// argument.
func Identifier(name string) bool {
	for i, c := range []byte(name) {
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && !keywords[name]
}

// Clip is the first line or so of a text: white space made single spaces, cut
// at the end of a word when it has more than most letters.
func Clip(text string, most int) string {
	text = text[:min(len(text), 16*most)] // no need to look at all of a long one
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	cut := string([]rune(text)[:most])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,;:.") + "..."
}

// maxName is how much of a name is shown.
const maxName = 80

func quoted(name string) string {
	if len(name) > maxName {
		name = Clip(name, maxName)
	}
	return strconv.Quote(name)
}

// listed joins at most a dozen names.
func listed(names []string, last string) string {
	all := make([]string, 0, len(names))
	for i, n := range names {
		if i == 12 {
			all = append(all, "...")
			break
		}
		all = append(all, quoted(n))
	}
	if len(all) > 1 && !slices.Contains(all, "...") {
		return strings.Join(all[:len(all)-1], ", ") + last + all[len(all)-1]
	}
	return strings.Join(all, ", ")
}
