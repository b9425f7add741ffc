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
