// Package re has regular expressions as Python's re module: the same syntax and the same matches.
// Begin with [Pattern] and [Searcher].
//
// Go's engine has neither lookaround nor references to groups, and goes by ASCII where Python goes
// by Unicode; RATIONALE.md compares other engines. Matching backtracks, as in Python, so a bad
// pattern can take exponential time. Such a pattern uses up the fuel of the run, and nothing else:
// the state is on a stack of bounded size, not on Go's.
package re

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Flags of a pattern, with Python's values.
type Flags int

// The flags.
const (
	IgnoreCase Flags = 2
	Locale     Flags = 4
	MultiLine  Flags = 8
	DotAll     Flags = 16
	Unicode    Flags = 32
	Verbose    Flags = 64
	Debug      Flags = 128
	ASCII      Flags = 256
)

// Pattern is a compiled pattern. A Pattern does not change, so patterns can be shared.
type Pattern struct {
	Text   string
	Flags  Flags
	Groups int            // without group 0
	Names  []string       // by number; "" for groups without a name
	Index  map[string]int // from names to numbers

	code     []inst
	sets     []*set
	literals []string
	loops    int // number of counters

	// The beginning of every match, to skip impossible beginnings.
	prefix   string
	first    *set
	anchored bool
}

// ErrLimit is returned by a search in need of more memory or steps than allowed.
var ErrLimit = errors.New("re: the search needs too much memory: the pattern matches the same text in too many ways")

// Match has the offsets of the groups in bytes: group i has 2*i and 2*i+1, -1 for a group without a
// match.
type Match struct {
	Spans     []int
	LastIndex int // the group closed last; 0 is none
}

// How a match must lie.
type mode int

const (
	anywhere mode = iota
	atStart       // begins where the search begins
	whole         // and ends where the text ends
)

// A Searcher looks for matches of a pattern in a text.
type Searcher struct {
	m machine
}

// NewSearcher returns a Searcher. steps is a limit on the work of all searches, 0 for none.
func NewSearcher(p *Pattern, text string, steps int) *Searcher {
	return &Searcher{machine{p: p, text: text, limit: steps}}
}

// Search returns the first match at from or later.
func (s *Searcher) Search(from int) (*Match, error) { return s.find(from, anywhere, false) }

// MatchAt returns the match at from.
func (s *Searcher) MatchAt(from int) (*Match, error) { return s.find(from, atStart, false) }

// FullMatch returns the match of all text after from.
func (s *Searcher) FullMatch(from int) (*Match, error) { return s.find(from, whole, false) }

// All calls yield for each match at from or later, until yield returns false or an error. As in
// Python, an empty match can follow another match, but not an empty match at the same place.
func (s *Searcher) All(from int, yield func(*Match) (bool, error)) error {
	advance := false
	for {
		found, err := s.find(from, anywhere, advance)
		if err != nil || found == nil {
			return err
		}
		more, err := yield(found)
		if err != nil || !more {
			return err
		}
		from = found.Spans[1]
		advance = found.Spans[0] == found.Spans[1]
	}
}

// Next is a step of All, for iterators: it returns the match after the last match.
func (s *Searcher) Next(last *Match, from int) (*Match, error) {
	if last == nil {
		return s.find(from, anywhere, false)
	}
	return s.find(last.Spans[1], anywhere, last.Spans[0] == last.Spans[1])
}

// find looks for a match. With advance, the match is not empty at from.
func (s *Searcher) find(from int, how mode, advance bool) (*Match, error) {
	m := &s.m
	for at := from; ; {
		if how == anywhere {
			var ok bool
			if at, ok = m.p.skip(m.text, at); !ok {
				return nil, nil
			}
		}
		found, err := m.match(at, how == whole, advance && at == from)
		if found != nil || err != nil {
			return found, err
		}
		if how != anywhere || at >= len(m.text) || m.p.anchored {
			return nil, nil
		}
		at += width(m.text, at)
	}
}

// skip returns the first offset, at or later, at which a match could begin.
func (p *Pattern) skip(text string, at int) (int, bool) {
	switch {
	case p.prefix != "":
		n := strings.Index(text[at:], p.prefix)
		return at + n, n >= 0
	case p.first != nil:
		for at < len(text) {
			r, n := decode(text, at)
			if p.first.has(r) {
				return at, true
			}
			at += n
		}
		return at, false
	}
	return at, true
}

func width(text string, at int) int {
	if text[at] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(text[at:])
	return n
}

func decode(text string, at int) (rune, int) {
	if c := text[at]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(text[at:])
}

// Escape returns the pattern for a literal text.
func Escape(text string) string {
	const special = "()[]{}?*+-|^$\\.&~# \t\n\r\v\f"
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(special, text[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
