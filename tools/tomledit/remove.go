package tomledit

import (
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// remove removes what is at a path.
func (d *document) remove(path []string) {
	inTable := func(m member) bool { return m.siblings != nil }
	for {
		found := d.find(path)
		i := slices.IndexFunc(found, inTable)
		if i < 0 {
			break
		}
		d.removeMember(found[i])
	}
	var cut []int
	for i, st := range d.statements {
		if hasPrefix(st.path, path) {
			cut = append(cut, i)
		}
	}
	for len(cut) > 0 {
		// Statements that follow each other are removed with all that is between them.
		first := len(cut) - 1
		for first > 0 && cut[first-1] == cut[first]-1 {
			first--
		}
		d.removeLines(cut[first], cut[len(cut)-1])
		cut = cut[:first]
	}
}

// removeMember removes an assignment from an inline table, with one of the commas around
// it.
func (d *document) removeMember(m member) {
	from, to := m.From, m.To
	switch {
	case m.at+1 < len(m.siblings):
		to = m.siblings[m.at+1].From
	case m.at > 0:
		from = m.siblings[m.at-1].To
	default: // the only one: with the white space around it
		from = len(strings.TrimRight(d.text[:from], " \t"))
		to += len(d.text[to:]) - len(strings.TrimLeft(d.text[to:], " \t"))
	}
	d.replace(from, to, "")
}

// removeLines removes statements, from the index first to the index last.
func (d *document) removeLines(first, last int) {
	from := d.lineStart(d.statements[first].From)
	to := d.lineEnd(d.statements[last].To)
	if d.statements[first].Kind != tomldoc.Assignment {
		if above := d.commentsAbove(from); above > 0 { // those at the top may be about the file
			from = above
		}
		to = d.sectionEnd(last)
	}
	// One gap remains of those before and after.
	blankBefore := from == 0 || d.line(d.lineStart(from-1)) == ""
	for blankBefore && to < len(d.text) && d.line(to) == "" {
		to = d.lineEnd(to)
	}
	for to == len(d.text) && from > 0 && d.line(d.lineStart(from-1)) == "" {
		from = d.lineStart(from - 1)
	}
	d.replace(from, to, "")
}
