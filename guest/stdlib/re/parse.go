package re

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
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

// group reads a parenthesis; nil is a comment, or flags for the whole pattern.
func (p *parser) group() (*node, error) {
	start := p.pos
	if p.depth++; p.depth > maxNesting {
		return nil, p.fail(start, "groups are nested deeper than %d", maxNesting)
	}
	defer func() { p.depth-- }()
	p.pos++
	if !p.accept('?') {
		return p.capture(start, "")
	}
	if !p.more() {
		return nil, p.fail(p.pos, "unexpected end of pattern")
	}
	r := p.text[p.pos]
	p.pos++
	switch r {
	case 'P':
		return p.named(start)
	case ':':
		return p.rest(start, &node{kind: nodeGroup})
	case '#':
		for !p.accept(')') {
			if !p.more() {
				return nil, p.fail(start, "missing ), unterminated comment")
			}
			p.pos++
		}
		return nil, nil
	case '=', '!':
		return p.rest(start, &node{kind: nodeLook, negate: r == '!'})
	case '<':
		return p.lookBehind(start)
	case '>':
		return p.rest(start, &node{kind: nodeAtomic})
	case '(':
		return p.condition(start)
	}
	if flagOf(r) != 0 || r == '-' {
		p.pos--
		return p.inlineFlags(start)
	}
	return nil, p.fail(start+1, "unknown extension ?%c", r)
}

// rest reads the content and the parenthesis of a group.
func (p *parser) rest(start int, n *node) (*node, error) {
	sub, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if !p.accept(')') {
		return nil, p.fail(start, "missing ), unterminated subpattern")
	}
	n.subs = append(n.subs, sub)
	return n, nil
}

func (p *parser) capture(start int, name string) (*node, error) {
	p.groups++
	number := p.groups
	if number > maxGroups {
		return nil, p.fail(start, "more than %d groups", maxGroups)
	}
	if name != "" {
		if first, ok := p.names[name]; ok {
			return nil, p.fail(start+4, "redefinition of group name '%s' as group %d; was group %d", name, number, first)
		}
		p.names[name] = number
	}
	p.open[number] = true
	n, err := p.rest(start, &node{kind: nodeGroup, group: number})
	if err != nil {
		return nil, err
	}
	delete(p.open, number)
	lo, hi := p.widthOf(n.subs[0])
	p.widths[number] = [2]int{lo, hi}
	return n, nil
}

// named reads (?P<name>...) and (?P=name); the P is read.
func (p *parser) named(start int) (*node, error) {
	switch {
	case p.accept('<'):
		at := p.pos
		name, err := p.until('>', "group name")
		if err != nil {
			return nil, err
		}
		if !isName(name) {
			return nil, p.fail(at, "bad character in group name '%s'", name)
		}
		return p.capture(start, name)
	case p.accept('='):
		at := p.pos
		name, err := p.until(')', "group name")
		if err != nil {
			return nil, err
		}
		if !isName(name) {
			return nil, p.fail(at, "bad character in group name '%s'", name)
		}
		number, ok := p.names[name]
		if !ok {
			return nil, p.fail(at, "unknown group name '%s'", name)
		}
		return p.backref(at, number)
	case !p.more():
		return nil, p.fail(p.pos, "unexpected end of pattern")
	}
	return nil, p.fail(start+1, "unknown extension ?P%c", p.text[p.pos])
}

func isName(s string) bool {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc)) {
			return false
		}
	}
	return s != ""
}

// backref is a reference to a group by number.
func (p *parser) backref(at, number int) (*node, error) {
	switch {
	case p.open[number]:
		return nil, p.fail(at, "cannot refer to an open group")
	case number > p.groups:
		return nil, p.fail(at, "invalid group reference %d", number)
	}
	n := &node{kind: nodeBackref, group: number}
	if p.flags&IgnoreCase != 0 {
		n.fold, n.ascii = true, p.isASCII()
	}
	return n, nil
}

// lookBehind reads (?<=...) and (?<!...).
func (p *parser) lookBehind(start int) (*node, error) {
	n := &node{kind: nodeLook, behind: true}
	switch {
	case p.accept('='):
	case p.accept('!'):
		n.negate = true
	case !p.more():
		return nil, p.fail(p.pos, "unexpected end of pattern")
	default:
		return nil, p.fail(start+1, "unknown extension ?<%c", p.text[p.pos])
	}
	n, err := p.rest(start, n)
	if err != nil {
		return nil, err
	}
	lo, hi := p.widthOf(n.subs[0])
	if lo != hi {
		return nil, &Error{Message: "look-behind requires fixed-width pattern", Pattern: p.pattern, Position: -1}
	}
	n.lo = lo
	return n, nil
}

