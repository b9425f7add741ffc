package tomldoc

import (
	"slices"
	"strconv"
	"strings"
)

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
