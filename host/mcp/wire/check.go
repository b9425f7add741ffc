package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrAmbiguous means that JSON parsers read an object in different ways.
var ErrAmbiguous = errors.New("ambiguous JSON")

// Check checks that every JSON parser reads the known members of obj in the same way. The error
// wraps ErrAmbiguous, or reports that obj is not an object.
func (s *Shape) Check(obj []byte) error {
	i := skipSpace(obj, 0)
	if i == len(obj) || obj[i] != '{' {
		return errNotObject
	}
	var c checker
	end, f := c.object(obj, i, 0, s)
	switch {
	case f != noFault:
		return syntax(obj, end, f)
	case c.found.kind != unambiguous:
		return fmt.Errorf("%w: %s", ErrAmbiguous, c.found.text())
	}
	return checkEnd(obj, end)
}

// checker looks for ambiguities during the scan of an object.
type checker struct {
	found ambiguity // the first ambiguity
	parts [6][]byte // the values of the members of a message, in the order of its Shape
}

// ambiguity describes a member that parsers read in different ways.
type ambiguity struct {
	kind       ambiguityKind
	shape      *Shape
	name       []byte // quoted; aliases the message
	resembling string // the known name that the member resembles, for lookalike
}

type ambiguityKind uint8

const (
	unambiguous   ambiguityKind = iota
	lookalike                   // resembles another name
	repeated                    // appears twice
	loneSurrogate               // half a surrogate pair in a name
	loneInValue                 // half a surrogate pair in a value that will be looked up
	protoMember                 // __proto__
)

func (a *ambiguity) text() string {
	where := "the message"
	if a.shape.path != "" {
		where = a.shape.path
	}
	name := excerpt(a.name)
	switch a.kind {
	case lookalike:
		return fmt.Sprintf("member %s of %s is taken for %q by some readers (write %q, or leave the member out)", name, where, a.resembling, a.resembling)
	case repeated:
		return fmt.Sprintf("member %s appears twice in %s", name, where)
	case loneSurrogate:
		return fmt.Sprintf("the name %s of a member of %s has half a surrogate pair", name, where)
	case loneInValue:
		return fmt.Sprintf("the value of member %s of %s has half a surrogate pair", name, where)
	}
	return fmt.Sprintf("member %s of %s is not allowed: some parsers treat its members as members of %s", name, where, where)
}

// report records the first ambiguity.
func (c *checker) report(kind ambiguityKind, s *Shape, name []byte, resembling string) {
	if c.found.kind == unambiguous {
		c.found = ambiguity{kind, s, name, resembling}
	}
}

// message scans a message into c.parts. The error is an *RPCError.
func (c *checker) message(raw []byte) error {
	i := skipSpace(raw, 0)
	object := i < len(raw) && raw[i] == '{'
	var f fault
	if object {
		i, f = c.object(raw, i, 0, messageShape)
	} else {
		i, f = scanValue(raw, i, 0)
	}
	var err error
	if f != noFault {
		err = syntax(raw, i, f)
	} else {
		err = checkEnd(raw, i)
	}
	switch {
	case err != nil:
		return Errorf(CodeParse, "parse error: %v", err)
	case !object:
		return Errorf(CodeInvalidRequest, "invalid request: a message is a JSON object")
	}
	return nil
}

// object scans an object like scanObject, and checks the object against a Shape.
func (c *checker) object(raw []byte, i, depth int, s *Shape) (end int, f fault) {
	if depth >= maxDepth {
		return i, tooDeep
	}
	if i = skipSpace(raw, i+1); i < len(raw) && raw[i] == '}' {
		return i + 1, noFault
	}
	var seen names
	for {
		at := i
		if i, f = scanString(raw, i); f != noFault {
			return i, f
		}
		name := raw[at:i]
		if i, f = scanColon(raw, i); f != noFault {
			return i, f
		}
		if i, f = c.member(raw, name, i, depth+1, s, &seen); f != noFault {
			return i, f
		}
		i = skipSpace(raw, i)
		switch {
		case i >= len(raw):
			return i, unexpected
		case raw[i] == '}':
			return i + 1, noFault
		case raw[i] != ',':
			return i, unexpected
		}
		i = skipSpace(raw, i+1)
	}
}

