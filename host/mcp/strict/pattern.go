package strict

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxGroups is how deeply the groups of a pattern can be nested, and maxPattern how long a
// pattern can be, in bytes.
const (
	maxGroups  = 100
	maxPattern = 16 << 10
)

// pattern reads a regular expression of ECMAScript, with the flag u.
type pattern struct {
	rest   string
	groups int
	names  []string // of groups
	wanted []string // names used with \k
	most   int      // the largest number of a backreference
}

// validPattern reports whether new RegExp(text, "u") works, in Node 20 and later. Doubtful patterns
// do not count as valid.
func validPattern(text string) bool {
	if len(text) > maxPattern {
		return false
	}
	p := &pattern{rest: text}
	if !p.alternatives(0) || p.rest != "" || p.most > p.groups {
		return false
	}
	for _, name := range p.wanted {
		if !slices.Contains(p.names, name) {
			return false
		}
	}
	return true
}

// take takes a prefix, if present.
func (p *pattern) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

func (p *pattern) rune() rune {
	r, size := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[size:]
	return r
}

// alternatives reads up to the end or a closing parenthesis.
func (p *pattern) alternatives(depth int) bool {
	for p.rest != "" && p.rest[0] != ')' {
		if !p.take("|") && !p.term(depth) {
			return false
		}
	}
	return true
}

// term reads an assertion, or an atom with a quantifier.
func (p *pattern) term(depth int) bool {
	for _, assertion := range []string{"^", "$", `\b`, `\B`} {
		if p.take(assertion) {
			return true
		}
	}
	for _, look := range []string{"(?=", "(?!", "(?<=", "(?<!"} {
		if p.take(look) {
			return p.group(depth)
		}
	}
	return p.atom(depth) && p.quantifier()
}

func (p *pattern) group(depth int) bool {
	return depth < maxGroups && p.alternatives(depth+1) && p.take(")")
}

