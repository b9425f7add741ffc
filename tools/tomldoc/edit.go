package tomldoc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrForm is matched by errors.Is if a text is written in a form in which the change cannot
// be made.
var ErrForm = errors.New("it is written in a form that cannot be edited by a program")

// PathError says where in a text a change failed.
type PathError struct {
	Path []string
	Err  error // [ErrForm], or an error of [Decode]
}

func (e *PathError) Error() string { return fmt.Sprintf("%s: %v", quotePath(e.Path), e.Err) }

// Unwrap returns the cause.
func (e *PathError) Unwrap() error { return e.Err }

const bom = "\ufeff"

// Set sets the value at a path: a string, bool, int64, float64, a []any or []string, or a
// [InlineTable]. Missing tables on the way are added. An existing table is changed key by key: keys
// missing from the new table are removed, and equal values stay as written. The error is a
// [*PathError]. A path through an array is an ErrForm.
func Set(text string, path []string, value any) (string, error) {
	return change(text, path, func(d *document) error {
		return d.set(path, value)
	}, func(root map[string]any) bool {
		return setValue(root, path, plainValue(value))
	})
}

// Remove removes the value at a path, with the comment lines directly above the header of a table
// and directly below its last line. Comments between blank lines and tables in comments stay. A
// missing value is no error. The error is a [*PathError].
func Remove(text string, path []string) (string, error) {
	return change(text, path, func(d *document) error {
		d.remove(path)
		return nil
	}, func(root map[string]any) bool {
		removeValue(root, path)
		return true
	})
}

// change edits a text, and compares the result with the values from apply.
func change(text string, path []string, edit func(*document) error, apply func(map[string]any) bool) (string, error) {
	fail := func(err error) (string, error) { return "", &PathError{path, err} }
	rest, marked := strings.CutPrefix(text, bom)
	want, err := decode(rest)
	if err != nil {
		return fail(err)
	}
	if len(path) == 0 || !apply(want) {
		return fail(ErrForm)
	}
	d := newDocument(rest)
	if err := edit(d); err != nil {
		return fail(err)
	}
	got, err := decode(d.text)
	if err != nil {
		return fail(ErrForm)
	}
	dropEmptied(want, got, path)
	if !same(got, want) {
		return fail(ErrForm)
	}
	if marked {
		return bom + d.text, nil
	}
	return d.text, nil
}

func decode(text string) (map[string]any, error) {
	root := map[string]any{}
	_, err := Decode(text, &root)
	return root, err
}

// Get returns the decoded value at a path, as decoded by the TOML library, and whether the value
// exists. The error is from [Decode].
func Get(text string, path []string) (any, bool, error) {
	root, err := decode(strings.TrimPrefix(text, bom))
	if err != nil {
		return nil, false, err
	}
	v, ok := lookup(root, path)
	return v, ok, nil
}

// lookup returns the value at a path in decoded values.
func lookup(root map[string]any, path []string) (any, bool) {
	var v any = root
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[key]; !ok {
			return nil, false
		}
	}
	return v, true
}

// quotePath writes a path as a dotted key.
func quotePath(path []string) string {
	keys := make([]string, len(path))
	for i, name := range path {
		keys[i] = QuoteKey(name)
	}
	return strings.Join(keys, ".")
}

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

// Append adds a table to the end of the array at a path, or adds the array: as a separate section,
// or between the brackets of the array. The error is a [*PathError].
func Append(text string, path []string, table InlineTable) (string, error) {
	return change(text, path, func(d *document) error {
		if array, ok := d.array(path); ok {
			d.addItem(array, inline(table))
			return nil
		}
		for n := range path {
			if _, ok := d.inlineTable(path[:n]); ok {
				return ErrForm // a section cannot extend the array
			}
		}
		d.addElement(path, table)
		return nil
	}, func(root map[string]any) bool {
		list, ok := listAt(root, path)
		return ok && setValue(root, path, append(list, plainValue(table)))
	})
}

// RemoveItem removes item number i, from 0, of the array at a path, with the comment lines directly
// above an item on separate lines. The error is a [*PathError].
func RemoveItem(text string, path []string, i int) (string, error) {
	return change(text, path, func(d *document) error {
		if array, ok := d.array(path); ok {
			d.removeItem(array, i)
			return nil
		}
		d.remove(join(path, element(i)))
		return nil
	}, func(root map[string]any) bool {
		list, ok := listAt(root, path)
		if !ok || i < 0 || i >= len(list) {
			return false
		}
		if list = slices.Delete(list, i, i+1); len(list) > 0 || isInline(text, path) {
			return setValue(root, path, list)
		}
		removeValue(root, path)
		return true
	})
}

