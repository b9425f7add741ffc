package discover

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// maxLiteral is the largest length of a shown literal, in bytes.
const maxLiteral = 200

// literal returns a JSON value in the syntax of scripts; "..." if the text is longer than most.
func literal(n *node, most int) string {
	if text, ok := appendLiteral("", n, most); ok {
		return text
	}
	return "..."
}

// appendLiteral appends a literal to text, and returns false if the result is longer than most.
func appendLiteral(text string, n *node, most int) (string, bool) {
	if len(text)+len(n.raw) > 6*most { // an escape is up to six times as long as the escaped character
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

// keywords cannot be names of attributes or keyword arguments: the grammar uses or reserves
// them (Starlark specification, "Lexical elements").
var keywords = setOf("and", "break", "continue", "def", "elif", "else", "for", "if", "in", "lambda", "load", "not", "or",
	"pass", "return", "while", "as", "assert", "async", "await", "class", "del", "except", "finally", "from", "global",
	"import", "is", "nonlocal", "raise", "try", "with", "yield", "True", "False", "None")

// Identifier reports whether scripts can write name after a dot or as a keyword argument.
func Identifier(name string) bool {
	for i, c := range []byte(name) {
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && !keywords[name]
}

// maxName is the length of the shown part of a name.
const maxName = 80

func quoted(name string) string {
	if len(name) > maxName {
		name = display.Summary(name, maxName)
	}
	return strconv.Quote(name)
}

// joinNames joins names, at most a dozen.
func joinNames(names []string, last string) string {
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
