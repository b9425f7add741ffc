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
	"slices"
	"strconv"
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

// opcode is the kind of an instruction.
type opcode uint8

const (
	opMatch     opcode = iota // the end
	opChar                    // the character x
	opFold                    // a character different from x only in case
	opSet                     // a character of set x
	opAny                     // a character but \n
	opAll                     // any character
	opLiteral                 // the text x
	opJump                    // to x
	opSplit                   // to the next, or else to x
	opSave                    // group boundary x is here
	opOne                     // the next instruction y to z times, z<0: lazily; x is where to go on
	opLoop                    // enters loop x
	opNext                    // an iteration of loop x; y is the index of the bounds
	opBackref                 // the text of group x
	opLook                    // the part up to x matches here
	opNotLook                 // does not
	opAtomic                  // matches, in the first way only
	opBack                    // goes back x characters
	opTest                    // to x if group y has no match
	opTextStart               // \A
	opTextEnd                 // \Z
	opLineStart               // ^ of lines
	opLineEnd                 // $ of lines
	opLastEnd                 // $
	opWord                    // \b
	opNotWord                 // \B
)

// inst is an instruction. ascii is for \b and case.
type inst struct {
	op      opcode
	fold    bool
	ascii   bool
	lazy    bool
	x, y, z int32
}

// maxProgram is a limit on the number of instructions.
const maxProgram = 1 << 18

// Compile returns the pattern for a text, or an *Error.
func Compile(text string, flags Flags) (*Pattern, error) {
	if flags&Locale != 0 {
		return nil, &Error{Message: "cannot use LOCALE flag with a str pattern", Pattern: text, Position: -1}
	}
	if flags&ASCII != 0 && flags&Unicode != 0 {
		return nil, &Error{Message: "ASCII and UNICODE flags are incompatible", Pattern: text, Position: -1}
	}
	p := newParser(text, flags)
	tree, err := p.parse()
	if err != nil {
		return nil, err
	}
	c := compiler{&Pattern{Text: text, Flags: p.flags, Groups: p.groups, Index: p.names, Names: make([]string, p.groups+1)}}
	if c.Flags&ASCII == 0 {
		c.Flags |= Unicode
	}
	for name, n := range p.names {
		c.Names[n] = name
	}
	c.node(tree)
	c.emit(inst{op: opMatch})
	if len(c.code) > maxProgram {
		return nil, &Error{Message: "the pattern is too large", Pattern: text, Position: -1}
	}
	c.begin()
	return c.Pattern, nil
}

type compiler struct{ *Pattern }

func (c *compiler) emit(i inst) int {
	c.code = append(c.code, i)
	return len(c.code) - 1
}

func (c *compiler) here() int32 { return int32(len(c.code)) }

func (c *compiler) node(n *node) {
	switch n.kind {
	case nodeChar, nodeSet, nodeAny, nodeAll:
		c.emit(c.one(n))
	case nodeConcat:
		c.concat(n.subs)
	case nodeAlternate:
		c.alternate(n.subs)
	case nodeRepeat:
		c.repeat(n)
	case nodeGroup:
		if n.group == 0 {
			c.node(n.subs[0])
			return
		}
		c.emit(inst{op: opSave, x: int32(2 * n.group)})
		c.node(n.subs[0])
		c.emit(inst{op: opSave, x: int32(2*n.group + 1)})
	case nodeBackref:
		c.emit(inst{op: opBackref, x: int32(n.group), fold: n.fold, ascii: n.ascii})
	case nodeLook:
		op := opLook
		if n.negate {
			op = opNotLook
		}
		c.sub(op, n)
	case nodeAtomic:
		c.sub(opAtomic, n)
	case nodeConditional:
		test := c.emit(inst{op: opTest, y: int32(n.group)})
		c.node(n.subs[0])
		jump := c.emit(inst{op: opJump})
		c.code[test].x = c.here()
		c.node(n.subs[1])
		c.code[jump].x = c.here()
	case nodeAssert:
		c.emit(inst{op: n.assert, ascii: n.ascii})
	}
}

