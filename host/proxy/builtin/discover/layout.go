package discover

import "strings"

// text is a part of a signature: head, parts and tail. A breakable text has its parts on separate
// lines if they do not fit on a single line.
type text struct {
	head, tail string
	separator  string
	parts      []text
	breakable  bool
}

// width is the length above which lines are broken.
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

// layout returns t in lines. The first starts at column, the others are indented by at least
// indent. after is the length of the text that follows t on its last line.
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

// columnAfter returns the column after s, if s starts at column.
func columnAfter(s string, column int) int {
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		return len(s) - i - 1
	}
	return column + len(s)
}
