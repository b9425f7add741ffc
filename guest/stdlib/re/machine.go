package re

import (
	"strings"
	"unicode/utf8"
)

// frame is an entry of the stack: a choice to come back to, or a value to restore.
type frame struct {
	kind frameKind
	pc   int32 // or the register to restore
	pos  int32 // or the value to restore
	aux  int32
}

type frameKind uint8

const (
	// frameTry goes on at pc with pos.
	frameTry frameKind = iota
	// frameShorter goes on at pc with a character less, down to aux.
	frameShorter
	// frameLonger tries another character of the opOne at pc, aux times at most.
	frameLonger
	// frameBody tries another iteration of the lazy loop of the opNext at pc.
	frameBody
	// frameSpan, frameCount and frameClosed restore a group boundary, a loop, and
	// the last group.
	frameSpan
	frameCount
	frameClosed
)

const (
	// maxStack is the limit of frames in a search, 16 bytes each.
	maxStack = 2 << 20
	never    = -1
)

type counter struct{ count, last int32 }

// machine runs the instructions of a pattern.
type machine struct {
	p        *Pattern
	text     string
	limit    int // of steps, 0 is none
	steps    int
	spans    []int32
	closed   int32
	counters []counter
	stack    []frame
	whole    bool
	notEmpty bool
	start    int
}

// match looks for a match at an offset.
func (m *machine) match(at int, whole, notEmpty bool) (*Match, error) {
	if m.spans == nil {
		m.spans = make([]int32, 2*(m.p.Groups+1))
		m.counters = make([]counter, m.p.loops)
	}
	for i := range m.spans {
		m.spans[i] = -1
	}
	m.closed, m.stack = 0, m.stack[:0]
	m.start, m.whole, m.notEmpty = at, whole, notEmpty
	end, err := m.run(0, at, true)
	if err != nil || end < 0 {
		return nil, err
	}
	found := &Match{Spans: make([]int, len(m.spans)), LastIndex: int(m.closed)}
	found.Spans[0], found.Spans[1] = at, end
	for i := 2; i < len(m.spans); i += 2 {
		found.Spans[i], found.Spans[i+1] = -1, -1
		if m.spans[i+1] >= 0 {
			found.Spans[i], found.Spans[i+1] = int(m.spans[i]), int(m.spans[i+1])
		}
	}
	return found, nil
}

func (m *machine) push(f frame) error {
	if len(m.stack) >= maxStack {
		return ErrLimit
	}
	m.stack = append(m.stack, f)
	return nil
}

// run runs instructions from pc on until opMatch. It returns the end of the match, never without a
// match. outer is false for separately matched parts.
func (m *machine) run(pc int32, pos int, outer bool) (int, error) {
	base := len(m.stack)
	code, text := m.p.code, m.text
	for {
		m.steps++
		if m.limit > 0 && m.steps > m.limit {
			return never, ErrLimit
		}
		in := &code[pc]
		ok := true
		var err error
		switch in.op {
		case opMatch:
			if !outer {
				return pos, nil
			}
			if (!m.whole || pos == len(text)) && !(m.notEmpty && pos == m.start) {
				return pos, nil
			}
			ok = false
		case opChar, opFold, opSet, opAny, opAll:
			n := m.one(in, pos)
			ok = n > 0
			pos += n
			pc++
		case opLiteral:
			literal := m.p.literals[in.x]
			ok = strings.HasPrefix(text[pos:], literal)
			pos += len(literal)
			pc++
		case opJump:
			pc = in.x
		case opSplit:
			err = m.push(frame{frameTry, in.x, int32(pos), 0})
			pc++
		case opSave:
			err = m.save(in.x, pos)
			pc++
		case opOne:
			pos, ok, err = m.repeat(pc, in, pos)
			pc = in.x
		case opLoop:
			err = m.push(frame{frameCount, in.x, m.counters[in.x].count, m.counters[in.x].last})
			m.counters[in.x] = counter{0, never}
			pc++
		case opNext:
			pc, err = m.next(pc, in, pos)
		case opBackref:
			var n int
			n, ok = m.backref(in, pos)
			pos += n
			pc++
		case opLook, opNotLook, opAtomic:
			pos, ok, err = m.sub(pc, in, pos)
			pc = in.x
		case opBack:
			pos, ok = m.back(pos, int(in.x))
			pc++
		case opTest:
			if m.spans[2*in.y+1] < 0 {
				pc = in.x
			} else {
				pc++
			}
		default:
			ok = m.assert(in, pos)
			pc++
		}
		if err != nil {
			return never, err
		}
		if !ok {
			if pc, pos, ok = m.backtrack(base); !ok {
				return never, nil
			}
		}
	}
}