// member checks the name of a member and scans the value, at the given depth.
func (c *checker) member(raw, name []byte, i, depth int, s *Shape, seen *names) (end int, f fault) {
	m := c.name(name, s, seen)
	switch {
	case m == nil:
		return scanValue(raw, i, depth)
	case m.inner != nil && i < len(raw) && raw[i] == '{':
		end, f = c.object(raw, i, depth, m.inner)
	default:
		end, f = scanValue(raw, i, depth)
	}
	switch {
	case f != noFault:
	case s == messageShape:
		c.parts[m.index] = raw[i:end]
	case m.text && hasLoneSurrogate(raw[i:end]):
		c.report(loneInValue, s, name, "")
	}
	return end, f
}

// name checks the quoted name of a member. It returns the known member of this name, or nil.
func (c *checker) name(quoted []byte, s *Shape, seen *names) *knownMember {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		if hasLoneSurrogate(quoted) {
			c.report(loneSurrogate, s, quoted, "")
		}
		name, _ = jsontext.AppendUnquote(nil, quoted)
	}
	if len(name) < len(s.byName) {
		for _, m := range s.byName[len(name)] {
			if string(name) == m.name {
				if seen.known&(1<<m.index) != 0 {
					c.report(repeated, s, quoted, "")
				}
				seen.known |= 1 << m.index
				return m
			}
		}
	}
	if m := s.lookalikeOf(name); m != nil {
		c.report(lookalike, s, quoted, m.name)
	}
	if string(name) == "__proto__" { // matters when JavaScript copies members by assignment
		c.report(protoMember, s, quoted, "")
	}
	if !seen.add(name) {
		c.report(repeated, s, quoted, "")
	}
	return nil
}

// maxFolded is the maximum length of a folded name in a Shape.
const maxFolded = 63

// lookalikeOf returns the known member that some parsers take name for, or nil.
func (s *Shape) lookalikeOf(name []byte) *knownMember {
	var buf [maxFolded + 1 + utf8.UTFMax]byte
	folded := fold(buf[:0], name, s.joined)
	if len(folded) < len(s.byFold) {
		for _, m := range s.byFold[len(folded)] {
			if string(folded) == m.folded {
				return m
			}
		}
	}
	return nil
}

// ligatures maps characters that full case folding, as in Python's casefold, turns into several
// ASCII letters.
var ligatures = map[rune]string{
	'ß': "ss", 'ẞ': "ss", 'ﬀ': "ff", 'ﬁ': "fi", 'ﬂ': "fl", 'ﬃ': "ffi", 'ﬄ': "ffl", 'ﬅ': "st", 'ﬆ': "st",
}

// Fold returns the common form of all names that some JSON parser takes for the same member:
// parsers that ignore case, and parsers that ignore separators.
func Fold(name string) string { return string(fold(nil, []byte(name), true)) }

// fold appends name in the form that case-insensitive parsers compare. The form has Unicode simple
// case folding, as in encoding/json; full folding where the result is ASCII; and the Turkish
// letters i, as in Java. If joined is set, separators are left out. fold stops at a NUL, where C
// strings end, or when the result is longer than maxFolded.
func fold(b, name []byte, joined bool) []byte {
	for i := 0; i < len(name) && len(b) <= maxFolded; i++ {
		switch c := name[i]; {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(name[i:])
			if letters := ligatures[r]; letters != "" {
				b = append(b, letters...)
			} else {
				b = utf8.AppendRune(b, foldRune(r))
			}
			i += n - 1
		case c == 0:
			return b
		case 'A' <= c && c <= 'Z':
			b = append(b, c+'a'-'A')
		case joined && (c == '_' || c == '-' || c == '.' || c == '/'):
		default:
			b = append(b, c)
		}
	}
	return b
}

