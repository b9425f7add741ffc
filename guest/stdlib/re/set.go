package re

import (
	"unicode"
	"unicode/utf8"
)

// category is a class \d, \s or \w.
type category struct {
	kind   byte // 'd', 's' or 'w'
	negate bool
	ascii  bool
}

func (c category) has(r rune) bool {
	in := false
	switch c.kind {
	case 'd':
		in = '0' <= r && r <= '9' || !c.ascii && r >= utf8.RuneSelf && unicode.IsDigit(r)
	case 's':
		in = isSpace(r, c.ascii)
	case 'w':
		in = isWord(r, c.ascii)
	}
	return in != c.negate
}

func isSpace(r rune, ascii bool) bool {
	switch {
	case r == ' ', '\t' <= r && r <= '\r':
		return true
	case ascii:
		return false
	case r < utf8.RuneSelf:
		return 0x1c <= r && r <= 0x1f
	}
	return r == 0x85 || unicode.Is(unicode.Z, r)
}

func isWord(r rune, ascii bool) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
	}
	return !ascii && (unicode.IsLetter(r) || unicode.Is(unicode.N, r))
}

// A set is a set of characters.
type set struct {
	ranges     []rune // pairs, both ends inclusive
	categories []category
	negate     bool
	fold       bool // also has the other cases of characters
	asciiCase  bool // and is ASCII
	// low has the characters below 128, once the set is ready.
	low [2]uint64
}

func (s *set) addRange(lo, hi rune) { s.ranges = append(s.ranges, lo, hi) }

// ready computes low. The set must not change afterwards.
func (s *set) ready() *set {
	for r := range rune(utf8.RuneSelf) {
		if s.compute(r) {
			s.low[r>>6] |= 1 << (r & 63)
		}
	}
	return s
}

func (s *set) has(r rune) bool {
	if r < utf8.RuneSelf {
		return s.low[r>>6]&(1<<(r&63)) != 0
	}
	return s.compute(r)
}

func (s *set) compute(r rune) bool {
	in := s.contains(r)
	if !in && s.fold {
		for o := nextCase(r, s.asciiCase); o != r && !in; o = nextCase(o, s.asciiCase) {
			in = s.contains(o)
		}
	}
	return in != s.negate
}

func (s *set) contains(r rune) bool {
	for i := 0; i < len(s.ranges); i += 2 {
		if s.ranges[i] <= r && r <= s.ranges[i+1] {
			return true
		}
	}
	for _, c := range s.categories {
		if c.has(r) {
			return true
		}
	}
	return false
}

// nextCase goes round the characters different only in case.
func nextCase(r rune, ascii bool) rune {
	if r < utf8.RuneSelf {
		// Only k and s have relatives outside ASCII, and i in Python.
		switch lower := r | 0x20; {
		case lower < 'a' || lower > 'z':
			return r
		case ascii || lower != 'k' && lower != 's' && lower != 'i':
			return r ^ 0x20
		case lower == 'i':
			return nextI(r)
		}
	}
	if ascii {
		return r
	}
	if r == 0x130 || r == 0x131 {
		return nextI(r)
	}
	return unicode.SimpleFold(r)
}

// nextI goes round I, i and Turkish İ and ı, which Python takes for the same.
func nextI(r rune) rune {
	switch r {
	case 'I':
		return 'i'
	case 'i':
		return 0x130
	case 0x130:
		return 0x131
	}
	return 'I'
}

// folded returns the least of the characters different only in case from r.
func folded(r rune, ascii bool) rune {
	least := r
	for o := nextCase(r, ascii); o != r; o = nextCase(o, ascii) {
		least = min(least, o)
	}
	return least
}

