package re

import (
	"fmt"
	"math"
	"strings"
)

// Error describes a fault in a pattern.
type Error struct {
	Message  string
	Pattern  string
	Position int // in code points; -1 is none
}

func (e *Error) Error() string {
	if e.Position < 0 {
		return e.Message
	}
	text := fmt.Sprintf("%s at position %d", e.Message, e.Position)
	if line, column := e.Place(); strings.Contains(e.Pattern, "\n") {
		text += fmt.Sprintf(" (line %d, column %d)", line, column)
	}
	return text
}

// Place returns line and column of the error, counted from 1.
func (e *Error) Place() (line, column int) {
	before := []rune(e.Pattern)[:e.Position]
	line, column = 1, len(before)+1
	for i, r := range before {
		if r == '\n' {
			line++
			column = len(before) - i
		}
	}
	return line, column
}

// nodeKind is the kind of a node of the tree.
type nodeKind int

const (
	nodeEmpty nodeKind = iota
	nodeChar           // r, folded if fold
	nodeSet
	nodeAny         // all but \n
	nodeAll         // all
	nodeConcat      // subs
	nodeAlternate   // subs
	nodeRepeat      // subs[0], lo to hi times
	nodeGroup       // subs[0]; group is the number, 0 for (?:...)
	nodeBackref     // group
	nodeLook        // subs[0]; behind, negate
	nodeAtomic      // subs[0]
	nodeConditional // group, subs[0] and subs[1]
	nodeAssert      // assert
)

type node struct {
	kind           nodeKind
	r              rune
	set            *set
	subs           []*node
	lo, hi         int
	lazy           bool
	group          int
	behind, negate bool
	fold, ascii    bool
	assert         opcode
}

const (
	// unlimited is the upper limit of an unlimited repetition.
	unlimited = math.MaxInt32
	// maxGroups, maxNesting and maxPattern keep a pattern small.
	maxGroups  = 1000
	maxNesting = 100
	maxPattern = 1 << 16
)

// parser reads a pattern. Offsets are in code points.
type parser struct {
	pattern string
	text    []rune
	pos     int
	flags   Flags
	groups  int
	open    map[int]bool // groups not closed yet
	names   map[string]int
	widths  map[int][2]int // of closed groups, for lookbehind
	depth   int
	// pending are references in conditions to later groups.
	pending map[int]int
	// begun reports preceding items, which make flags for the whole pattern too late.
	begun bool
}

func newParser(pattern string, flags Flags) *parser {
	return &parser{pattern: pattern, text: []rune(pattern), flags: flags,
		open: map[int]bool{}, names: map[string]int{}, widths: map[int][2]int{}, pending: map[int]int{}}
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &Error{Message: fmt.Sprintf(format, args...), Pattern: p.pattern, Position: at}
}

func (p *parser) more() bool { return p.pos < len(p.text) }

// peek returns the character at an offset from the next character, 0 at the end.
func (p *parser) peek(n int) rune {
	if p.pos+n < len(p.text) {
		return p.text[p.pos+n]
	}
	return 0
}

func (p *parser) accept(r rune) bool {
	if p.more() && p.text[p.pos] == r {
		p.pos++
		return true
	}
	return false
}

// until returns the text up to a terminator and skips both.
func (p *parser) until(end rune, what string) (string, error) {
	start := p.pos
	for p.more() && p.text[p.pos] != end {
		p.pos++
	}
	if !p.more() {
		if p.pos == start {
			return "", p.fail(start, "missing %s", what)
		}
		return "", p.fail(start, "missing %c, unterminated name", end)
	}
	p.pos++
	if p.pos-1 == start {
		return "", p.fail(start, "missing %s", what)
	}
	return string(p.text[start : p.pos-1]), nil
}

// parse reads the whole pattern.
func (p *parser) parse() (*node, error) {
	if len(p.text) > maxPattern {
		return nil, p.fail(0, "the pattern is longer than %d characters", maxPattern)
	}
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if p.more() {
		return nil, p.fail(p.pos, "unbalanced parenthesis")
	}
	for group, at := range p.pending {
		if group > p.groups {
			return nil, p.fail(at, "invalid group reference %d", group)
		}
	}
	return n, nil
}

// alternatives reads a|b|c up to a closing parenthesis or the end.
func (p *parser) alternatives() (*node, error) {
	var branches []*node
	for {
		n, err := p.sequence()
		if err != nil {
			return nil, err
		}
		branches = append(branches, n)
		if !p.accept('|') {
			break
		}
		p.begun = true
	}
	if len(branches) == 1 {
		return branches[0], nil
	}
	return &node{kind: nodeAlternate, subs: branches}, nil
}

