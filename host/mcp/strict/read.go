package strict

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// maxDepth is the deepest nesting of an item. Readers in Rust end at 128 levels of a whole message,
// and readers in Python at 200.
const maxDepth = 100

// maxName is how much of a name is shown, in characters.
const maxName = 40

// reader reads an item along the rules.
type reader struct {
	raw       []byte
	d         *jsontext.Decoder
	modern    bool // for clients of the stateless era
	stateless bool // the server is of the stateless era
	cuts      []cut
	dropped   []string
	path      []string // path of the object being read
	quiet     bool     // the next removed member is no oddity
	why       string
}

func newDecoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true))
}

// readable returns why some readers cannot read an item of any kind, or "". Some readers refuse a
// whole message with half a surrogate pair or invalid UTF-8. Readable items are JSON.
func readable(item []byte) string {
	if !utf8.Valid(item) {
		return notUnicode
	}
	depth := 0
	for i := 0; i < len(item); i++ {
		switch item[i] {
		case '"':
			end, ok := stringEnd(item, i)
			if !ok {
				return notUnicode
			}
			i = end
		case '{', '[':
			if depth++; depth > maxDepth {
				return "it is nested more than " + strconv.Itoa(maxDepth) + " deep"
			}
		case '}', ']':
			depth--
		}
	}
	if !jsontext.Value(item).IsValid(jsontext.AllowDuplicateNames(true)) {
		return "it is not JSON"
	}
	return ""
}

const notUnicode = "it has text that is not valid Unicode"

// stringEnd returns the end of the string that begins at i; ok is false for half a surrogate pair.
func stringEnd(item []byte, i int) (end int, ok bool) {
	for {
		n := bytes.IndexAny(item[i+1:], `"\\`)
		i += 1 + n
		if item[i] == '"' {
			return i, true
		}
		if i++; item[i] != 'u' { // the character behind the backslash
			continue
		}
		switch unit := hexUnit(item[i+1:]); {
		case unit < 0xD800 || unit > 0xDFFF:
		case unit > 0xDBFF || !bytes.HasPrefix(item[i+5:], []byte(`\u`)):
			return 0, false
		default:
			if low := hexUnit(item[i+7:]); low < 0xDC00 || low > 0xDFFF {
				return 0, false
			}
			i += 6
		}
	}
}

// hexUnit returns the number of four digits.
func hexUnit(digits []byte) uint64 {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 32)
	return n
}

// read reads a readable item.
func read(surface wire.Surface, item []byte, modern, stateless bool) *reader {
	r := &reader{raw: item, d: newDecoder(item), modern: modern, stateless: stateless}
	r.why = strings.TrimPrefix(items[surface].read(r), ".")
	return r
}

// decoded reads a value decoded by readers, which refuse numbers beyond 64 bits in the value.
func decoded(r *reader) string {
	for depth := r.d.StackDepth(); ; {
		token, _ := r.d.ReadToken()
		if token.Kind() == '0' {
			if _, err := strconv.ParseFloat(token.String(), 64); err != nil {
				return " has a number that is too large"
			}
		}
		if r.d.StackDepth() == depth {
			return ""
		}
	}
}

// skip skips a value.
func (r *reader) skip() { _ = r.d.SkipValue() } // the value is valid

// at is where the last token ended.
func (r *reader) at() int { return int(r.d.InputOffset()) }

// next is where the next token begins.
func (r *reader) next() int {
	i := r.at()
	for i < len(r.raw) && strings.IndexByte(" \t\r\n,:", r.raw[i]) >= 0 {
		i++
	}
	return i
}

// leave reads on to the end of the container at a depth that a check has left half-read.
func (r *reader) leave(depth int) {
	for r.d.StackDepth() > depth {
		_, _ = r.d.ReadToken()
	}
}