// foldRune returns the smallest rune equal to r under simple case folding, in lower case if the
// rune is ASCII.
func foldRune(r rune) rune {
	if r == 'ı' || r == 'İ' {
		return 'i'
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}

// hasLoneSurrogate reports whether a JSON string contains half a surrogate pair.
func hasLoneSurrogate(quoted []byte) bool {
	for i := bytes.IndexByte(quoted, '\\'); i >= 0 && i+1 < len(quoted); {
		if quoted[i+1] != 'u' {
			i += 2
		} else {
			high, low := hex4(quoted[i+2:]), rune(-1)
			if i+8 <= len(quoted) && quoted[i+6] == '\\' && quoted[i+7] == 'u' {
				low = hex4(quoted[i+8:])
			}
			switch {
			case high < 0xD800 || high > 0xDFFF:
				i += 6
			case high < 0xDC00 && low >= 0xDC00 && low <= 0xDFFF:
				i += 12
			default:
				return true
			}
		}
		next := bytes.IndexByte(quoted[i:], '\\')
		if next < 0 {
			return false
		}
		i += next
	}
	return false
}

// hex4 parses four hexadecimal digits. It returns -1 for fewer digits.
func hex4(b []byte) (r rune) {
	if len(b) < 4 {
		return -1
	}
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case isHex(c):
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}

// fewNames is the largest number of names that are compared one by one.
const fewNames = 8

// names is the set of the names in an object.
type names struct {
	known uint64 // a bit for each known member
	n     int    // how many of few are used
	few   [fewNames][]byte
	many  map[string]bool // all unknown names, if their number exceeds few
}

// add adds the name of an unknown member. It returns false if the set has the name already.
func (s *names) add(name []byte) bool {
	if s.many != nil {
		if s.many[string(name)] {
			return false
		}
		s.many[string(name)] = true
		return true
	}
	for _, other := range s.few[:s.n] {
		if len(other) == len(name) && string(other) == string(name) {
			return false
		}
	}
	if s.n < fewNames {
		s.few[s.n] = name
		s.n++
		return true
	}
	s.many = make(map[string]bool, 2*fewNames)
	for _, other := range s.few {
		s.many[string(other)] = true
	}
	s.many[string(name)] = true
	return true
}

// maxDepth is how deeply objects and arrays can be nested.
const maxDepth = 10_000

// The scan functions return the end of a piece of JSON text (RFC 8259) that begins at raw[i], and
// validate the text. They accept features of values that are only passed on: duplicate names,
// invalid UTF-8 and lone surrogates. With a fault they return the fault's position instead.

// fault is the reason why a text is not valid JSON.
type fault uint8

const (
	noFault    fault = iota
	unexpected       // an unexpected byte, or the end of the text
	tooDeep
)

// errNotObject means that JSON text is not an object.
var errNotObject = errors.New("not a JSON object")

// syntax returns the error for a fault.
func syntax(raw []byte, at int, f fault) error {
	switch {
	case at >= len(raw):
		return io.ErrUnexpectedEOF
	case f == tooDeep:
		return fmt.Errorf("more than %d nested objects and arrays at byte %d", maxDepth, at)
	}
	return fmt.Errorf("invalid character %q at byte %d", raw[at:at+1], at)
}

// skipSpace returns the position after white space.
func skipSpace(raw []byte, i int) int {
	for i < len(raw) && raw[i] <= ' ' && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\r' || raw[i] == '\t') {
		i++
	}
	return i
}

// scanValue returns the end of a value nested depth levels deep.
func scanValue(raw []byte, i, depth int) (end int, f fault) {
	if i >= len(raw) {
		return i, unexpected
	}
	switch c := raw[i]; {
	case c == '"':
		return scanString(raw, i)
	case c == '{':
		return scanObject(raw, i, depth)
	case c == '[':
		return scanArray(raw, i, depth)
	case c == '-' || isDigit(c):
		return scanNumber(raw, i)
	case c == 't':
		return scanLiteral(raw, i, "true")
	case c == 'f':
		return scanLiteral(raw, i, "false")
	case c == 'n':
		return scanLiteral(raw, i, "null")
	}
	return i, unexpected
}

