package tomldoc

import (
	"strings"
)

// maxLine is the length in bytes of the longest line for a table in another table.
const maxLine = 100

// set sets the value at a path.
func (d *document) set(path []string, value any) error {
	root, err := d.decoded()
	if err != nil {
		return err
	}
	now, exists := lookup(root, path)
	if exists && same(now, plainValue(value)) {
		return nil
	}
	table, isTable := value.(InlineTable)
	if m, ok := now.(map[string]any); ok && isTable {
		return d.merge(path, m, table)
	}
	if !exists {
		return d.add(root, path, value)
	}
	if found := d.find(path); len(found) == 1 && d.defines(found[0], path) {
		d.replace(found[0].Value.From, found[0].Value.To, inline(value))
		return nil
	}
	d.remove(path)
	if root, err = d.decoded(); err != nil {
		return err
	}
	return d.add(root, path, value)
}

// defines reports whether an assignment sets the value at the path, not a part of the value.
func (d *document) defines(m member, path []string) bool {
	if m.siblings == nil {
		return len(d.statements[m.index].path) == len(path)
	}
	return m.Keys[len(m.Keys)-1].Name == path[len(path)-1] // in an inline table, a prefix of the path led to the member
}

// merge makes the table at a path equal to another table.
func (d *document) merge(path []string, now map[string]any, table InlineTable) error {
	keep := map[string]bool{}
	for _, e := range table {
		keep[e.Key] = true
	}
	for key := range now { // in any order: the result is the same
		if !keep[key] {
			d.remove(join(path, key))
		}
	}
	for _, e := range table {
		if err := d.set(join(path, e.Key), e.Value); err != nil {
			return err
		}
	}
	// Removing the last key of a table without a header has removed the table too.
	root, err := d.decoded()
	if err != nil {
		return err
	}
	if _, ok := lookup(root, path); !ok {
		return d.add(root, path, table)
	}
	return nil
}

// add adds a value at an empty path.
func (d *document) add(root map[string]any, path []string, value any) error {
	// The value is added to the innermost existing table on the way.
	depth := len(path) - 1
	for depth > 0 {
		if v, ok := lookup(root, path[:depth]); ok {
			if _, ok := v.(map[string]any); !ok {
				return ErrForm
			}
			break
		}
		depth--
	}
	if v, ok := d.inlineTable(path[:depth]); ok {
		d.addMember(v, path[depth], nest(path[depth+1:], value))
		return nil
	}
	if table, ok := value.(InlineTable); ok && (len(path) <= 2 || !fits(path[len(path)-1], table)) {
		d.addSection(path, table)
		return nil
	}
	if depth < len(path)-1 {
		d.addSection(path[:len(path)-1], InlineTable{{path[len(path)-1], value}})
		return nil
	}
	d.addAssignment(path, value)
	return nil
}

// nest returns a value within tables.
func nest(path []string, value any) any {
	for i := len(path) - 1; i >= 0; i-- {
		value = InlineTable{{path[i], value}}
	}
	return value
}

// fits reports whether a table fits on a line.
func fits(key string, table InlineTable) bool { return len(assignment(key, table)) <= maxLine }

// addMember adds an assignment to an inline table.
func (d *document) addMember(v Value, key string, value any) {
	text := assignment(key, value)
	if n := len(v.Members); n > 0 {
		at := v.Members[n-1].To
		d.replace(at, at, ", "+text)
		return
	}
	d.replace(v.From, v.To, "{ "+text+" }")
}

