package strict

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// describe reads a value and names its kind.
func describe(r *reader) string {
	kind := r.d.PeekKind()
	r.skip()
	return map[byte]string{
		'n': "null", 't': "true", 'f': "false", '"': "a string", '0': "a number", '{': "an object", '[': "a list",
	}[byte(kind)]
}

// string reads a string.
func (r *reader) string() (text string, ok bool) {
	if r.d.PeekKind() != '"' {
		return "", false
	}
	token, _ := r.d.ReadToken()
	return token.String(), true
}

func text(r *reader) string {
	if r.d.PeekKind() != '"' {
		return " is " + describe(r)
	}
	r.skip()
	return ""
}

func boolean(r *reader) string {
	if kind := r.d.PeekKind(); kind != 't' && kind != 'f' {
		return " is " + describe(r)
	}
	r.skip()
	return ""
}

func anyObject(r *reader) string {
	if r.d.PeekKind() != '{' {
		return " is " + describe(r)
	}
	return decoded(r)
}

func number(r *reader) (literal, wrong string) {
	if r.d.PeekKind() != '0' {
		return "", " is " + describe(r)
	}
	token, _ := r.d.ReadToken()
	return token.String(), ""
}

// integer reads an integer of 64 bits. Readers in Go refuse 1e3 and 1.0.
func integer(r *reader) string {
	literal, wrong := number(r)
	if wrong != "" {
		return wrong
	}
	if _, err := strconv.ParseInt(literal, 10, 64); err != nil {
		return " is not an integer"
	}
	return ""
}

// fraction reads a number from 0 to 1.
func fraction(r *reader) string {
	literal, wrong := number(r)
	if wrong != "" {
		return wrong
	}
	if f, err := strconv.ParseFloat(literal, 64); err != nil || f < 0 || f > 1 {
		return " is not from 0 to 1"
	}
	return ""
}

// oneOf returns a check for the given texts.
func oneOf(texts ...string) func(r *reader) string {
	return func(r *reader) string {
		if r.d.PeekKind() != '"' {
			return " is " + describe(r)
		}
		got, _ := r.string()
		for _, text := range texts {
			if got == text {
				return ""
			}
		}
		return ` is not "` + strings.Join(texts, `" or "`) + `"`
	}
}

// listOf returns a check for a list of values.
func listOf(check func(r *reader) string) func(r *reader) string {
	return func(r *reader) string {
		if r.d.PeekKind() != '[' {
			return " is " + describe(r)
		}
		_, _ = r.d.ReadToken()
		for i := 0; r.d.PeekKind() != ']'; i++ {
			if why := check(r); why != "" {
				return "[" + strconv.Itoa(i) + "]" + why
			}
		}
		_, _ = r.d.ReadToken()
		return ""
	}
}

// properties reads the properties of a schema. Readers of the handshake era want objects, and get
// objects equivalent to true and false.
func properties(r *reader) string {
	if r.d.PeekKind() != '{' {
		return " is " + describe(r)
	}
	_, _ = r.d.ReadToken()
	for r.d.PeekKind() != '}' {
		token, _ := r.d.ReadToken()
		name, start := token.String(), r.next()
		switch kind := r.d.PeekKind(); kind {
		case '{':
			if why := decoded(r); why != "" {
				return "." + display.Line(name, maxName) + why
			}
		case 't', 'f':
			r.skip()
			if r.modern {
				break
			}
			with := "{}"
			if kind == 'f' {
				with = `{"not":{}}`
			}
			r.cuts = append(r.cuts, cut{start, r.at(), with})
			if !r.stateless {
				r.note(name, "")
			}
		default:
			return "." + display.Line(name, maxName) + " is " + describe(r)
		}
	}
	_, _ = r.d.ReadToken()
	return ""
}

// instant is a point in time in the form accepted by the SDKs for TypeScript.
var instant = lazyregexp.New(`^(\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$`)

func moment(r *reader) string {
	text, ok := r.string()
	if !ok {
		return " is " + describe(r)
	}
	parts := instant.FindStringSubmatch(text)
	if parts == nil {
		return " is not a date with a time and a zone"
	}
	if _, err := time.Parse(time.DateOnly, parts[1]); err != nil {
		return " is not a date with a time and a zone"
	}
	return ""
}

// uri splits a URI into scheme and rest.
var uri = lazyregexp.New(`(?s)^([A-Za-z][A-Za-z0-9+.-]*):(.*)$`)

// addressed are the schemes of URIs with a mandatory host.
var addressed = map[string]bool{"http": true, "https": true, "ws": true, "wss": true, "ftp": true}

// address reads a URI. Readers in Python take the URI apart.
func address(r *reader) string {
	text, ok := r.string()
	if !ok {
		return " is " + describe(r)
	}
	parts := uri.FindStringSubmatch(text)
	if parts == nil {
		return " is not a URI: the scheme is missing"
	}
	scheme, rest := strings.ToLower(parts[1]), parts[2]
	if addressed[scheme] {
		rest = "//" + strings.TrimLeft(strings.ReplaceAll(rest, `\`, "/"), "/")
	}
	if rest, ok = strings.CutPrefix(rest, "//"); !ok {
		return ""
	}
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host = rest[:end]
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	port := ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i+1:]
	}
	if !validHost(host, addressed[scheme]) {
		return " is not a URI: the host is not valid"
	}
	if _, err := strconv.ParseUint(port, 10, 16); port != "" && err != nil {
		return " is not a URI: the port is not valid"
	}
	return ""
}

func validHost(host string, needed bool) bool {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		ip, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && ip.Is6() && strings.HasSuffix(inner, "]")
	}
	if host == "" {
		return !needed
	}
	return !strings.ContainsAny(host, "\x00\t\n\r #/:<>?@[\\]^|") && !(needed && strings.ContainsAny(host, "%{}`\"\x7f"))
}

// uriTemplate is a URI template (RFC 6570). mcp-go refuses the list for any other.
var uriTemplate = lazyregexp.New(`^(?:[!#$&-;=?-\[\]_a-z~\x{A0}-\x{D7FF}\x{E000}-\x{FDCF}\x{FDF0}-\x{FFEF}\x{10000}-\x{1FFFD}\x{20000}-\x{2FFFD}\x{30000}-\x{3FFFD}\x{40000}-\x{4FFFD}\x{50000}-\x{5FFFD}\x{60000}-\x{6FFFD}\x{70000}-\x{7FFFD}\x{80000}-\x{8FFFD}\x{90000}-\x{9FFFD}\x{A0000}-\x{AFFFD}\x{B0000}-\x{BFFFD}\x{C0000}-\x{CFFFD}\x{D0000}-\x{DFFFD}\x{E1000}-\x{EFFFD}\x{F0000}-\x{FFFFD}\x{100000}-\x{10FFFD}]` +
	`|%[0-9A-Fa-f]{2}|\{[+#./;?&]?` +
	`(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2})(?:\.?(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2}))*(?:\*|:[1-9][0-9]{0,3})?` +
	`(?:,(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2})(?:\.?(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2}))*(?:\*|:[1-9][0-9]{0,3})?)*\})*$`)

func addressTemplate(r *reader) string {
	text, ok := r.string()
	if !ok {
		return " is " + describe(r)
	}
	if !uriTemplate.MatchString(text) {
		return " is not a URI template (RFC 6570)"
	}
	return ""
}

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
