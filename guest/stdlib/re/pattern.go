// Package re has regular expressions as Python's re module: the same syntax and
// the same matches.
//
//	pattern.go  compiled patterns, and searching
//	parse.go    from the text of a pattern to a tree; parsegroup.go: its groups,
//	            parseset.go: escapes and sets
//	set.go      sets of characters
//	program.go  from a tree to instructions
//	machine.go  running instructions
//	template.go the replacement texts of sub and expand
//	module.go   the module of scripts; values.go: patterns and matches in scripts
//
// It is an engine of its own, because Go's has neither lookaround nor references to
// groups, and goes by ASCII where Python goes by Unicode. Matching backtracks, as in
// Python, so a bad pattern can take exponential time. It uses up the fuel of its run
// then, and nothing else: the state is on a stack of bounded size, not on Go's.
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

// Pattern is a compiled pattern. It does not change, so it can be shared.
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

	// What every match begins with, to skip what cannot be a beginning.
	prefix   string
	first    *set
	anchored bool
}

// ErrLimit is returned by a search that needs more memory or steps than it may.
var ErrLimit = errors.New("re: the search needs too much memory: the pattern matches the same text in too many ways")

// Match has the offsets of the groups in bytes: those of group i are at 2*i and
// 2*i+1, -1 for a group without a match.
type Match struct {
	Spans     []int
	LastIndex int // the group that was closed last; 0 is none
}

// How a match must lie.
type mode int

const (
	anywhere mode = iota
	atStart       // begins where the search begins
	whole         // and ends where the text ends
)

// A Searcher looks for matches of a pattern in one text.
type Searcher struct {
	m machine
}

// NewSearcher returns a Searcher. steps is a limit on the work of all its searches, 0
// for none.
func NewSearcher(p *Pattern, text string, steps int) *Searcher {
	return &Searcher{machine{p: p, text: text, limit: steps}}
}

// Search returns the first match that begins at from or later.
func (s *Searcher) Search(from int) (*Match, error) { return s.find(from, anywhere, false) }

// MatchAt returns the match that begins at from.
func (s *Searcher) MatchAt(from int) (*Match, error) { return s.find(from, atStart, false) }

// FullMatch returns the match of all text after from.
func (s *Searcher) FullMatch(from int) (*Match, error) { return s.find(from, whole, false) }

// All calls yield for each match that begins at from or later, until it returns
// false or an error. As in Python, an empty match can follow another match, but not
// an empty one at the same place.
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

// Next is one step of All, for iterators: it returns the match after the last one.
func (s *Searcher) Next(last *Match, from int) (*Match, error) {
	if last == nil {
		return s.find(from, anywhere, false)
	}
	return s.find(last.Spans[1], anywhere, last.Spans[0] == last.Spans[1])
}

// find looks for a match. With advance, it is not empty at from.
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

// Escape returns the pattern that matches a text and nothing else.
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