func (p *parser) sequence() (*node, error) {
	seq := &node{kind: nodeConcat}
	for p.more() {
		if p.flags&Verbose != 0 && p.skipVerbose() {
			continue
		}
		switch p.peek(0) {
		case '|', ')':
			return seq, nil
		case '*', '+', '?':
			if err := p.repeat(seq); err != nil {
				return nil, err
			}
			continue
		case '{':
			if p.isCount() {
				if err := p.repeat(seq); err != nil {
					return nil, err
				}
				continue
			}
		}
		n, err := p.atom()
		if err != nil {
			return nil, err
		}
		if n != nil {
			seq.subs = append(seq.subs, n)
			p.begun = true
		}
	}
	return seq, nil
}

// skipVerbose skips white space or a comment.
func (p *parser) skipVerbose() bool {
	r := p.peek(0)
	if r == '#' {
		for p.more() && !p.accept('\n') {
			p.pos++
		}
		return true
	}
	if r == ' ' || '\t' <= r && r <= '\r' {
		p.pos++
		return true
	}
	return false
}

// isCount reports whether a repetition in braces follows, {2} {2,} {,3} {2,3}.
func (p *parser) isCount() bool {
	i, digits := 1, 0
	for isDigit(p.peek(i)) {
		i++
		digits++
	}
	if p.peek(i) == ',' {
		i++
		for isDigit(p.peek(i)) {
			i++
		}
		return p.peek(i) == '}' && p.peek(1) != '}'
	}
	return digits > 0 && p.peek(i) == '}'
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

// repeat makes the last node of a sequence a repetition.
func (p *parser) repeat(seq *node) error {
	start := p.pos
	lo, hi := 0, unlimited
	switch r := p.text[p.pos]; r {
	case '{':
		var err error
		if lo, hi, err = p.count(); err != nil {
			return err
		}
	default:
		p.pos++
		if r == '+' {
			lo = 1
		}
		if r == '?' {
			hi = 1
		}
	}
	if len(seq.subs) == 0 {
		return p.fail(start, "nothing to repeat")
	}
	last := &seq.subs[len(seq.subs)-1]
	switch item := *last; {
	case item.kind == nodeAssert:
		return p.fail(start, "nothing to repeat")
	case item.kind == nodeRepeat || item.kind == nodeAtomic && item.lo > 0:
		return p.fail(start, "multiple repeat")
	}
	n := &node{kind: nodeRepeat, subs: []*node{*last}, lo: lo, hi: hi}
	switch {
	case p.accept('?'):
		n.lazy = true
	case p.accept('+'):
		n = &node{kind: nodeAtomic, subs: []*node{n}, lo: 1} // lo: the node cannot be repeated
	}
	*last = n
	return nil
}

// count reads {lo,hi}.
func (p *parser) count() (lo, hi int, err error) {
	start := p.pos
	p.pos++
	lo, given := p.number()
	hi = lo
	if p.accept(',') {
		if !given {
			lo = 0
		}
		if hi, given = p.number(); !given {
			hi = unlimited
		}
	}
	p.pos++
	if hi < lo {
		return 0, 0, p.fail(start, "min repeat greater than max repeat")
	}
	return lo, hi, nil
}

// number reads digits. A number larger than any text is made smaller.
func (p *parser) number() (n int, given bool) {
	for isDigit(p.peek(0)) {
		n = min(n*10+int(p.peek(0)-'0'), unlimited/20)
		p.pos++
		given = true
	}
	return n, given
}

// atom reads an item of a sequence; nil for a comment.
func (p *parser) atom() (*node, error) {
	r := p.text[p.pos]
	switch r {
	case '.':
		p.pos++
		if p.flags&DotAll != 0 {
			return &node{kind: nodeAll}, nil
		}
		return &node{kind: nodeAny}, nil
	case '^':
		p.pos++
		if p.flags&MultiLine != 0 {
			return &node{kind: nodeAssert, assert: opLineStart}, nil
		}
		return &node{kind: nodeAssert, assert: opTextStart}, nil
	case '$':
		p.pos++
		if p.flags&MultiLine != 0 {
			return &node{kind: nodeAssert, assert: opLineEnd}, nil
		}
		return &node{kind: nodeAssert, assert: opLastEnd}, nil
	case '(':
		return p.group()
	case '[':
		return p.bracket()
	case '\\':
		return p.escape()
	}
	p.pos++
	return p.char(r), nil
}

func (p *parser) isASCII() bool { return p.flags&ASCII != 0 }

// char is the node of a character.
func (p *parser) char(r rune) *node {
	n := &node{kind: nodeChar, r: r}
	if p.flags&IgnoreCase != 0 && nextCase(r, p.isASCII()) != r {
		n.fold, n.ascii = true, p.isASCII()
		n.r = folded(r, n.ascii)
	}
	return n
}

func (p *parser) category(kind byte, negate bool) *node {
	s := &set{categories: []category{{kind: kind, negate: negate, ascii: p.isASCII()}}}
	return &node{kind: nodeSet, set: s.ready()}
}