// read reads an object.
func (o object) read(r *reader) string {
	if r.d.PeekKind() != '{' {
		return " is " + describe(r)
	}
	_, _ = r.d.ReadToken()
	depth, seen, kept := r.d.StackDepth(), uint32(0), -1
	for r.d.PeekKind() != '}' {
		start := r.next()
		token, _ := r.d.ReadToken()
		name := token.String()
		i, exact := o.find(name)
		if i < 0 {
			r.skip()
			kept = r.at()
			continue
		}
		m := o[i]
		if m.name == "" {
			if why := m.check(r); why != "" {
				return "." + display.Line(name, maxName) + why
			}
			kept = r.at()
			continue
		}
		if exact && seen&(1<<i) != 0 {
			return "." + m.name + " is present twice"
		} else if exact {
			seen |= 1 << i
		}
		drop, why := r.member(m, exact, depth)
		switch {
		case drop:
			r.note(name, why)
		case why != "":
			return "." + m.name + why
		default:
			kept = r.at()
			continue
		}
		switch end := r.at(); {
		case r.d.PeekKind() != '}':
			r.cuts = append(r.cuts, cut{start, r.next(), ""})
		case kept >= 0:
			r.cuts = append(r.cuts, cut{kept, end, ""})
		default:
			r.cuts = append(r.cuts, cut{start, end, ""})
		}
	}
	_, _ = r.d.ReadToken()
	for i, m := range o {
		if m.need == required && seen&(1<<i) == 0 {
			return "." + m.name + " is missing"
		}
	}
	return ""
}

// member reads the value of a member, and returns whether the member is to be removed, and why, or
// else why the object is unusable. exact is set if the name equals the name of the rule.
func (r *reader) member(m member, exact bool, depth int) (drop bool, why string) {
	cuts, dropped := len(r.cuts), len(r.dropped)
	switch kind := r.d.PeekKind(); {
	case kind == 'n' && (m.need != required || !exact):
		r.skip()
		return exact, ""
	case kind == '[' && exact && m.ofObject && r.emptyList():
		return true, ""
	}
	r.path = append(r.path, m.name)
	why = m.check(r)
	r.path = r.path[:len(r.path)-1]
	if why == "" && exact {
		return false, ""
	}
	r.cuts, r.dropped = r.cuts[:cuts], r.dropped[:dropped]
	r.leave(depth)
	if exact && m.need != optional {
		return false, why
	}
	// Readers that take a similar name for the name of the rule refuse the value just the same.
	return why != "", why
}

// emptyList reads [] if [] comes next.
func (r *reader) emptyList() bool {
	if rest := bytes.TrimLeft(r.raw[r.next()+1:], " \t\r\n"); rest[0] != ']' {
		return false
	}
	r.skip()
	return true
}

// note records a removed or replaced member, and the reason; "" for null.
func (r *reader) note(name, why string) {
	if r.quiet {
		r.quiet = false
		return
	}
	if len(r.dropped) == maxDropped {
		return
	}
	name = display.Line(name, maxName)
	path := strings.Join(append(r.path[:len(r.path):len(r.path)], name), ".")
	if why != "" {
		path += " (" + name + why + ")"
	}
	r.dropped = append(r.dropped, path)
}

// find finds the rule for a name, or for a name that some readers take for the same, or else the
// rule without a name.
func (o object) find(name string) (index int, exact bool) {
	for i, m := range o {
		if m.name == name {
			return i, true
		}
	}
	for i, m := range o {
		if m.name == "" || m.need != required && alike(m.name, name) {
			return i, false
		}
	}
	return -1, false
}

// alike reports whether readers that ignore case and underscores take a name for ours.
func alike(ours, name string) bool {
	i := 0
	for _, r := range name {
		if r == '_' {
			continue
		}
		for i < len(ours) && ours[i] == '_' {
			i++
		}
		if i == len(ours) || lower(r) != lower(rune(ours[i])) {
			return false
		}
		i++
	}
	return i == len(ours)
}

// lower returns a letter without case, as encoding/json of Go does.
func lower(r rune) rune {
	switch {
	case 'A' <= r && r <= 'Z':
		return r + 'a' - 'A'
	case r == 'ſ':
		return 's'
	case r == '\u212a': // the sign for kelvin
		return 'k'
	}
	return r
}
