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

// Span is a part of a text, from a byte offset up to another.
type Span struct{ From, To int }

// Statement is the header of a table, or an assignment: at the top level of a text, or in an inline
// table. The span is from the first byte of the key or bracket to the end of the value or bracket.
type Statement struct {
	Span
	Kind Kind
	// Keys is the name of the table, or the dotted key of the assignment.
	Keys []Key
	// Value is the value of an assignment.
	Value Value
}

// Kind is a kind of statement.
type Kind int

// The kinds of statements.
const (
	Assignment Kind = iota // key = value
	Table                  // [name]
	ArrayTable             // [[name]]
)

// Key is a part of a dotted key. The span covers the key as written, with quotes.
type Key struct {
	Span
	Name string
}

// Value is the location of a value. Items is nil except for arrays, Members is nil except for
// inline tables.
type Value struct {
	Span
	Items   []Value
	Members []Statement
}

// Scan returns the statements of a text accepted by [Decode], in order. For any other text the
// result may be incomplete or wrong, but the scan ends. A text nested too deep for Decode must not
// be scanned.
func Scan(text string) []Statement {
	s := &scanner{text: text}
	var all []Statement
	for s.skip(" \t\r\n"); s.pos < len(s.text); s.skip(" \t\r\n") {
		before := s.pos
		if s.text[s.pos] == '[' {
			all = append(all, s.header())
		} else if a, ok := s.assignment(); ok {
			all = append(all, a)
		}
		if s.pos == before {
			s.pos++
		}
	}
	return all
}

// scanner scans a text once.
type scanner struct {
	text string
	pos  int
}

// skip skips the given characters, and comments.
func (s *scanner) skip(white string) {
	for s.pos < len(s.text) {
		switch {
		case strings.IndexByte(white, s.text[s.pos]) >= 0:
			s.pos++
		case s.text[s.pos] == '#':
			if end := strings.IndexByte(s.text[s.pos:], '\n'); end >= 0 {
				s.pos += end
			} else {
				s.pos = len(s.text)
			}
		default:
			return
		}
	}
}

// take skips c if c is the next character.
func (s *scanner) take(c byte) bool {
	if s.pos < len(s.text) && s.text[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// header reads [a.b] or [[a.b]].
func (s *scanner) header() Statement {
	h := Statement{Span: Span{From: s.pos}, Kind: Table}
	s.take('[')
	if s.take('[') {
		h.Kind = ArrayTable
	}
	h.Keys = s.keys()
	s.take(']')
	if h.Kind == ArrayTable {
		s.take(']')
	}
	h.To = s.pos
	return h
}

// assignment reads key = value.
func (s *scanner) assignment() (a Statement, ok bool) {
	a.From = s.pos
	a.Keys = s.keys()
	if len(a.Keys) == 0 {
		return a, false
	}
	s.take('=')
	s.skip(" \t")
	a.Value = s.value()
	a.From, a.To = a.Keys[0].From, s.pos
	return a, true
}

// keys reads keys separated by dots.
func (s *scanner) keys() []Key {
	var keys []Key
	for {
		s.skip(" \t")
		from := s.pos
		if s.pos < len(s.text) && (s.text[s.pos] == '"' || s.text[s.pos] == '\'') {
			s.skipString(s.text[s.pos : s.pos+1])
		} else {
			for s.pos < len(s.text) && !strings.ContainsRune(" \t\r\n.=[]{},#\"'", rune(s.text[s.pos])) {
				s.pos++
			}
		}
		if s.pos == from {
			return keys
		}
		keys = append(keys, Key{Span{from, s.pos}, keyName(s.text[from:s.pos])})
		s.skip(" \t")
		if !s.take('.') {
			return keys
		}
	}
}

// keyName returns the key written as a bare or quoted key.
func keyName(written string) string {
	if len(written) < 2 || written[0] != '"' && written[0] != '\'' {
		return written
	}
	if written[0] == '\'' || !strings.Contains(written, `\`) {
		return written[1 : len(written)-1]
	}
	var v struct{ K string }
	if _, err := Decode("K="+written, &v); err != nil {
		return written
	}
	return v.K
}

// skipString skips a string with the given delimiters.
func (s *scanner) skipString(delimiter string) {
	s.pos += len(delimiter)
	for s.pos < len(s.text) {
		switch {
		case s.text[s.pos] == '\\' && delimiter[0] == '"':
			s.pos = min(s.pos+2, len(s.text))
		case strings.HasPrefix(s.text[s.pos:], delimiter):
			s.pos += len(delimiter)
			for n := 0; len(delimiter) == 3 && n < 2 && s.take(delimiter[0]); n++ { // quotes belonging to the text
			}
			return
		default:
			s.pos++
		}
	}
}

// value skips a value, and records the inner keys and items.
func (s *scanner) value() Value {
	v := Value{Span: Span{From: s.pos}}
	rest := s.text[s.pos:]
	switch {
	case strings.HasPrefix(rest, `"""`), strings.HasPrefix(rest, "'''"):
		s.skipString(rest[:3])
	case strings.HasPrefix(rest, `"`), strings.HasPrefix(rest, "'"):
		s.skipString(rest[:1])
	case s.take('['):
		v.Items = s.items()
	case s.take('{'):
		v.Members = s.members()
	default:
		end := strings.IndexAny(rest, ",]}#\r\n")
		if end < 0 {
			end = len(rest)
		}
		s.pos += len(strings.TrimRight(rest[:end], " \t"))
	}
	v.To = s.pos
	return v
}

const between = " \t\r\n,"

// items reads the values and the closing bracket of an array.
func (s *scanner) items() []Value {
	list := []Value{}
	for {
		s.skip(between)
		if s.pos >= len(s.text) || s.take(']') {
			return list
		}
		v := s.value()
		if v.To == v.From {
			s.pos++
		}
		list = append(list, v)
	}
}

// members reads the assignments and the closing brace of an inline table.
func (s *scanner) members() []Statement {
	list := []Statement{}
	for {
		s.skip(between)
		if s.pos >= len(s.text) || s.take('}') {
			return list
		}
		before := s.pos
		if a, ok := s.assignment(); ok {
			list = append(list, a)
		}
		if s.pos == before {
			s.pos++
		}
	}
}