// one returns the instruction of a single character.
func (c *compiler) one(n *node) inst {
	switch n.kind {
	case nodeChar:
		if n.fold {
			return inst{op: opFold, x: n.r, ascii: n.ascii}
		}
		return inst{op: opChar, x: n.r}
	case nodeSet:
		c.sets = append(c.sets, n.set)
		return inst{op: opSet, x: int32(len(c.sets) - 1)}
	case nodeAny:
		return inst{op: opAny}
	}
	return inst{op: opAll}
}

// concat joins plain characters to literals.
func (c *compiler) concat(subs []*node) {
	for i := 0; i < len(subs); i++ {
		var text strings.Builder
		j := i
		for ; j < len(subs) && subs[j].kind == nodeChar && !subs[j].fold && subs[j].r != utf8.RuneError; j++ {
			text.WriteRune(subs[j].r)
		}
		if j-i < 2 {
			c.node(subs[i])
			continue
		}
		c.literals = append(c.literals, text.String())
		c.emit(inst{op: opLiteral, x: int32(len(c.literals) - 1)})
		i = j - 1
	}
}

func (c *compiler) alternate(branches []*node) {
	var ends []int
	for i, b := range branches {
		if i == len(branches)-1 {
			c.node(b)
			break
		}
		split := c.emit(inst{op: opSplit})
		c.node(b)
		ends = append(ends, c.emit(inst{op: opJump}))
		c.code[split].x = c.here()
	}
	for _, e := range ends {
		c.code[e].x = c.here()
	}
}

// sub compiles a separately matched part.
func (c *compiler) sub(op opcode, n *node) {
	at := c.emit(inst{op: op})
	if n.behind {
		c.emit(inst{op: opBack, x: int32(n.lo)})
	}
	c.node(n.subs[0])
	c.emit(inst{op: opMatch})
	c.code[at].x = c.here()
}

func (c *compiler) repeat(n *node) {
	body := n.subs[0]
	for body.kind == nodeGroup && body.group == 0 {
		body = body.subs[0]
	}
	if body.kind == nodeConcat && len(body.subs) == 1 {
		body = body.subs[0]
	}
	lo, hi := int32(n.lo), int32(n.hi)
	switch body.kind {
	case nodeChar, nodeSet, nodeAny, nodeAll:
		at := c.emit(inst{op: opOne, lazy: n.lazy, y: lo, z: hi})
		c.emit(c.one(body))
		c.code[at].x = c.here()
		return
	}
	loop := int32(c.loops)
	c.loops++
	c.emit(inst{op: opLoop, x: loop})
	next := c.emit(inst{op: opNext, lazy: n.lazy, x: loop, y: lo, z: hi})
	end := c.emit(inst{op: opJump}) // the way out
	c.node(body)
	c.emit(inst{op: opJump, x: int32(next)})
	c.code[end].x = c.here()
}

// begin finds the beginning of every match.
func (c *compiler) begin() {
	at := 0
	for c.code[at].op == opSave {
		at++
	}
	switch i := c.code[at]; i.op {
	case opTextStart:
		c.anchored = true
	case opLiteral:
		c.prefix = c.literals[i.x]
	case opChar:
		if i.x != utf8.RuneError {
			c.prefix = string(rune(i.x))
		}
	case opSet:
		c.first = c.sets[i.x]
	case opOne:
		if next := c.code[at+1]; i.y > 0 && next.op == opSet {
			c.first = c.sets[next.x]
		}
	case opSplit:
		c.first = c.firstOf(at)
	}
}

// firstOf returns the set of characters at the beginning of alternatives, nil if unclear.
func (c *compiler) firstOf(at int) *set {
	s := &set{}
	for {
		branch := at
		if c.code[at].op == opSplit {
			branch++
		}
		for c.code[branch].op == opSave {
			branch++
		}
		switch i := c.code[branch]; i.op {
		case opLiteral:
			r, _ := utf8.DecodeRuneInString(c.literals[i.x])
			s.addRange(r, r)
		case opChar:
			s.addRange(i.x, i.x)
		default:
			return nil
		}
		if c.code[at].op != opSplit {
			return s.ready()
		}
		at = int(c.code[at].x)
	}
}

// GroupNumber returns the number of a name; ok reports a known name.
func (p *Pattern) GroupNumber(name string) (int, bool) {
	n, ok := p.Index[name]
	return n, ok
}