// one returns the length of the character at pos if the character fits an instruction, or 0.
func (m *machine) one(in *inst, pos int) int {
	if pos >= len(m.text) {
		return 0
	}
	r, n := decode(m.text, pos)
	fits := false
	switch in.op {
	case opChar:
		fits = r == in.x
	case opFold:
		fits = r == in.x || folded(r, in.ascii) == in.x
	case opSet:
		fits = m.p.sets[in.x].has(r)
	case opAny:
		fits = r != '\n'
	case opAll:
		fits = true
	}
	if fits {
		return n
	}
	return 0
}

// repeat runs an opOne: an opOne takes as many characters as possible, or as few if lazy.
func (m *machine) repeat(pc int32, in *inst, pos int) (int, bool, error) {
	item := &m.p.code[pc+1]
	count := int32(0)
	take := func(most int32) {
		for ; count < most; count++ {
			n := m.one(item, pos)
			if n == 0 {
				return
			}
			pos += n
		}
	}
	if take(in.y); count < in.y {
		return pos, false, nil
	}
	if in.lazy {
		if in.z == count {
			return pos, true, nil
		}
		return pos, true, m.push(frame{frameLonger, pc, int32(pos), in.z - count})
	}
	least := pos
	take(in.z)
	m.steps += (pos - least) / 8
	if pos == least {
		return pos, true, nil
	}
	return pos, true, m.push(frame{frameShorter, in.x, int32(pos), int32(least)})
}

// save sets a group boundary.
func (m *machine) save(i int32, pos int) error {
	err := m.push(frame{frameSpan, i, m.spans[i], 0})
	m.spans[i] = int32(pos)
	if i&1 == 0 || err != nil {
		return err
	}
	err = m.push(frame{frameClosed, 0, m.closed, 0})
	m.closed = i / 2
	return err
}

// next begins another iteration of a loop or leaves the loop. After the opNext comes the jump out
// of the loop, then the body.
func (m *machine) next(pc int32, in *inst, pos int) (int32, error) {
	c := m.counters[in.x]
	switch {
	case c.count < in.y:
		return pc + 2, m.iterate(in, counter{c.count + 1, c.last})
	case c.count >= in.z || c.last == int32(pos): // an empty iteration would go on for ever
		return pc + 1, nil
	case in.lazy:
		return pc + 1, m.push(frame{frameBody, pc, int32(pos), 0})
	}
	if err := m.push(frame{frameTry, pc + 1, int32(pos), 0}); err != nil {
		return 0, err
	}
	return pc + 2, m.iterate(in, counter{c.count + 1, int32(pos)})
}

func (m *machine) iterate(in *inst, to counter) error {
	c := m.counters[in.x]
	m.counters[in.x] = to
	return m.push(frame{frameCount, in.x, c.count, c.last})
}

// backref returns the length of the text of a group if the same text is at pos.
func (m *machine) backref(in *inst, pos int) (int, bool) {
	from, to := m.spans[2*in.x], m.spans[2*in.x+1]
	if from < 0 || to < from {
		return 0, false
	}
	want := m.text[from:to]
	m.steps += len(want) / 8
	if !in.fold {
		return len(want), strings.HasPrefix(m.text[pos:], want)
	}
	at := pos
	for _, r := range want {
		if at >= len(m.text) {
			return 0, false
		}
		c, n := decode(m.text, at)
		if c != r && folded(c, in.ascii) != folded(r, in.ascii) {
			return 0, false
		}
		at += n
	}
	return at - pos, true
}

