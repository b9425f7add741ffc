package wire

import (
	"bytes"
	"errors"
	"fmt"
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