// simple are escapes for a single character in patterns and templates.
func simple(r rune) (rune, bool) {
	switch r {
	case 'a':
		return '\a', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'v':
		return '\v', true
	}
	return 0, false
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

func isOctal(r rune) bool { return '0' <= r && r <= '7' }

// escape reads an escape outside of a set.
func (p *parser) escape() (*node, error) {
	start := p.pos
	p.pos++
	if !p.more() {
		return nil, p.fail(start, "bad escape (end of pattern)")
	}
	r := p.text[p.pos]
	switch r {
	case 'd', 's', 'w', 'D', 'S', 'W':
		p.pos++
		return p.category(byte(r|0x20), r < 'a'), nil
	case 'A', 'Z', 'b', 'B':
		p.pos++
		n := &node{kind: nodeAssert, ascii: p.isASCII()}
		switch r {
		case 'A':
			n.assert = opTextStart
		case 'Z':
			n.assert = opTextEnd
		case 'b':
			n.assert = opWord
		case 'B':
			n.assert = opNotWord
		}
		return n, nil
	}
	if isDigit(r) && r != '0' {
		return p.digits(start)
	}
	c, err := p.escapedChar(start)
	if err != nil {
		return nil, err
	}
	return p.char(c), nil
}

// digits reads a reference to a group, or three octal digits.
func (p *parser) digits(start int) (*node, error) {
	number := int(p.text[p.pos] - '0')
	p.pos++
	if isDigit(p.peek(0)) {
		if isOctal(rune('0'+number)) && isOctal(p.peek(0)) && isOctal(p.peek(1)) {
			c := rune(number)*64 + (p.peek(0)-'0')*8 + p.peek(1) - '0'
			p.pos += 2
			if c > 0o377 {
				return nil, p.fail(start, "octal escape value \\%o outside of range 0-0o377", c)
			}
			return p.char(c), nil
		}
		number = number*10 + int(p.peek(0)-'0')
		p.pos++
	}
	return p.backref(start+1, number)
}

// escapedChar reads an escape for a single character, after the backslash.
func (p *parser) escapedChar(start int) (rune, error) {
	r := p.text[p.pos]
	p.pos++
	if c, ok := simple(r); ok {
		return c, nil
	}
	switch r {
	case 'x':
		return p.hex(start, 2)
	case 'u':
		return p.hex(start, 4)
	case 'U':
		return p.hex(start, 8)
	}
	if isOctal(r) {
		c := r - '0'
		for n := 1; n < 3 && isOctal(p.peek(0)); n++ {
			c = c*8 + p.peek(0) - '0'
			p.pos++
		}
		if c > 0o377 {
			return 0, p.fail(start, "octal escape value \\%o outside of range 0-0o377", c)
		}
		return c, nil
	}
	if isLetter(r) || isDigit(r) {
		return 0, p.fail(start, "bad escape \\%c", r)
	}
	return r, nil
}

// hex reads a number of hexadecimal digits.
func (p *parser) hex(start, digits int) (rune, error) {
	value := int64(0)
	for range digits {
		d, ok := hexDigit(p.peek(0))
		if !ok {
			return 0, p.fail(start, "incomplete escape %s", string(p.text[start:p.pos]))
		}
		value = value*16 + d
		p.pos++
	}
	if value > utf8.MaxRune {
		return 0, p.fail(start, "bad escape %s", string(p.text[start:p.pos]))
	}
	return rune(value), nil
}

func hexDigit(r rune) (int64, bool) {
	switch {
	case isDigit(r):
		return int64(r - '0'), true
	case 'a' <= r && r <= 'f':
		return int64(r-'a') + 10, true
	case 'A' <= r && r <= 'F':
		return int64(r-'A') + 10, true
	}
	return 0, false
}

// bracket reads a set.
func (p *parser) bracket() (*node, error) {
	start := p.pos
	p.pos++
	s := &set{negate: p.accept('^')}
	for first := true; ; first = false {
		if !p.more() {
			return nil, p.fail(start, "unterminated character set")
		}
		at := p.pos
		if p.text[at] == ']' && !first {
			p.pos++
			break
		}
		lo, class, err := p.setItem()
		if err != nil {
			return nil, err
		}
		if p.peek(0) != '-' || !p.more() || p.pos+1 >= len(p.text) || p.text[p.pos+1] == ']' {
			s.add(lo, lo, class)
			continue
		}
		p.pos++
		hi, hiClass, err := p.setItem()
		if err != nil {
			return nil, err
		}
		if class != nil || hiClass != nil || hi < lo {
			return nil, p.fail(at, "bad character range %s", string(p.text[at:p.pos]))
		}
		s.addRange(lo, hi)
	}
	if p.flags&IgnoreCase != 0 {
		s.fold, s.asciiCase = true, p.isASCII()
	}
	if len(s.ranges) == 2 && s.ranges[0] == s.ranges[1] && !s.negate && len(s.categories) == 0 {
		return p.char(s.ranges[0]), nil
	}
	return &node{kind: nodeSet, set: s.ready()}, nil
}

func (s *set) add(lo, hi rune, class *category) {
	if class != nil {
		s.categories = append(s.categories, *class)
		return
	}
	s.addRange(lo, hi)
}

// setItem reads a character of a set, or a category.
func (p *parser) setItem() (rune, *category, error) {
	start := p.pos
	r := p.text[p.pos]
	p.pos++
	if r != '\\' {
		return r, nil, nil
	}
	if !p.more() {
		return 0, nil, p.fail(start, "bad escape (end of pattern)")
	}
	switch r = p.text[p.pos]; r {
	case 'd', 's', 'w', 'D', 'S', 'W':
		p.pos++
		return 0, &category{kind: byte(r | 0x20), negate: r < 'a', ascii: p.isASCII()}, nil
	case 'b':
		p.pos++
		return '\b', nil, nil
	}
	c, err := p.escapedChar(start)
	return c, nil, err
}
