// Package strict judges items of lists as strict clients do. The SDKs of such clients refuse a
// whole list, with the tools of all servers, if a single item violates their schemas. Begin with
// Judge.
//
// The rules are the rules of the SDKs for TypeScript (1 and 2), Python (1 and 2) and Go, and of
// mcp-go. Where the SDKs differ, the strictest rule counts.
package strict

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Verdict says how clients get an item.
type Verdict struct {
	// Handshake is the item for clients of the handshake era, Stateless for clients of the
	// stateless era. Both are the item itself if the item has no fault, and nil if the item is
	// Refused.
	Handshake, Stateless []byte
	// Refused is the reason why no strict client accepts the item, even without optional members;
	// otherwise "".
	Refused string
	// Dropped are the members removed or replaced, as paths, with the reason unless they are null:
	// at most maxDropped.
	Dropped []string
}

// maxDropped bounds Verdict.Dropped.
const maxDropped = 8

// Odd reports whether clients get the item other than as sent.
func (v *Verdict) Odd() bool { return v.Refused != "" || len(v.Dropped) > 0 }

// Judge judges an item of a list. stateless is set if the server is of the stateless era; clients
// of the handshake era then lack the parts unknown to them: an output schema of anything but an
// object, and properties of true or false. This lack does not count as odd. Judge takes time and
// memory in proportion to the size of the item.
func Judge(surface wire.Surface, item []byte, stateless bool) Verdict {
	if why := readable(item); why != "" {
		return Verdict{Refused: why}
	}
	legacy := read(surface, item, false, stateless)
	if legacy.why != "" {
		return Verdict{Refused: legacy.why}
	}
	v := Verdict{Handshake: item, Stateless: item, Dropped: legacy.dropped}
	if len(legacy.cuts) == 0 {
		return v // the rules of the stateless era are not stricter
	}
	modern := read(surface, item, true, stateless)
	same := slices.Equal(modern.cuts, legacy.cuts)
	v.Handshake, v.Stateless = apply(item, legacy.cuts), apply(item, modern.cuts)
	if same {
		v.Stateless = v.Handshake
	}
	for _, path := range modern.dropped {
		if !slices.Contains(v.Dropped, path) && len(v.Dropped) < maxDropped {
			v.Dropped = append(v.Dropped, path)
		}
	}
	return v
}

// Sound reports whether all clients accept an item of the proxy unchanged.
func Sound(surface wire.Surface, item []byte) bool {
	if readable(item) != "" {
		return false
	}
	r := read(surface, item, false, false)
	return r.why == "" && len(r.cuts) == 0
}

// cut replaces item[start:end].
type cut struct {
	start, end int
	with       string
}

// apply makes cuts. A cut can include further cuts.
func apply(item []byte, cuts []cut) []byte {
	if len(cuts) == 0 {
		return item
	}
	slices.SortStableFunc(cuts, func(a, b cut) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	})
	var out bytes.Buffer
	out.Grow(len(item) + 16)
	at := 0
	for _, c := range cuts {
		if c.end <= at {
			continue
		}
		if c.start > at {
			out.Write(item[at:c.start])
		}
		out.WriteString(c.with)
		at = c.end
	}
	out.Write(item[at:])
	return out.Bytes()
}

// Summary returns the oddities of an item on one line, perhaps with names chosen by the server,
// made safe to show.
func (v *Verdict) Summary() string {
	if v.Refused != "" {
		return v.Refused
	}
	return "without " + strings.Join(v.Dropped, "; ")
}

// need is the consequence of a faulty member.
type need uint8

const (
	// optional members are removed.
	optional need = iota
	// partial members are removed if they are null. If they are faulty, the surrounding object is
	// refused: without them the object would change in meaning.
	partial
	// required members must be present.
	required
)

// member is a member of an object read by readers.
type member struct {
	name string // "" for all members without a rule, as the last rule
	need need
	// check reads the value. It returns the fault of the value, to be put behind the path, or "".
	check func(r *reader) string
	// ofObject is set if a value of [], PHP's form of an empty object, is removed.
	ofObject bool
}

// object is a kind of object. Unlisted members can be anything.
type object []member

// The texts with few allowed values.
var (
	roles        = oneOf("user", "assistant")
	themes       = oneOf("light", "dark")
	taskSupports = oneOf("required", "optional", "forbidden")
	objectType   = oneOf("object")
)

// Parts of items.
var (
	icon = object{
		{"src", required, text, false}, {"mimeType", optional, text, false}, {"sizes", optional, listOf(text), false}, {"theme", optional, themes, false},
	}
	annotations = object{
		{"audience", optional, listOf(roles), false}, {"priority", optional, fraction, false}, {"lastModified", optional, moment, false},
	}
	toolAnnotations = object{
		{"title", optional, text, false}, {"readOnlyHint", optional, boolean, false}, {"destructiveHint", optional, boolean, false},
		{"idempotentHint", optional, boolean, false}, {"openWorldHint", optional, boolean, false},
	}
	execution = object{{"taskSupport", optional, taskSupports, false}}
	argument  = object{
		{"name", required, text, false}, {"title", optional, text, false}, {"description", optional, text, false}, {"required", partial, boolean, false},
	}
	inputSchema  = schema(required, objectType)
	outputSchema = schema(required, objectType)
	// Clients of the stateless era take an output schema of anything.
	outputValue = schema(optional, text)
)

// schema returns the rules of a schema that readers decode. output checks whether a schema can be
// compiled.
func schema(need need, kind func(r *reader) string) object {
	return object{
		{"type", need, kind, false}, {"properties", partial, properties, true}, {"required", partial, listOf(text), false},
		{"$schema", optional, text, false}, {"$defs", partial, anyObject, true}, {"definitions", partial, anyObject, true},
		{"", partial, decoded, false},
	}
}

// Items, by list.
var items = map[wire.Surface]object{
	wire.Tools: {
		{"name", required, text, false}, {"title", optional, text, false}, {"description", optional, text, false}, {"icons", optional, listOf(icon.read), false},
		{"inputSchema", required, inputSchema.read, false}, {"outputSchema", optional, output, false}, {"annotations", optional, toolAnnotations.read, false},
		{"execution", optional, execution.read, false}, {"_meta", optional, anyObject, false},
		{"defer_loading", optional, boolean, false}, // mcp-go
	},
	wire.Resources: {
		{"uri", required, address, false}, {"name", required, text, false}, {"title", optional, text, false}, {"description", optional, text, false},
		{"mimeType", optional, text, false}, {"size", optional, integer, false}, {"icons", optional, listOf(icon.read), false},
		{"annotations", optional, annotations.read, false}, {"_meta", optional, anyObject, false},
	},
	wire.Templates: {
		{"uriTemplate", required, addressTemplate, false}, {"name", required, text, false}, {"title", optional, text, false}, {"description", optional, text, false},
		{"mimeType", optional, text, false}, {"icons", optional, listOf(icon.read), false},
		{"annotations", optional, annotations.read, false}, {"_meta", optional, anyObject, false},
	},
	wire.Prompts: {
		{"name", required, text, false}, {"title", optional, text, false}, {"description", optional, text, false},
		{"arguments", partial, listOf(argument.read), false}, {"icons", optional, listOf(icon.read), false}, {"_meta", optional, anyObject, false},
	},
}

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
