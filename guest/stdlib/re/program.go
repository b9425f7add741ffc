package re

import (
	"slices"
	"strings"
	"unicode/utf8"
)

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
