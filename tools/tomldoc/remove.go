package tomldoc

import (
	"slices"
	"strings"
)

// remove removes the value at a path.
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
		// Consecutive statements are removed with everything between them.
		first := len(cut) - 1
		for first > 0 && cut[first-1] == cut[first]-1 && !d.standsBetween(cut[first-1], cut[first]) {
			first--
		}
		d.removeLines(cut[first], cut[len(cut)-1])
		cut = cut[:first]
	}
}

// standsBetween reports whether comments between two statements belong to neither: comments between
// blank lines, or a table in comments.
func (d *document) standsBetween(i, next int) bool {
	from, to := d.lineEnd(d.statements[i].To), d.lineStart(d.statements[next].From)
	if from >= to {
		return false
	}
	if disabledTable(d.text[from:to]) {
		return true
	}
	afterBlank, alone := false, false // alone: in a block of comments after a blank line
	for line := range strings.Lines(d.text[from:to]) {
		blank := strings.TrimSpace(line) == ""
		if blank && alone {
			return true
		}
		alone = !blank && (alone || afterBlank)
		afterBlank = blank
	}
	return false
}

// disabledTable reports whether comments contain the header of a table.
func disabledTable(comments string) bool {
	for line := range strings.Lines(comments) {
		line, isComment := strings.CutPrefix(strings.TrimSpace(line), "#")
		if line = strings.TrimSpace(line); !isComment || !strings.HasPrefix(line, "[") {
			continue
		}
		if _, err := decode(line + "\n"); err == nil {
			return true
		}
	}
	return false
}

// disabledLines reports whether comments are commented-out TOML.
func disabledLines(comments string) bool {
	var b strings.Builder
	for line := range strings.Lines(comments) {
		b.WriteString(strings.TrimPrefix(strings.TrimSpace(line), "#") + "\n")
	}
	root, err := decode(b.String())
	return err == nil && len(root) > 0
}

// removeMember removes an assignment from an inline table, with a comma before or after the
// assignment.
func (d *document) removeMember(m member) {
	from, to := m.From, m.To
	switch {
	case m.at+1 < len(m.siblings):
		to = m.siblings[m.at+1].From
	case m.at > 0:
		from = m.siblings[m.at-1].To
	default: // the only member: with the white space around it
		from = len(strings.TrimRight(d.text[:from], " \t"))
		to += len(d.text[to:]) - len(strings.TrimLeft(d.text[to:], " \t"))
	}
	d.replace(from, to, "")
}

// removeLines removes statements, from the index first to the index last.
func (d *document) removeLines(first, last int) {
	from := d.lineStart(d.statements[first].From)
	to := d.lineEnd(d.statements[last].To)
	if d.statements[first].Kind != Assignment {
		above := d.commentsAbove(from)
		if text := d.text[above:from]; above > 0 && !disabledTable(text) && !disabledLines(text) { // comments at the top may be about the file
			from = above
		}
		if end := d.sectionEnd(last); !disabledTable(d.text[to:end]) {
			to = end
		}
	}
	// Of the gaps before and after, a single gap remains.
	blankBefore := from == 0 || d.line(d.lineStart(from-1)) == ""
	for blankBefore && to < len(d.text) && d.line(to) == "" {
		to = d.lineEnd(to)
	}
	for to == len(d.text) && from > 0 && d.line(d.lineStart(from-1)) == "" {
		from = d.lineStart(from - 1)
	}
	d.replace(from, to, "")
}
