package wire

import (
	"bytes"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrAmbiguous says that readers of an object differ in what it says.
var ErrAmbiguous = errors.New("ambiguous JSON")

// Check tells whether the members of obj that are acted on are what they seem,
// to every reader. The error wraps ErrAmbiguous, or says that obj is no object.
func (s *Shape) Check(obj []byte) error {
	i := space(obj, 0)
	if i == len(obj) || obj[i] != '{' {
		return errNotObject
	}
	var c checker
	end, f := c.object(obj, i, 0, s)
	switch {
	case f != sound:
		return syntax(obj, end, f)
	case c.found.kind != unambiguous:
		return fmt.Errorf("%w: %s", ErrAmbiguous, c.found.text())
	}
	return nothing(obj, end)
}

// checker looks for what is ambiguous while it finds the end of an object.
type checker struct {
	found ambiguity // the first
	parts [6][]byte // the values of the members of a message, in the order of its Shape
}

// ambiguity is what is wrong with a member.
type ambiguity struct {
	kind  ambiguityKind
	shape *Shape
	name  []byte // quoted, aliases the message
	means string // the name that it resembles
}

type ambiguityKind uint8

const (
	unambiguous ambiguityKind = iota
	resembling                // another name
	repeated
	unpaired  // half a surrogate pair in a name
	unpairedV // or in a value that is looked up
	inherited // __proto__
)

func (a *ambiguity) text() string {
	where := "the message"
	if a.shape.path != "" {
		where = a.shape.path
	}
	name := clip(a.name)
	switch a.kind {
	case resembling:
		return fmt.Sprintf("member %s of %s is taken for %q by some readers (write %q, or leave it out)", name, where, a.means, a.means)
	case repeated:
		return fmt.Sprintf("member %s appears twice in %s", name, where)
	case unpaired:
		return fmt.Sprintf("the name %s of a member of %s has half a surrogate pair", name, where)
	case unpairedV:
		return fmt.Sprintf("the value of member %s of %s has half a surrogate pair", name, where)
	}
	return fmt.Sprintf("member %s of %s is not allowed: some readers take its members for those of %s", name, where, where)
}

// note keeps the first ambiguity.
func (c *checker) note(kind ambiguityKind, s *Shape, name []byte, means string) {
	if c.found.kind == unambiguous {
		c.found = ambiguity{kind, s, name, means}
	}
}

// message reads a message into c.parts. The error is an *RPCError.
func (c *checker) message(raw []byte) error {
	i := space(raw, 0)
	object := i < len(raw) && raw[i] == '{'
	var f fault
	if object {
		i, f = c.object(raw, i, 0, message)
	} else {
		i, f = scanValue(raw, i, 0)
	}
	var err error
	if f != sound {
		err = syntax(raw, i, f)
	} else {
		err = nothing(raw, i)
	}
	switch {
	case err != nil:
		return Errorf(CodeParse, "parse error: %v", err)
	case !object:
		return Errorf(CodeInvalidRequest, "invalid request: a message is a JSON object")
	}
	return nil
}

// object is scanObject of an object with a Shape.
func (c *checker) object(raw []byte, i, depth int, s *Shape) (end int, f fault) {
	if depth >= maxDepth {
		return i, tooDeep
	}
	if i = space(raw, i+1); i < len(raw) && raw[i] == '}' {
		return i + 1, sound
	}
	var seen names
	for {
		at := i
		if i, f = scanString(raw, i); f != sound {
			return i, f
		}
		name := raw[at:i]
		if i, f = scanColon(raw, i); f != sound {
			return i, f
		}
		if i, f = c.member(raw, name, i, depth+1, s, &seen); f != sound {
			return i, f
		}
		i = space(raw, i)
		switch {
		case i >= len(raw):
			return i, unexpected
		case raw[i] == '}':
			return i + 1, sound
		case raw[i] != ',':
			return i, unexpected
		}
		i = space(raw, i+1)
	}
}

// member is scanValue of the value of a member, whose name is checked. depth is
// that of the value.
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
	case f != sound:
	case s == message:
		c.parts[m.index] = raw[i:end]
	case m.text && halved(raw[i:end]):
		c.note(unpairedV, s, name, "")
	}
	return end, f
}

// name checks the name of a member, which is quoted. It returns the member that
// is acted on, if it is one.
func (c *checker) name(quoted []byte, s *Shape, seen *names) *acted {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		if halved(quoted) {
			c.note(unpaired, s, quoted, "")
		}
		name, _ = jsontext.AppendUnquote(nil, quoted)
	}
	if len(name) < len(s.byName) {
		for _, m := range s.byName[len(name)] {
			if string(name) == m.name {
				if seen.acted&(1<<m.index) != 0 {
					c.note(repeated, s, quoted, "")
				}
				seen.acted |= 1 << m.index
				return m
			}
		}
	}
	if m := s.resembled(name); m != nil {
		c.note(resembling, s, quoted, m.name)
	}
	if string(name) == "__proto__" { // where JavaScript copies members by assignment
		c.note(inherited, s, quoted, "")
	}
	if !seen.add(name) {
		c.note(repeated, s, quoted, "")
	}
	return nil
}

// maxFolded is the length of the longest name that a Shape can have, folded.
const maxFolded = 63

// resembled is the member acted on that some readers take name for.
func (s *Shape) resembled(name []byte) *acted {
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

// ligatures are the characters whose full folding, as Python's casefold has it,
// is several letters of ASCII.
var ligatures = map[rune]string{
	'ß': "ss", 'ẞ': "ss", 'ﬀ': "ff", 'ﬁ': "fi", 'ﬂ': "fl", 'ﬃ': "ffi", 'ﬄ': "ffl", 'ﬅ': "st", 'ﬆ': "st",
}

// fold appends name as readers compare it that do not mind the case: in Unicode's
// folding, the simple one of encoding/json and the full one where it gives ASCII,
// with the Turkish letters i of Java; without separators if those shall not count;
// and no further than to a NUL, where a string of C ends, or to where it is longer
// than maxFolded.
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

// foldRune is the least of the characters that r is folded with, in lower case
// where that is ASCII.
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

// halved tells whether a JSON string has half a surrogate pair.
func halved(quoted []byte) bool {
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

// hex4 is the number of four hexadecimal digits; -1 where there are none.
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

// fewNames is how many names of an object are compared one by one.
const fewNames = 8

// names are those of the members of an object.
type names struct {
	acted uint64 // a bit for each that is acted on
	n     int    // of the others
	few   [fewNames][]byte
	many  map[string]bool // all others, where there are more
}

// add adds a name; false if it is there.
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