// element returns the last part of the path of table number i in an array of tables; see
// headerPath.
func element(i int) string { return "\xff" + strconv.Itoa(i) }

// isInline reports whether the array at a path is written between brackets.
func isInline(text string, path []string) bool {
	_, ok := newDocument(strings.TrimPrefix(text, bom)).array(path)
	return ok
}

// listAt returns the array at a path of decoded values, nil without an array. ok is false for any
// other value.
func listAt(root map[string]any, path []string) (list []any, ok bool) {
	v, there := lookup(root, path)
	switch v := v.(type) {
	case []any:
		return slices.Clone(v), true
	case []map[string]any:
		for _, item := range v {
			list = append(list, item)
		}
		return list, true
	}
	return nil, !there
}

// array returns the array at a path if written between brackets.
func (d *document) array(path []string) (Value, bool) {
	for _, m := range d.find(path) {
		if v := m.Value; v.To > v.From && d.text[v.From] == '[' && m.Kind == Assignment && d.defines(m, path) {
			return v, true
		}
	}
	return Value{}, false
}

// addItem adds an item at the end of an array.
func (d *document) addItem(array Value, item string) {
	n := len(array.Items)
	if n == 0 {
		d.replace(array.From+1, array.From+1, item)
		return
	}
	last := array.Items[n-1].To
	first := d.text[array.From+1 : array.Items[0].From]
	end, comma := d.afterItem(last)
	switch {
	case !strings.Contains(first, "\n") || d.lineEnd(last) > array.To: // the items are not on separate lines
		d.replace(last, last, ", "+item)
	case comma:
		d.replace(end, end, d.indent(array.Items[n-1].From)+item+","+d.newline)
	default:
		d.replace(end, end, d.indent(array.Items[n-1].From)+item+d.newline)
		d.replace(last, last, ",")
	}
}

// afterItem returns the beginning of the line after the last item of an array, which ends at
// a position, and whether a comma follows the item. The comma may be on another line.
func (d *document) afterItem(at int) (lineEnd int, comma bool) {
	for i := at; i < len(d.text); i++ {
		switch d.text[i] {
		case ',':
			return d.lineEnd(i), true
		case '#':
			i = d.lineEnd(i) - 1
		case ' ', '\t', '\r', '\n':
		default:
			return d.lineEnd(at), false
		}
	}
	return d.lineEnd(at), false
}

// removeItem removes an item of an array, with a comma before or after the item.
func (d *document) removeItem(array Value, i int) {
	item := array.Items[i]
	from, to := d.lineStart(item.From), d.lineEnd(item.To)
	rest := strings.TrimSpace(d.text[item.To:min(to, array.To)])
	rest = strings.TrimSpace(strings.TrimPrefix(rest, ","))
	own := from > array.From && to < array.To && strings.TrimSpace(d.text[from:item.From]) == "" && (rest == "" || rest[0] == '#')
	switch _, comma := d.afterItem(item.To); {
	case own && (comma || i == 0):
		d.replace(d.commentsAbove(from), to, "")
	case i+1 < len(array.Items):
		d.replace(item.From, array.Items[i+1].From, "")
	case i > 0:
		d.replace(array.Items[i-1].To, item.To, "")
	default:
		d.replace(item.From, item.To, "")
	}
}

// addElement adds a section with a table of an array.
func (d *document) addElement(path []string, table InlineTable) {
	at := len(d.text)
	if i := d.lastSibling(join(path, element(0))); i >= 0 {
		at = d.sectionEnd(i)
	}
	before, after := d.text[:at], d.text[at:]
	var b strings.Builder
	b.WriteString(before)
	if before != "" && !strings.HasSuffix(before, "\n") {
		b.WriteString(d.newline)
	}
	if strings.TrimSpace(before) != "" {
		b.WriteString(d.newline)
	}
	b.WriteString("[[" + quotePath(path) + "]]" + d.newline)
	for _, e := range table {
		b.WriteString(assignment(e.Key, e.Value) + d.newline)
	}
	if line, _, _ := strings.Cut(after, "\n"); strings.TrimSpace(line) != "" {
		b.WriteString(d.newline)
	}
	b.WriteString(after)
	d.setText(b.String())
}

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
