package display

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Column is a column of a table.
type Column struct {
	Head  string
	Short string // of Head, see Cell
	Right bool   // cells are aligned at the right
	Least int    // the least width, for rows written later
}

// Cell is a cell of a table. Table makes the text safe.
type Cell struct {
	Text string
	// Short is shown instead in a table that would otherwise be too wide; "" is none.
	Short string
	Style Style
}

// Table aligns rows of cells. A Table with a Width fits into the width: it leaves out empty columns
// and takes short forms first, then breaks the text of cells into lines, and finally writes each
// row as lines of "NAME value". A last column with little room goes below the row. Empty cells are
// shown as "-", except in the last column.
type Table struct {
	Columns []Column // without heads, the table has no line of heads
	Width   int      // columns of the terminal; 0: as wide as needed
	Color   bool     // use styles

	rows  [][]Cell
	fixed *layout // of the written rows; nil without rows
}

// Row adds a row.
func (t *Table) Row(cells ...Cell) {
	row := make([]Cell, len(cells))
	for i, c := range cells {
		c.Text, c.Short = OneLine(c.Text), OneLine(c.Short)
		row[i] = c
	}
	t.rows = append(t.rows, row)
}

// gap is the space between columns.
const gap = 2

// layout is how the columns of a table fit.
type layout struct {
	columns []int // which are shown
	widths  []int // of the displayed columns
	short   bool  // short forms are used
	below   bool  // the last column of the table is shown below the row
	records bool  // each row is several lines
}

// Write writes the rows added since the last Write, below a line of heads the first time. The
// layout of the first rows is kept for later ones.
func (t *Table) Write(w io.Writer) error {
	first := t.fixed == nil
	l := t.layout()
	var b strings.Builder
	if t.hasHeads() && first && !l.records {
		heads := make([]Cell, len(t.Columns))
		for i, c := range t.Columns {
			heads[i] = Cell{Text: cmp.Or(c.Head, " "), Short: c.Short, Style: Bold}
		}
		if l.below {
			heads[len(heads)-1] = Cell{}
		}
		t.line(&b, l, heads)
	}
	for i, row := range t.rows {
		if l.records {
			if i > 0 || !first {
				b.WriteByte('\n')
			}
			t.record(&b, row)
			continue
		}
		t.line(&b, l, row)
	}
	t.rows = nil
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) hasHeads() bool {
	return slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Head != "" })
}

// count returns the number of columns.
func (t *Table) count() int {
	n := len(t.Columns)
	for _, row := range t.rows {
		n = max(n, len(row))
	}
	return n
}

// layout chooses the layout for the rows, or adapts the layout of earlier rows.
func (t *Table) layout() layout {
	if t.fixed != nil {
		if t.Width <= 0 {
			for i, w := range t.natural(*t.fixed) {
				t.fixed.widths[i] = max(t.fixed.widths[i], w)
			}
		}
		return *t.fixed
	}
	l := t.fit()
	t.fixed = &l
	return l
}

// fit chooses the layout for the first rows.
func (t *Table) fit() layout {
	l := layout{columns: make([]int, t.count())}
	for i := range l.columns {
		l.columns[i] = i
	}
	fits := func() bool {
		l.widths = t.natural(l)
		return t.Width <= 0 || l.total() <= t.Width
	}
	if fits() {
		return l
	}
	if l.short = true; fits() {
		return l
	}
	if t.hasHeads() {
		l.columns = slices.DeleteFunc(l.columns, t.isEmpty)
	}
	last := len(l.columns) - 1
	if fits() || last < 0 {
		return l
	}
	// A text of two lines is read easily; in a narrow column, a longer text is not.
	const readable, comfortable = 24, 40 // columns
	room := t.Width - (l.total() - l.widths[last])
	if room >= comfortable || room >= min(readable, l.widths[last]) && l.widths[last] <= 2*room {
		l.widths[last] = room
		return l
	}
	if t.hasHeads() && last > 1 && l.columns[last] == t.count()-1 && !t.Columns[l.columns[last]].Right {
		l.below = true
		l.columns, l.widths = l.columns[:last], l.widths[:last]
	}
	l.records = !t.shrink(&l)
	return l
}

func (l layout) total() int {
	sum := gap * (len(l.widths) - 1)
	for _, w := range l.widths {
		sum += w
	}
	return sum
}

// head returns the width of the head of a column.
func (t *Table) head(i int, short bool) int {
	if c := t.Columns[i]; short && c.Short != "" {
		return Width(c.Short)
	}
	return Width(t.Columns[i].Head)
}

// natural returns the widths needed by the columns.
func (t *Table) natural(l layout) []int {
	widths := make([]int, len(l.columns))
	for k, i := range l.columns {
		if i < len(t.Columns) {
			widths[k] = max(t.head(i, l.short), t.Columns[i].Least)
		}
		for _, row := range t.rows {
			widths[k] = max(widths[k], Width(t.text(row, i, l.short)))
		}
	}
	return widths
}

// shrink makes the widest columns narrower until the table fits. The result is false if narrower
// columns would tear words apart.
func (t *Table) shrink(l *layout) bool {
	least := make([]int, len(l.columns))
	for k, i := range l.columns {
		const torn = 20 // longer words may be torn
		for _, row := range t.rows {
			for word := range strings.FieldsSeq(t.text(row, i, true)) {
				least[k] = max(least[k], min(Width(word), torn))
			}
		}
		if i < len(t.Columns) {
			least[k] = max(least[k], t.head(i, true))
		}
	}
	for l.total() > t.Width {
		widest := -1
		for k, w := range l.widths {
			if w > least[k] && (widest < 0 || w > l.widths[widest]) {
				widest = k
			}
		}
		if widest < 0 {
			return false
		}
		l.widths[widest]--
	}
	return true
}