// condition reads (?(group)yes|no).
func (p *parser) condition(start int) (*node, error) {
	at := p.pos
	name, err := p.until(')', "group name")
	if err != nil {
		return nil, err
	}
	number, known := p.names[name]
	if isName(name) {
		if !known {
			return nil, p.fail(at, "unknown group name '%s'", name)
		}
	} else {
		if number, err = strconv.Atoi(name); err != nil || number < 0 {
			return nil, p.fail(at, "bad character in group name '%s'", name)
		}
		if number == 0 {
			return nil, p.fail(at, "bad group number")
		}
		if number >= maxGroups {
			return nil, p.fail(at, "invalid group reference %d", number)
		}
		if _, seen := p.pending[number]; !seen {
			p.pending[number] = at
		}
	}
	n := &node{kind: nodeConditional, group: number}
	yes, err := p.sequence()
	if err != nil {
		return nil, err
	}
	no := &node{kind: nodeEmpty}
	if p.accept('|') {
		if no, err = p.sequence(); err != nil {
			return nil, err
		}
		if p.peek(0) == '|' {
			return nil, p.fail(p.pos, "conditional backref with more than two branches")
		}
	}
	if !p.accept(')') {
		return nil, p.fail(start, "missing ), unterminated subpattern")
	}
	n.subs = []*node{yes, no}
	return n, nil
}

// flagOf returns the flag of a letter.
func flagOf(r rune) Flags {
	switch r {
	case 'a':
		return ASCII
	case 'i':
		return IgnoreCase
	case 'L':
		return Locale
	case 'm':
		return MultiLine
	case 's':
		return DotAll
	case 'u':
		return Unicode
	case 'x':
		return Verbose
	}
	return 0
}

// inlineFlags reads (?i), (?i:...) and (?i-s:...).
func (p *parser) inlineFlags(start int) (*node, error) {
	var on, off Flags
	target := &on
	for ; ; p.pos++ {
		r := p.peek(0)
		if f := flagOf(r); f != 0 {
			if f == Locale {
				return nil, p.fail(p.pos, "bad inline flags: cannot use 'L' flag with a str pattern")
			}
			if target == &off && f&(ASCII|Unicode) != 0 {
				return nil, p.fail(p.pos, "bad inline flags: cannot turn off flags 'a', 'u' and 'L'")
			}
			*target |= f
			continue
		}
		if r == '-' && target == &on {
			target = &off
			continue
		}
		break
	}
	if on&ASCII != 0 && on&Unicode != 0 {
		return nil, p.fail(p.pos, "bad inline flags: flags 'a', 'u' and 'L' are incompatible")
	}
	switch {
	case !p.more():
		return nil, p.fail(p.pos, "missing -, : or )")
	case p.accept(')'):
		if target == &off {
			p.pos--
			return nil, p.fail(p.pos, "missing :")
		}
		if p.begun || p.depth > 1 {
			return nil, p.fail(start, "global flags not at the start of the expression")
		}
		p.flags |= on
		return nil, nil
	case !p.accept(':'):
		if flagLetter := p.peek(0); unicode.IsLetter(flagLetter) {
			return nil, p.fail(p.pos, "unknown flag")
		}
		return nil, p.fail(p.pos, "missing -, : or )")
	case on&off != 0:
		return nil, p.fail(p.pos-1, "bad inline flags: flag turned on and off")
	case target == &off && off == 0:
		return nil, p.fail(p.pos-1, "missing flag")
	}
	outer := p.flags
	if on&ASCII != 0 {
		p.flags &^= Unicode
	}
	if on&Unicode != 0 {
		p.flags &^= ASCII
	}
	p.flags = p.flags&^off | on
	n, err := p.rest(start, &node{kind: nodeGroup})
	p.flags = outer
	return n, err
}

// widthOf returns the least and the largest number of characters matched by a node.
func (p *parser) widthOf(n *node) (lo, hi int) {
	switch n.kind {
	case nodeChar, nodeSet, nodeAny, nodeAll:
		return 1, 1
	case nodeConcat:
		for _, s := range n.subs {
			l, h := p.widthOf(s)
			lo, hi = min(lo+l, unlimited), min(hi+h, unlimited)
		}
	case nodeAlternate, nodeConditional:
		lo = unlimited
		for _, s := range n.subs {
			l, h := p.widthOf(s)
			lo, hi = min(lo, l), max(hi, h)
		}
	case nodeRepeat:
		l, h := p.widthOf(n.subs[0])
		lo, hi = product(l, n.lo), product(h, n.hi)
	case nodeGroup:
		if n.group > 0 {
			if w, ok := p.widths[n.group]; ok {
				return w[0], w[1]
			}
		}
		return p.widthOf(n.subs[0])
	case nodeAtomic:
		return p.widthOf(n.subs[0])
	case nodeBackref:
		w := p.widths[n.group]
		return w[0], w[1]
	}
	return lo, hi
}

func product(a, b int) int {
	return int(min(int64(a)*int64(b), unlimited))
}
