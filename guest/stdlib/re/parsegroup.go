package re

import (
	"strconv"
	"unicode"
)

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