// addAssignment adds an assignment to an existing table other than an inline table.
func (d *document) addAssignment(path []string, value any) {
	parent := path[:len(path)-1]
	after, dotted := -1, -1 // the statements before the addition: a statement of the table itself, and a statement with a dotted key
	for i, st := range d.statements {
		switch {
		case equal(st.table, parent) && st.Kind == Assignment, st.Kind == Table && equal(st.path, parent):
			after = i
		case st.Kind == Assignment && hasPrefix(st.path, parent) && len(st.table) < len(parent):
			dotted = i
		}
	}
	text := assignment(path[len(path)-1], value)
	switch {
	case after >= 0:
		d.addLine(after, text)
	case dotted >= 0:
		keys := path[len(d.statements[dotted].table) : len(path)-1]
		d.addLine(dotted, quotePath(keys)+"."+text)
	case len(parent) == 0:
		d.addFirst(text)
	default:
		d.addSection(parent, InlineTable{{path[len(path)-1], value}})
	}
}

func equal(a, b []string) bool { return len(a) == len(b) && hasPrefix(a, b) }

// addLine adds a line after a statement.
func (d *document) addLine(after int, text string) {
	st := d.statements[after]
	at := d.lineEnd(st.To)
	if at > 0 && d.text[at-1] != '\n' {
		text = d.newline + d.indent(st.From) + text
	} else {
		text = d.indent(st.From) + text + d.newline
	}
	d.replace(at, at, text)
}

// addFirst adds an assignment at the top of a text without an assignment before the first table.
func (d *document) addFirst(text string) {
	at := len(d.text)
	if len(d.statements) > 0 {
		at = d.lineStart(d.statements[0].From)
		if above := d.commentsAbove(at); above > 0 {
			at = above
		}
		text += d.newline
	} else if at > 0 && d.text[at-1] != '\n' {
		text = d.newline + text
	}
	d.replace(at, at, text+d.newline)
}

// addSection adds a table with a header: after the last sibling, or at the end.
func (d *document) addSection(path []string, table InlineTable) {
	at := len(d.text)
	if i := d.lastSibling(path); i >= 0 {
		at = d.sectionEnd(i)
	}
	before, after := d.text[:at], d.text[at:]
	var b strings.Builder
	b.WriteString(before)
	if before != "" && !strings.HasSuffix(before, "\n") {
		b.WriteString(d.newline)
	}
	if trimmed := strings.TrimRight(before, " \t\r\n"); trimmed != "" && strings.Count(before[len(trimmed):], "\n") < 2 {
		b.WriteString(d.newline)
	}
	d.writeSection(&b, path, table)
	if line, _, _ := strings.Cut(after, "\n"); strings.TrimSpace(line) != "" {
		b.WriteString(d.newline)
	}
	b.WriteString(after)
	d.setText(b.String())
}

// lastSibling returns the index of the last statement of the last section with the longest common
// beginning with the given path, or -1 without a common beginning.
func (d *document) lastSibling(path []string) int {
	for n := len(path) - 1; n > 0; n-- {
		for i := len(d.statements) - 1; i >= 0; i-- {
			if hasPrefix(d.statements[i].table, path[:n]) {
				return i
			}
		}
	}
	return -1
}

// writeSection writes a table with a header, followed by the inner tables that do not fit on a
// line.
func (d *document) writeSection(b *strings.Builder, path []string, table InlineTable) {
	b.WriteString("[" + quotePath(path) + "]" + d.newline)
	var long []Entry
	for _, e := range table {
		if sub, ok := e.Value.(InlineTable); ok && !fits(e.Key, sub) {
			long = append(long, e)
			continue
		}
		b.WriteString(d.lines(e) + d.newline)
	}
	for _, e := range long {
		b.WriteString(d.newline)
		d.writeSection(b, join(path, e.Key), e.Value.(InlineTable))
	}
}

// lines returns an assignment, with a long array on several lines.
func (d *document) lines(e Entry) string {
	text := assignment(e.Key, e.Value)
	items, ok := plainValue(e.Value).([]any)
	if !ok || len(text) <= maxLine {
		return text
	}
	var b strings.Builder
	b.WriteString(QuoteKey(e.Key) + " = [" + d.newline)
	for _, item := range items {
		if _, ok := item.(map[string]any); ok {
			return text
		}
		b.WriteString("  " + inline(item) + "," + d.newline)
	}
	b.WriteString("]")
	return b.String()
}
