package discover

import "strings"

// text is a piece of a signature that can be laid out: head, parts and tail. A
// breakable one puts its parts on lines of their own if it is too long for one.
type text struct {
	head, tail string
	separator  string
	parts      []text
	breakable  bool
}

// width is how long lines get before they are broken.
const width = 96

func (t text) flat() string {
	var b strings.Builder
	t.writeFlat(&b)
	return b.String()
}

func (t text) writeFlat(b *strings.Builder) {
	b.WriteString(t.head)
	for i, p := range t.parts {
		if i > 0 {
			b.WriteString(t.separator)
		}
		p.writeFlat(b)
	}
	b.WriteString(t.tail)
}

// layout is t in lines, the first of which starts at column, the others at
// indent or more. after is what follows t on its last line.
func (t text) layout(indent, column, after int) string {
	flat := t.flat()
	if column+len(flat)+after <= width || len(t.parts) == 0 {
		return flat
	}
	var b strings.Builder
	b.WriteString(t.head)
	for i, p := range t.parts {
		if !t.breakable {
			if i > 0 {
				b.WriteString(t.separator)
			}
			b.WriteString(p.layout(indent, columnAfter(b.String(), column), len(t.tail)+after))
			continue
		}
		b.WriteString("\n" + strings.Repeat(" ", indent+4))
		b.WriteString(p.layout(indent+4, indent+4, 1) + strings.TrimRight(t.separator, " "))
	}
	if t.breakable {
		b.WriteString("\n" + strings.Repeat(" ", indent))
	}
	b.WriteString(t.tail)
	return b.String()
}

// columnAfter is where the text behind s stands if s starts at column.
func columnAfter(s string, column int) int {
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		return len(s) - i - 1
	}
	return column + len(s)
}