// text returns the text of a cell.
func (t *Table) text(row []Cell, i int, short bool) string {
	if i >= len(row) {
		return ""
	}
	text := row[i].Text
	if short {
		text = cmp.Or(row[i].Short, text)
	}
	if text == "" && i < t.count()-1 {
		return "-"
	}
	return text
}

// isEmpty reports whether all cells of a column are empty.
func (t *Table) isEmpty(i int) bool {
	return !slices.ContainsFunc(t.rows, func(row []Cell) bool { return i < len(row) && row[i].Text != "" && row[i].Text != "-" })
}

// paint applies a style.
func (t *Table) paint(s Style, text string) string {
	if !t.Color {
		return text
	}
	return s.Apply(text)
}

// line writes a row.
func (t *Table) line(b *strings.Builder, l layout, row []Cell) {
	parts := make([][]string, len(l.columns))
	lines := 1
	for k, i := range l.columns {
		parts[k] = Wrap(t.text(row, i, l.short), l.widths[k])
		lines = max(lines, len(parts[k]))
	}
	for n := range lines {
		at, written := 0, 0 // columns
		for k, i := range l.columns {
			if n < len(parts[k]) && parts[k][n] != "" {
				text, from := parts[k][n], at
				if i < len(t.Columns) && t.Columns[i].Right {
					from += max(0, l.widths[k]-Width(text))
				}
				b.WriteString(strings.Repeat(" ", max(0, from-written))) // a wide character can exceed the column
				style := Plain
				if i < len(row) {
					style = row[i].Style
				}
				b.WriteString(t.paint(style, text))
				written = from + Width(text)
			}
			at += l.widths[k] + gap
		}
		b.WriteByte('\n')
	}
	if last := t.count() - 1; l.below && last < len(row) && row[last].Text != "" {
		const indent = 4
		for _, text := range Wrap(t.text(row, last, true), t.Width-indent) {
			b.WriteString(strings.Repeat(" ", indent) + t.paint(row[last].Style, text) + "\n")
		}
	}
}

// record writes a row as lines of "NAME value".
func (t *Table) record(b *strings.Builder, row []Cell) {
	name := 0
	for _, c := range t.Columns {
		name = max(name, Width(c.Head))
	}
	for i, c := range row {
		head := ""
		if i < len(t.Columns) {
			head = t.Columns[i].Head
		}
		text := t.text(row, i, true)
		if text == "" || text == "-" {
			continue
		}
		for k, line := range Wrap(text, max(t.Width-name-gap, 1)) {
			if k > 0 {
				head = ""
			}
			b.WriteString(t.paint(Bold, head) + strings.Repeat(" ", name+gap-Width(head)) + t.paint(c.Style, line) + "\n")
		}
	}
}

// Width returns how many columns of a terminal text takes. Text must be a single line.
func Width(text string) int { return uniseg.StringWidth(text) }

// Wrap breaks text into lines of at most n columns, at spaces if possible. Text must be a single
// line; white space becomes single spaces. The result has at least one line.
func Wrap(text string, n int) []string {
	n = max(n, 1)
	var lines []string
	line, used := "", 0
	end := func() {
		lines = append(lines, line)
		line, used = "", 0
	}
	for _, word := range strings.Fields(text) {
		w := Width(word)
		if used > 0 && used+1+w <= n {
			line, used = line+" "+word, used+1+w
			continue
		}
		if used > 0 {
			end()
		}
		for w > n {
			first, rest := splitWord(word, n)
			lines = append(lines, first)
			word, w = rest, Width(rest)
		}
		line, used = word, w
	}
	if used > 0 || lines == nil {
		end()
	}
	return lines
}

// splitWord splits a word that is longer than n columns, after punctuation in the second half of
// the line if possible. A displayed character is split only if it alone takes more than n columns.
func splitWord(word string, n int) (first, rest string) {
	used, at, good := 0, 0, 0
	for g := uniseg.NewGraphemes(word); g.Next(); {
		used += g.Width()
		_, to := g.Positions()
		if used > n && at > 0 {
			break
		}
		if used > n {
			at = splitCharacter(word[:to], n)
			break
		}
		at = to
		if used > n/2 && strings.ContainsAny(g.Str(), "/.,_-:;=&?") {
			good = to
		}
	}
	if good > 0 {
		at = good
	}
	return word[:at], word[at:]
}

// splitCharacter returns how many bytes of a character wider than n columns fit: at least one code
// point. A text can add any number of marks with columns to a character.
func splitCharacter(character string, n int) (bytes int) {
	used := 0
	for i, r := range character {
		if used += Width(string(r)); used > n && i > 0 {
			break
		}
		bytes = i + utf8.RuneLen(r)
	}
	return bytes
}

// Cut returns text of at most n columns unchanged, and otherwise the beginning and "…". Text must
// be a single line of valid UTF-8. With n < 1 it returns "".
func Cut(text string, n int) string {
	if n < 1 {
		return ""
	}
	if Width(text) <= n {
		return text
	}
	used, at := 1, 0
	for g := uniseg.NewGraphemes(text); g.Next(); {
		if used += g.Width(); used > n {
			break
		}
		_, at = g.Positions()
	}
	return text[:at] + "…"
}

// Paragraphs fits text to n columns: it joins the lines of each paragraph and breaks them again.
// Lines with leading white space are unchanged.
func Paragraphs(text string, n int) string {
	var out, paragraph []string
	end := func() {
		if paragraph != nil {
			out = append(out, Wrap(strings.Join(paragraph, " "), n)...)
			paragraph = nil
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == ' ' || line[0] == '\t' {
			end()
			out = append(out, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	end()
	return strings.Join(out, "\n")
}
