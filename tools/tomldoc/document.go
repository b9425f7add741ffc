package tomldoc

import (
	"slices"
	"strconv"
	"strings"
)

// document is a text under edit, scanned again after each edit.
type document struct {
	text       string
	statements []statement
	newline    string
}

// statement is a statement with the path of the defined value. A table in an array of tables has
// the path of the array and an element unequal to any key.
type statement struct {
	Statement
	path []string
	// table is the path of the table of the section that contains or begins with the statement.
	table []string
}

func newDocument(text string) *document {
	d := &document{newline: "\n"}
	if first, _, ok := strings.Cut(text, "\n"); ok && strings.HasSuffix(first, "\r") {
		d.newline = "\r\n"
	}
	d.setText(text)
	return d
}

func (d *document) setText(text string) {
	d.text, d.statements = text, nil
	var table []string
	arrays := map[string]int{}
	for _, s := range Scan(text) {
		st := statement{Statement: s, table: table}
		if s.Kind == Assignment {
			st.path = join(table, names(s.Keys)...)
		} else {
			st.path = headerPath(s, arrays)
			table, st.table = st.path, st.path
		}
		d.statements = append(d.statements, st)
	}
}

// headerPath returns the path of a table. arrays counts the tables in each array.
func headerPath(s Statement, arrays map[string]int) []string {
	path := []string{}
	for i, key := range s.Keys {
		path = join(path, key.Name)
		id := strings.Join(path, "\xfe")
		n := arrays[id]
		switch {
		case s.Kind == ArrayTable && i == len(s.Keys)-1:
			arrays[id] = n + 1
			path = join(path, "\xff"+strconv.Itoa(n))
		case n > 0:
			path = join(path, "\xff"+strconv.Itoa(n-1))
		}
	}
	return path
}

func names(keys []Key) []string {
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = key.Name
	}
	return list
}

// join returns a path with more elements, in new memory.
func join(path []string, more ...string) []string {
	return append(path[:len(path):len(path)], more...)
}

// hasPrefix reports whether path is prefix or lies below prefix.
func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// replace replaces a part of the text.
func (d *document) replace(from, to int, with string) {
	d.setText(d.text[:from] + with + d.text[to:])
}

// decoded returns the values of the text.
func (d *document) decoded() (map[string]any, error) { return decode(d.text) }

// lineStart returns where the line with a position begins.
func (d *document) lineStart(at int) int { return strings.LastIndexByte(d.text[:at], '\n') + 1 }

// lineEnd returns the position after the line with a position, and after the line break.
func (d *document) lineEnd(at int) int {
	if end := strings.IndexByte(d.text[at:], '\n'); end >= 0 {
		return at + end + 1
	}
	return len(d.text)
}

// line returns the text of the line at a position, without white space around the text.
func (d *document) line(from int) string { return strings.TrimSpace(d.text[from:d.lineEnd(from)]) }

// indent returns the white space at the beginning of the line with a position.
func (d *document) indent(at int) string {
	line := d.text[d.lineStart(at):at]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// commentsAbove returns where the comment lines directly above a line begin.
func (d *document) commentsAbove(lineStart int) int {
	for lineStart > 0 {
		above := d.lineStart(lineStart - 1)
		if !strings.HasPrefix(d.line(above), "#") {
			break
		}
		lineStart = above
	}
	return lineStart
}

// commentsBelow returns the position after the comment lines at a position, if they are not
// directly above a statement; otherwise the position itself.
func (d *document) commentsBelow(at int) int {
	end := at
	for end < len(d.text) && strings.HasPrefix(d.line(end), "#") {
		end = d.lineEnd(end)
	}
	if end == len(d.text) || d.line(end) == "" {
		return end
	}
	return at
}

// sectionEnd returns the position after the last line of the statements up to index i, if the next
// statement is in another section.
func (d *document) sectionEnd(i int) int {
	end := d.lineEnd(d.statements[i].To)
	if i+1 < len(d.statements) && d.statements[i+1].Kind == Assignment {
		return end
	}
	return d.commentsBelow(end)
}

// member is where an assignment is: in a section, or in an inline table.
type member struct {
	Statement
	// index is the index of the statement that is or contains the member.
	index int
	// siblings are the members of the enclosing inline table, and at is the place among them; nil
	// outside an inline table.
	siblings []Statement
	at       int
}

// find returns the assignments with paths at or below path.
func (d *document) find(path []string) []member {
	var found []member
	for i, st := range d.statements {
		if st.Kind != Assignment {
			continue
		}
		found = findMembers(found, member{Statement: st.Statement, index: i}, st.path, path)
	}
	return found
}

// findMembers adds m, with the path own, or its members to found.
func findMembers(found []member, m member, own, path []string) []member {
	if hasPrefix(own, path) {
		return append(found, m)
	}
	if !hasPrefix(path, own) {
		return found
	}
	for i, s := range m.Value.Members {
		in := member{Statement: s, index: m.index, siblings: m.Value.Members, at: i}
		found = findMembers(found, in, join(own, names(s.Keys)...), path)
	}
	return found
}

// inlineTable returns the inline table at a path, if any.
func (d *document) inlineTable(path []string) (Value, bool) {
	for _, st := range d.statements {
		if st.Kind == Assignment {
			if v, ok := inlineIn(st.Value, st.path, path); ok {
				return v, true
			}
		}
	}
	return Value{}, false
}

func inlineIn(v Value, own, path []string) (Value, bool) {
	if v.Members == nil || !hasPrefix(path, own) {
		return v, false
	}
	if len(own) == len(path) {
		return v, true
	}
	for _, s := range v.Members {
		if in, ok := inlineIn(s.Value, join(own, names(s.Keys)...), path); ok {
			return in, true
		}
	}
	return v, false
}