func scanObject(raw []byte, i, depth int) (end int, f fault) {
	if depth >= maxDepth {
		return i, tooDeep
	}
	if i = skipSpace(raw, i+1); i < len(raw) && raw[i] == '}' {
		return i + 1, noFault
	}
	for {
		if i, f = scanString(raw, i); f != noFault {
			return i, f
		}
		if i, f = scanColon(raw, i); f != noFault {
			return i, f
		}
		if i, f = scanValue(raw, i, depth+1); f != noFault {
			return i, f
		}
		i = skipSpace(raw, i)
		switch {
		case i >= len(raw):
			return i, unexpected
		case raw[i] == '}':
			return i + 1, noFault
		case raw[i] != ',':
			return i, unexpected
		}
		i = skipSpace(raw, i+1)
	}
}

// scanColon returns the start of a member's value. The name of the member ends at i.
func scanColon(raw []byte, i int) (value int, f fault) {
	if i = skipSpace(raw, i); i >= len(raw) || raw[i] != ':' {
		return i, unexpected
	}
	return skipSpace(raw, i+1), noFault
}

func scanArray(raw []byte, i, depth int) (end int, f fault) {
	if depth >= maxDepth {
		return i, tooDeep
	}
	if i = skipSpace(raw, i+1); i < len(raw) && raw[i] == ']' {
		return i + 1, noFault
	}
	for {
		if i, f = scanValue(raw, i, depth+1); f != noFault {
			return i, f
		}
		i = skipSpace(raw, i)
		switch {
		case i >= len(raw):
			return i, unexpected
		case raw[i] == ']':
			return i + 1, noFault
		case raw[i] != ',':
			return i, unexpected
		}
		i = skipSpace(raw, i+1)
	}
}

func scanString(raw []byte, i int) (end int, f fault) {
	if i >= len(raw) || raw[i] != '"' {
		return i, unexpected
	}
	for i++; ; {
		i = skipPlain(raw, i)
		switch {
		case i >= len(raw) || raw[i] < ' ':
			return i, unexpected
		case raw[i] == '"':
			return i + 1, noFault
		case raw[i] == '\\':
			if i, f = scanEscape(raw, i); f != noFault {
				return i, f
			}
		default:
			i++
		}
	}
}