func (p *pattern) atom(depth int) bool {
	switch {
	case p.take("(?:"):
		return p.group(depth)
	case p.take("(?<"):
		p.groups++
		name, ok := p.groupName()
		if !ok || slices.Contains(p.names, name) || len(p.names) == maxGroups {
			return false
		}
		p.names = append(p.names, name)
		return p.group(depth)
	case p.take("(?"):
		return false
	case p.take("("):
		p.groups++
		return p.group(depth)
	case p.take("["):
		return p.class()
	case p.take(`\`):
		return p.atomEscape()
	}
	return !strings.ContainsRune("*+?{}])", p.rune())
}

// groupName reads a name and the > behind the name.
func (p *pattern) groupName() (name string, ok bool) {
	name, rest, ok := strings.Cut(p.rest, ">")
	if !ok || name == "" || len(name) > maxGroups {
		return "", false
	}
	for i, r := range name {
		if r != '$' && r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return "", false
		}
	}
	p.rest = rest
	return name, true
}

// quantifier reads a quantifier, if any.
func (p *pattern) quantifier() bool {
	switch {
	case p.take("*"), p.take("+"), p.take("?"):
	case p.take("{"):
		least, ok := p.count()
		if !ok {
			return false
		}
		if p.take(",") && !strings.HasPrefix(p.rest, "}") {
			if most, ok := p.count(); !ok || most < least {
				return false
			}
		}
		if !p.take("}") {
			return false
		}
	default:
		return true
	}
	p.take("?")
	return true
}

// count reads a number of repetitions.
func (p *pattern) count() (n int, ok bool) {
	digits := p.digits()
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

func (p *pattern) digits() string {
	end := 0
	for end < len(p.rest) && '0' <= p.rest[end] && p.rest[end] <= '9' {
		end++
	}
	digits := p.rest[:end]
	p.rest = p.rest[end:]
	return digits
}

// atomEscape reads the text behind a backslash outside of classes.
func (p *pattern) atomEscape() bool {
	if p.take("k<") {
		name, ok := p.groupName()
		p.wanted = append(p.wanted, name)
		return ok && len(p.wanted) <= maxGroups
	}
	if p.rest != "" && '1' <= p.rest[0] && p.rest[0] <= '9' {
		n, ok := p.count()
		p.most = max(p.most, n)
		return ok
	}
	_, _, ok := p.escape()
	return ok
}

// escape reads the text behind a backslash: a character, or a set of characters.
func (p *pattern) escape() (char rune, set, ok bool) {
	if p.rest == "" {
		return 0, false, false
	}
	switch r := p.rune(); r {
	case 'd', 'D', 'w', 'W', 's', 'S':
		return 0, true, true
	case 'p', 'P':
		return 0, true, p.property()
	case 'f', 'n', 'r', 't', 'v':
		return map[rune]rune{'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}[r], false, true
	case 'c':
		letter := p.rune() | 0x20
		return letter & 0x1f, false, 'a' <= letter && letter <= 'z'
	case '0':
		return 0, false, p.rest == "" || p.rest[0] < '0' || p.rest[0] > '9'
	case 'x':
		char, ok = p.hex(2)
		return char, false, ok
	case 'u':
		char, ok = p.unicode()
		return char, false, ok
	default:
		return r, false, strings.ContainsRune(`^$\.*+?()[]{}|/`, r)
	}
}

// hex reads a number of digits in base 16.
func (p *pattern) hex(digits int) (rune, bool) {
	if len(p.rest) < digits || strings.ContainsAny(p.rest[:digits], "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint(p.rest[:digits], 16, 32)
	p.rest = p.rest[digits:]
	return rune(n), err == nil
}

// unicode reads the text behind \u.
func (p *pattern) unicode() (rune, bool) {
	if p.take("{") {
		end := strings.IndexByte(p.rest, '}')
		if end < 1 || end > 8 {
			return 0, false
		}
		r, ok := p.hex(end)
		return r, ok && r <= unicode.MaxRune && p.take("}")
	}
	r, ok := p.hex(4)
	if ok && 0xD800 <= r && r < 0xDC00 {
		before := p.rest
		if low, is := rune(0), p.take(`\u`); is {
			if low, is = p.hex(4); is && 0xDC00 <= low && low < 0xE000 {
				return 0x10000 + (r-0xD800)<<10 + low - 0xDC00, true
			}
		}
		p.rest = before
	}
	return r, ok
}

// class reads a class of characters up to the closing bracket.
func (p *pattern) class() bool {
	p.take("^")
	for !p.take("]") {
		from, set, ok := p.classAtom()
		if !ok {
			return false
		}
		if !strings.HasPrefix(p.rest, "-") || strings.HasPrefix(p.rest, "-]") {
			continue
		}
		p.take("-")
		to, toSet, ok := p.classAtom()
		if !ok || set || toSet || from > to {
			return false
		}
	}
	return true
}

func (p *pattern) classAtom() (char rune, set, ok bool) {
	switch {
	case p.rest == "":
		return 0, false, false
	case p.take(`\b`):
		return '\b', false, true
	case p.take(`\-`):
		return '-', false, true
	case p.take(`\`):
		return p.escape()
	}
	return p.rune(), false, true
}

// binary are properties of characters without a value.
var binary = strings.Fields("Any ASCII Alphabetic Alpha Lowercase Lower Uppercase Upper White_Space space ID_Start IDS ID_Continue IDC XID_Start XID_Continue Emoji Emoji_Presentation Extended_Pictographic Hex_Digit ASCII_Hex_Digit AHex Math Dash Ideographic")

// categories are the long names of categories.
var categories = strings.Fields("Letter Uppercase_Letter Lowercase_Letter Titlecase_Letter Cased_Letter Modifier_Letter Other_Letter Mark Nonspacing_Mark Spacing_Mark Enclosing_Mark Number Decimal_Number Letter_Number Other_Number Punctuation Connector_Punctuation Dash_Punctuation Open_Punctuation Close_Punctuation Initial_Punctuation Final_Punctuation Other_Punctuation Symbol Math_Symbol Currency_Symbol Modifier_Symbol Other_Symbol Separator Space_Separator Line_Separator Paragraph_Separator Other Control Format Surrogate Private_Use Unassigned")

// property reads a property of characters in braces.
func (p *pattern) property() bool {
	text, rest, ok := strings.Cut(p.rest, "}")
	if text, ok2 := strings.CutPrefix(text, "{"); ok && ok2 {
		p.rest = rest
		name, value, valued := strings.Cut(text, "=")
		if !valued {
			return slices.Contains(binary, name) || isCategory(name)
		}
		switch name {
		case "General_Category", "gc":
			return isCategory(value)
		case "Script", "sc", "Script_Extensions", "scx":
			_, known := unicode.Scripts[value]
			return known
		}
	}
	return false
}

func isCategory(name string) bool {
	_, known := unicode.Categories[name]
	return known || slices.Contains(categories, name)
}