// GroupNames returns the names in the order of their numbers.
func (p *Pattern) GroupNames() []string {
	return slices.DeleteFunc(slices.Clone(p.Names), func(s string) bool { return s == "" })
}

// Template is a replacement text with references to groups.
type Template struct {
	parts []part
}

// part is text, or if group is not negative, a group.
type part struct {
	text  string
	group int
}

// UnknownGroup is the error for the name of no group, an IndexError in Python.
type UnknownGroup struct{ Name string }

func (e *UnknownGroup) Error() string { return "unknown group name '" + e.Name + "'" }

// Template reads a replacement text.
func (p *Pattern) Template(text string) (*Template, error) {
	if !strings.Contains(text, `\`) {
		return &Template{[]part{{text, -1}}}, nil
	}
	r := templateReader{parser: newParser(text, 0), p: p}
	return r.read()
}

type templateReader struct {
	*parser
	p     *Pattern
	out   Template
	plain strings.Builder
}

func (r *templateReader) read() (*Template, error) {
	for r.more() {
		start := r.pos
		c := r.text[r.pos]
		r.pos++
		if c != '\\' {
			r.plain.WriteRune(c)
			continue
		}
		if !r.more() {
			return nil, r.fail(start, "bad escape (end of pattern)")
		}
		if err := r.escapeAt(start); err != nil {
			return nil, err
		}
	}
	r.flush()
	return &r.out, nil
}

func (r *templateReader) flush() {
	if r.plain.Len() > 0 {
		r.out.parts = append(r.out.parts, part{r.plain.String(), -1})
		r.plain.Reset()
	}
}

func (r *templateReader) add(group, at int) error {
	if group > r.p.Groups {
		return r.fail(at, "invalid group reference %d", group)
	}
	r.flush()
	r.out.parts = append(r.out.parts, part{"", group})
	return nil
}

func (r *templateReader) escapeAt(start int) error {
	c := r.text[r.pos]
	r.pos++
	switch {
	case c == 'g':
		return r.named()
	case c == '0':
		value := rune(0)
		for n := 0; n < 2 && isOctal(r.peek(0)); n++ {
			value = value*8 + r.peek(0) - '0'
			r.pos++
		}
		r.plain.WriteRune(value & 0xff)
	case isDigit(c):
		number := int(c - '0')
		if isDigit(r.peek(0)) {
			if isOctal(c) && isOctal(r.peek(0)) && isOctal(r.peek(1)) {
				value := (c-'0')*64 + (r.peek(0)-'0')*8 + r.peek(1) - '0'
				r.pos += 2
				if value > 0o377 {
					return r.fail(start, "octal escape value \\%o outside of range 0-0o377", value)
				}
				r.plain.WriteRune(value)
				return nil
			}
			number = number*10 + int(r.peek(0)-'0')
			r.pos++
		}
		return r.add(number, start+1)
	case c == '\\':
		r.plain.WriteByte('\\')
	case c == 'b':
		r.plain.WriteByte('\b')
	default:
		if s, ok := simple(c); ok {
			r.plain.WriteRune(s)
			return nil
		}
		if isLetter(c) {
			return r.fail(start, "bad escape \\%c", c)
		}
		r.plain.WriteByte('\\')
		r.plain.WriteRune(c)
	}
	return nil
}

// named reads <name> or <number>.
func (r *templateReader) named() error {
	if !r.accept('<') {
		return r.fail(r.pos, "missing <")
	}
	at := r.pos
	name, err := r.until('>', "group name")
	if err != nil {
		return err
	}
	if isName(name) {
		number, ok := r.p.Index[name]
		if !ok {
			return &UnknownGroup{name}
		}
		return r.add(number, at)
	}
	number, err := strconv.Atoi(name)
	if err != nil || number < 0 {
		return r.fail(at, "bad character in group name '%s'", name)
	}
	return r.add(number, at)
}

// Expand appends the template's text for a match in a text. Groups without a match
// are empty.
func (t *Template) Expand(out *strings.Builder, text string, m *Match) {
	for _, p := range t.parts {
		switch {
		case p.group < 0:
			out.WriteString(p.text)
		case m.Spans[2*p.group] >= 0:
			out.WriteString(text[m.Spans[2*p.group]:m.Spans[2*p.group+1]])
		}
	}
}