// sub matches the following part separately. The choices are forgotten afterwards; the groups stay,
// except for a negative lookaround.
func (m *machine) sub(pc int32, in *inst, pos int) (int, bool, error) {
	base := len(m.stack)
	end, err := m.run(pc+1, pos, false)
	if err != nil {
		return pos, false, err
	}
	if in.op == opNotLook {
		m.undo(base)
		return pos, end < 0, nil
	}
	if end < 0 {
		return pos, false, nil
	}
	kept := m.stack[:base]
	for _, f := range m.stack[base:] {
		if f.kind >= frameSpan {
			kept = append(kept, f)
		}
	}
	m.stack = kept
	if in.op == opAtomic {
		pos = end
	}
	return pos, true, nil
}

// back goes back n characters.
func (m *machine) back(pos, n int) (int, bool) {
	for ; n > 0; n-- {
		if pos == 0 {
			return 0, false
		}
		_, size := utf8.DecodeLastRuneInString(m.text[:pos])
		pos -= size
	}
	return pos, true
}

func (m *machine) assert(in *inst, pos int) bool {
	switch in.op {
	case opTextStart:
		return pos == 0
	case opTextEnd:
		return pos == len(m.text)
	case opLineStart:
		return pos == 0 || m.text[pos-1] == '\n'
	case opLineEnd:
		return pos == len(m.text) || m.text[pos] == '\n'
	case opLastEnd:
		return pos == len(m.text) || pos == len(m.text)-1 && m.text[pos] == '\n'
	}
	before, after := false, false
	if pos > 0 {
		r, _ := utf8.DecodeLastRuneInString(m.text[:pos])
		before = isWord(r, in.ascii)
	}
	if pos < len(m.text) {
		r, _ := decode(m.text, pos)
		after = isWord(r, in.ascii)
	}
	if in.op == opNotWord && m.text == "" {
		return false // as in Python before 3.14
	}
	return (before != after) == (in.op == opWord)
}

// undo takes back everything above base.
func (m *machine) undo(base int) {
	for i := len(m.stack) - 1; i >= base; i-- {
		m.restore(m.stack[i])
	}
	m.stack = m.stack[:base]
}

func (m *machine) restore(f frame) {
	switch f.kind {
	case frameSpan:
		m.spans[f.pc] = f.pos
	case frameCount:
		m.counters[f.pc] = counter{f.pos, f.aux}
	case frameClosed:
		m.closed = f.pos
	}
}

// backtrack returns the place to continue; ok is false without a choice above base.
func (m *machine) backtrack(base int) (pc int32, pos int, ok bool) {
	for len(m.stack) > base {
		top := &m.stack[len(m.stack)-1]
		f := *top
		switch f.kind {
		case frameTry:
			m.stack = m.stack[:len(m.stack)-1]
			return f.pc, int(f.pos), true
		case frameShorter:
			_, n := utf8.DecodeLastRuneInString(m.text[:f.pos])
			top.pos -= int32(n)
			pos = int(top.pos)
			if top.pos <= f.aux {
				m.stack = m.stack[:len(m.stack)-1]
			}
			return f.pc, pos, true
		case frameLonger:
			n := m.one(&m.p.code[f.pc+1], int(f.pos))
			if n == 0 {
				m.stack = m.stack[:len(m.stack)-1]
				continue
			}
			top.pos += int32(n)
			top.aux--
			pos = int(top.pos)
			if top.aux == 0 {
				m.stack = m.stack[:len(m.stack)-1]
			}
			return m.p.code[f.pc].x, pos, true
		case frameBody:
			m.stack = m.stack[:len(m.stack)-1]
			in := &m.p.code[f.pc]
			c := m.counters[in.x]
			m.counters[in.x] = counter{c.count + 1, f.pos}
			m.stack = append(m.stack, frame{frameCount, in.x, c.count, c.last})
			return f.pc + 2, int(f.pos), true
		default:
			m.stack = m.stack[:len(m.stack)-1]
			m.restore(f)
		}
	}
	return 0, 0, false
}
