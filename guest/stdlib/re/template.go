package re

import (
	"strconv"
	"strings"
)

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