// skipPlain skips bytes without a special meaning in a string, eight at a time, up to the first
// quote, backslash or control character, or to the last seven bytes.
func skipPlain(raw []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for i+8 <= len(raw) {
		x := binary.LittleEndian.Uint64(raw[i:])
		quote, slash := x^ones*'"', x^ones*'\\'
		found := ((x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash) & highs
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
		i += 8
	}
	return i
}

func scanEscape(raw []byte, i int) (end int, f fault) {
	if i++; i >= len(raw) {
		return i, unexpected
	}
	switch raw[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1, noFault
	case 'u':
	default:
		return i, unexpected
	}
	for range 4 {
		if i++; i >= len(raw) || !isHex(raw[i]) {
			return i, unexpected
		}
	}
	return i + 1, noFault
}

func scanNumber(raw []byte, i int) (end int, f fault) {
	if raw[i] == '-' {
		i++
	}
	if i < len(raw) && raw[i] == '0' {
		i++
	} else if i, f = scanDigits(raw, i); f != noFault {
		return i, f
	}
	if i < len(raw) && raw[i] == '.' {
		if i, f = scanDigits(raw, i+1); f != noFault {
			return i, f
		}
	}
	if i < len(raw) && (raw[i] == 'e' || raw[i] == 'E') {
		i++
		if i < len(raw) && (raw[i] == '+' || raw[i] == '-') {
			i++
		}
		return scanDigits(raw, i)
	}
	return i, noFault
}

// scanDigits returns the end of at least one digit.
func scanDigits(raw []byte, i int) (end int, f fault) {
	if i >= len(raw) || !isDigit(raw[i]) {
		return i, unexpected
	}
	for i++; i < len(raw) && isDigit(raw[i]); i++ {
	}
	return i, noFault
}

func scanLiteral(raw []byte, i int, literal string) (end int, f fault) {
	for k := range len(literal) {
		if i+k >= len(raw) || raw[i+k] != literal[k] {
			return i + k, unexpected
		}
	}
	return i + len(literal), noFault
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// Shape lists the known members of a kind of object: members that the protocol defines or the proxy
// acts on. JSON parsers match names in different ways. Some ignore case (encoding/json of Go), some
// also accept task_id for taskId (Python) or meta for _meta (encoding/json/v2, with an option). Of
// two members with the same name, some parsers use the first and some the last. So an object with a
// Shape must not contain a member that merely resembles a known member, nor two members with the
// same name; see Shape.Check. Unknown members are not restricted.
type Shape struct {
	path string // the place of the object, for errors; "" for the message itself
	// joined also covers parsers that ignore separators in names. Results do not need this: servers
	// send is_error next to isError, and misreading the member does no harm.
	joined bool
	byName [][]*knownMember // by the length of the name
	byFold [][]*knownMember // by the length of the folded name
}

// knownMember is a known member of a Shape.
type knownMember struct {
	name   string
	folded string
	index  int
	text   bool   // the value is looked up as a string
	inner  *Shape // the Shape of the value; nil to skip the check
}

// maxKnown is how many members a Shape can have; see names.known.
const maxKnown = 64

// newShape returns a Shape without members.
func newShape(path string, joined bool) *Shape { return &Shape{path: path, joined: joined} }

// has adds members.
func (s *Shape) has(names ...string) *Shape { return s.add(false, nil, names) }

// looksUp adds members with values that are looked up as strings.
func (s *Shape) looksUp(names ...string) *Shape { return s.add(true, nil, names) }

// holds adds a member with the Shape of the value.
func (s *Shape) holds(name string, inner *Shape) *Shape { return s.add(false, inner, []string{name}) }

func (s *Shape) add(text bool, inner *Shape, names []string) *Shape {
	for _, name := range names {
		m := &knownMember{name: name, folded: string(fold(nil, []byte(name), s.joined)), text: text, inner: inner}
		count := 0
		for _, all := range s.byName {
			count += len(all)
		}
		if count == maxKnown || len(m.folded) > maxFolded {
			panic("wire: shape " + s.path + " cannot hold " + name)
		}
		m.index = count
		s.byName = addByLength(s.byName, len(m.name), m)
		s.byFold = addByLength(s.byFold, len(m.folded), m)
	}
	return s
}

// addByLength adds m to the members with names of length n.
func addByLength(index [][]*knownMember, n int, m *knownMember) [][]*knownMember {
	for len(index) <= n {
		index = append(index, nil)
	}
	index[n] = append(index[n], m)
	return index
}

// metaKeys are the known keys of _meta: the keys of revisions up to 2026-07-28, and the proxy's
// own. Keys with a Shape are in metaShape.
var metaKeys = []string{
	"io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/serverInfo",
	"io.modelcontextprotocol/logLevel", "io.modelcontextprotocol/subscriptionId",
	"io.modelcontextprotocol/model-immediate-response",
	"io.github.mcp-metatool/upstreams", "io.github.mcp-metatool/receipt",
	"io.github.mcp-metatool/configuration", "io.github.mcp-metatool/idempotencyKey",
}

// requestMetaShape returns the Shape of the _meta of a request. The client's self-description in
// _meta is checked like the params of initialize.
func requestMetaShape(path string) *Shape {
	return metaShape(path, true, capabilitiesShape(path+".clientCapabilities", true), implementationShape(path+".clientInfo", true))
}

// metaShape returns the Shape of a _meta. client and info are the Shapes of a client's
// self-description; nil for the _meta of anything but a request.
func metaShape(path string, joined bool, client, info *Shape) *Shape {
	const prefix = "io.modelcontextprotocol/"
	const related = prefix + "related-task"
	return newShape(path, joined).has("progressToken").has(metaKeys...).
		holds(prefix+"clientCapabilities", client).holds(prefix+"clientInfo", info).
		holds(related, newShape(path+"."+related, joined).looksUp("taskId"))
}

func taskShape(path string, joined bool) *Shape {
	return newShape(path, joined).looksUp("taskId", "status").
		has("statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval")
}

func implementationShape(path string, joined bool) *Shape {
	return newShape(path, joined).looksUp("name", "version").has("title", "description", "icons", "websiteUrl")
}

// capabilitiesShape returns the Shape of the capabilities of clients and servers.
func capabilitiesShape(path string, joined bool) *Shape {
	within := func(name string, members ...string) *Shape {
		return newShape(path+"."+name, joined).has(members...)
	}
	return newShape(path, joined).has("logging", "completions", "experimental").
		holds("extensions", within("extensions")).
		holds("sampling", within("sampling", "tools", "context")).
		holds("elicitation", within("elicitation", "form", "url")).
		holds("roots", within("roots", "listChanged")).
		holds("tasks", within("tasks", "list", "cancel", "requests")).
		holds("tools", within("tools", "listChanged")).
		holds("prompts", within("prompts", "listChanged")).
		holds("resources", within("resources", "listChanged", "subscribe"))
}

// paramsShape returns the Shape of the params of every request and notification, because an unknown
// method may use the members of any known method.
func paramsShape() *Shape {
	within := func(name string) *Shape { return newShape("params."+name, true) }
	return newShape("params", true).
		looksUp("name", "taskId", "uri", "cursor", "level", "logger", "status", "elicitationId", "mode", "protocolVersion",
			"requestState").
		has("arguments", "progressToken", "requestId", "inputRequests", "reason", "progress", "total", "message", "data",
			"notifications", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval",
			"messages", "maxTokens", "systemPrompt", "tools", "toolChoice", "requestedSchema", "url").
		holds("inputResponses", within("inputResponses")).
		holds("_meta", requestMetaShape("params._meta")).
		holds("task", taskShape("params.task", true)).
		holds("ref", within("ref").looksUp("type", "name", "uri")).
		holds("argument", within("argument").has("name", "value")).
		holds("context", within("context").has("arguments")).
		holds("capabilities", capabilitiesShape("params.capabilities", true)).
		holds("clientInfo", implementationShape("params.clientInfo", true))
}

// resultShape returns the Shape of every result. The items of lists are checked separately
// (ItemShape, TaskShape): a refused item is left out of the list.
func resultShape() *Shape {
	return newShape("result", false).
		looksUp("nextCursor", "taskId", "status", "protocolVersion", "instructions", "resultType", "requestState").
		has("tools", "resources", "resourceTemplates", "prompts", "tasks", "content", "structuredContent", "isError",
			"ttlMs", "cacheScope", "supportedVersions").
		holds("inputRequests", newShape("result.inputRequests", false)).
		holds("_meta", metaShape("result._meta", false, nil, nil)).
		holds("task", taskShape("result.task", false)).
		holds("capabilities", capabilitiesShape("result.capabilities", false)).
		holds("serverInfo", implementationShape("result.serverInfo", false))
}

// messageShape is the Shape of every message. Its order is that of checker.parts.
var messageShape = newShape("", false).has("jsonrpc", "id", "method").
	holds("params", paramsShape()).
	holds("result", resultShape()).
	holds("error", newShape("error", false).has("code", "message", "data"))

// Shapes of objects with a check of their own, separate from the message.
var (
	// MetaShape is the Shape of the _meta of a request.
	MetaShape = requestMetaShape("_meta")
	// ItemShape is the Shape of an item of a list; see Surface.
	ItemShape = newShape("item", false).looksUp("name", "uri", "uriTemplate").
			has("title", "description", "inputSchema", "outputSchema", "annotations", "execution", "arguments", "mimeType", "icons").
			holds("_meta", metaShape("item._meta", false, nil, nil))
	// TaskShape is the Shape of a task in a list of tasks.
	TaskShape = taskShape("task", false)
	// ExtensionTaskShape is the Shape of a task of the extension, in a result or a notification,
	// with the outcome of the task.
	ExtensionTaskShape = newShape("task", false).looksUp("taskId", "status", "resultType").
				has("statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs").
				holds("inputRequests", newShape("task.inputRequests", false)).
				holds("result", resultShape()).
				holds("error", newShape("task.error", false).has("code", "message", "data"))
	// ElicitationShape is the Shape of an elicitation requested by an error.
	ElicitationShape = newShape("elicitation", false).looksUp("elicitationId", "mode", "url", "message")
)
