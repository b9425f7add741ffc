package cassette

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// Suffix is the suffix of the file names of cassettes.
const Suffix = ".cassette.toml"

// maxFile is the size of the largest readable file, in bytes.
const maxFile = 64 << 20

// Problem is an error in a file. Read and Parse return all problems in one error (see errors.Join),
// each on a line.
type Problem struct {
	File         string
	Line, Column int    // from 1, in code points; 0 if the position is not known
	Key          string // "interaction 2: params"; "" for the file as a whole
	Text         string
	Err          error // the cause, or nil
}

// Error returns a line, for example
//
//	a.cassette.toml:7:1: interaction 2: delay "1" has no unit
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Key != "" {
		b.WriteString(p.Key + " ")
	}
	return b.String() + p.Text
}

// Unwrap returns the cause, or nil.
func (p *Problem) Unwrap() error { return p.Err }

// Read reads a file. The errors are of type *Problem.
func Read(ctx context.Context, at regular.Place) (*Cassette, error) {
	data, err := at.Read(ctx, maxFile)
	if err != nil {
		return nil, unreadable(at.String(), err)
	}
	return Parse(at.String(), data)
}

func unreadable(path string, err error) error {
	text := err.Error()
	var cause *os.PathError
	if errors.As(err, &cause) {
		text = cause.Err.Error()
	}
	return &Problem{File: path, Text: "cannot be read: " + text, Err: err}
}

// arrayKey is the key of the array of interactions.
const arrayKey = "interaction"

// Parse reads the text of a file. name is the file's name for messages. The errors are of type
// *Problem.
func Parse(name string, data []byte) (*Cassette, error) {
	text := string(bytes.TrimPrefix(data, []byte("\ufeff")))
	f := &file{name: name, positions: &positions{text: text}}
	var root map[string]any
	if _, err := tomldoc.Decode(text, &root); err != nil {
		return nil, f.syntaxProblem(err)
	}
	f.positions = findPositions(text, arrayKey)
	return f.read(root)
}

// syntaxProblem returns the Problem for an error of the TOML decoder.
func (f *file) syntaxProblem(err error) *Problem {
	p := &Problem{File: f.name, Text: strings.TrimPrefix(err.Error(), "toml: "), Err: err}
	if guarded := new(tomldoc.Error); errors.As(err, &guarded) {
		p.Line, p.Column = f.positions.line(guarded.Offset)
		p.Text = guarded.Message()
		if guarded.Deep {
			p.Text += " (write JSON text instead, under a key that ends in _json)"
		}
	}
	if syntax := new(toml.ParseError); errors.As(err, syntax) {
		p.Text = strings.TrimSuffix(syntax.Message, ".")
		p.Line, p.Column = f.positions.line(syntax.Position.Start)
	}
	return p
}

// file is a file during reading.
type file struct {
	name      string
	positions *positions
	errs      []error
}

func (f *file) read(root map[string]any) (*Cassette, error) {
	top := fields{table: root}
	top.checkKeys([]string{"times", arrayKey})
	times := top.count("times")
	if top.err != nil {
		f.problem(0, "", top.err)
	}
	tables, ok := tablesOf(root[arrayKey])
	if !ok {
		f.problem(0, "", &FieldError{Key: arrayKey, Text: "is not an array of tables ([[interaction]])"})
	}
	all := make([]Interaction, 0, len(tables))
	for n, table := range tables {
		if _, own := table["times"]; !own && times > 0 {
			table["times"] = int64(times)
		}
		i, err := FromTOML(table, Exact)
		if err != nil {
			f.problem(n+1, fmt.Sprintf("interaction %d: ", n+1), err)
			continue
		}
		i.From = f.name
		if n+1 < len(f.positions.tables) {
			line, _ := f.positions.line(f.positions.tables[n+1].offset)
			i.From = fmt.Sprintf("%s:%d", f.name, line)
		}
		all = append(all, i)
	}
	if f.errs != nil {
		return nil, errors.Join(f.errs...)
	}
	return New(all...)
}

// tablesOf returns the tables of an array, in any form of writing.
func tablesOf(v any) (tables []map[string]any, ok bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case []map[string]any:
		return v, true
	case []any:
		for _, item := range v {
			table, ok := item.(map[string]any)
			if !ok {
				return nil, false
			}
			tables = append(tables, table)
		}
		return tables, true
	}
	return nil, false
}

// problem records an error in a table. Table 0 is the file itself.
func (f *file) problem(table int, prefix string, err error) {
	p := &Problem{File: f.name, Key: strings.TrimSuffix(prefix, " "), Text: err.Error(), Err: err}
	f.errs = append(f.errs, p)
	if table >= len(f.positions.tables) { // an inline array: [{…}, …]
		p.Line, p.Column = f.positions.line(f.positions.tables[0].keys[arrayKey].key)
		return
	}
	t := f.positions.tables[table]
	p.Line, p.Column = f.positions.line(t.offset)
	var field *FieldError
	if !errors.As(err, &field) {
		return
	}
	key, _, _ := strings.Cut(field.Key, ".")
	at, ok := t.keys[key]
	if !ok {
		at, ok = t.keys[key+"_json"]
	}
	if !ok {
		return
	}
	offset := at.key
	if start, plain := f.positions.content(at.value); plain && field.offset > 0 {
		offset = start + field.offset - 1
	}
	p.Line, p.Column = f.positions.line(offset)
}

// The TOML library does not report the positions of keys in the tables of an array. So
// we scan the text of a file, which the library has found valid, for these positions.

// positions holds the positions of the keys of a file.
type positions struct {
	text   string
	tables []tableAt // the file itself, then each [[interaction]]
	lines  []int     // offsets of the lines; nil before the first use
}

// tableAt is the position of a table and of the keys in the table, by the first part of their
// names.
type tableAt struct {
	offset int
	keys   map[string]keyAt
}

// keyAt is the position of a key and of the value, in bytes.
type keyAt struct{ key, value int }

// findPositions finds the keys of valid TOML. If the text is invalid, the positions
// after the error can be missing or wrong.
func findPositions(text, array string) *positions {
	s := scanner{text: text}
	p := &positions{text: text, tables: []tableAt{{keys: map[string]keyAt{}}}}
	under := "" // first part of the table's name within the interaction
	for {
		s.blank(true)
		start := s.at
		switch {
		case s.end():
			return p
		case s.has("["):
			double := s.has("[[")
			name := s.header()
			under = ""
			switch {
			case double && len(name) == 1 && name[0] == array:
				p.tables = append(p.tables, tableAt{offset: start, keys: map[string]keyAt{}})
				continue
			case len(name) > 1 && name[0] == array:
				under = name[1]
				p.add(len(p.tables)-1, under, keyAt{start, start})
			case len(name) > 0:
				under = name[0]
				p.add(0, under, keyAt{start, start})
			}
		default:
			name := s.key()
			s.skip("=")
			s.blank(false)
			value := s.at
			s.value()
			if under == "" && len(name) > 0 {
				p.add(len(p.tables)-1, name[0], keyAt{start, value})
			}
			if s.at == start {
				return p // the text is invalid
			}
		}
	}
}

func (p *positions) add(table int, key string, at keyAt) {
	if _, known := p.tables[table].keys[key]; !known {
		p.tables[table].keys[key] = at
	}
}

// line returns the line and the column, in code points, of an offset. Both count from 1.
func (p *positions) line(offset int) (line, column int) {
	offset = min(max(offset, 0), len(p.text))
	if p.lines == nil { // only once, since each line may have an error
		p.lines = []int{0}
		for i := range len(p.text) {
			if p.text[i] == '\n' {
				p.lines = append(p.lines, i+1)
			}
		}
	}
	line = sort.SearchInts(p.lines, offset+1)
	return line, 1 + utf8.RuneCountInString(p.text[p.lines[line-1]:offset])
}

// content returns the beginning of the text of the string at offset, and whether the text has no
// escapes.
func (p *positions) content(offset int) (int, bool) {
	rest := p.text[min(offset, len(p.text)):]
	switch {
	case strings.HasPrefix(rest, "'''\r\n"):
		return offset + 5, true
	case strings.HasPrefix(rest, "'''\n"):
		return offset + 4, true
	case strings.HasPrefix(rest, "'''"):
		return offset + 3, true
	case strings.HasPrefix(rest, "'"):
		return offset + 1, true
	}
	return offset, false
}

// scanner scans the text of valid TOML.
type scanner struct {
	text string
	at   int
}

func (s *scanner) end() bool { return s.at >= len(s.text) }

func (s *scanner) has(prefix string) bool { return strings.HasPrefix(s.text[s.at:], prefix) }

// skip skips a prefix, if present.
func (s *scanner) skip(prefix string) bool {
	if s.has(prefix) {
		s.at += len(prefix)
		return true
	}
	return false
}

// blank skips spaces and, if lines is set, also newlines and comments.
func (s *scanner) blank(lines bool) {
	for !s.end() {
		switch c := s.text[s.at]; {
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			s.at++
		case lines && c == '#':
			s.until("\n")
		default:
			return
		}
	}
}

// until skips everything up to and including the next mark, or to the end.
func (s *scanner) until(mark string) {
	if i := strings.Index(s.text[s.at:], mark); i >= 0 {
		s.at += i + len(mark)
	} else {
		s.at = len(s.text)
	}
}

// header reads [name] or [[name]].
func (s *scanner) header() []string {
	for s.skip("[") {
	}
	name := s.key()
	for s.skip("]") {
	}
	return name
}

// key reads a key, perhaps dotted.
func (s *scanner) key() (parts []string) {
	for {
		s.blank(false)
		start := s.at
		switch {
		case s.end():
			return parts
		case s.text[s.at] == '"' || s.text[s.at] == '\'':
			s.string()
			parts = append(parts, strings.Trim(s.text[start:s.at], `"'`))
		default:
			for !s.end() && !strings.ContainsRune(" \t\r\n.=]#", rune(s.text[s.at])) {
				s.at++
			}
			parts = append(parts, s.text[start:s.at])
		}
		s.blank(false)
		if !s.skip(".") {
			return parts
		}
	}
}

// value skips a value.
func (s *scanner) value() {
	depth := 0
	for !s.end() {
		switch c := s.text[s.at]; c {
		case '"', '\'':
			s.string()
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '#':
			s.until("\n")
			s.at-- // the end of the line
			if s.text[s.at] != '\n' {
				s.at++
				return
			}
			continue
		case '\n':
			if depth <= 0 {
				return
			}
		}
		s.at++
	}
}

// string skips a string of any of the four kinds.
func (s *scanner) string() {
	quote := s.text[s.at : s.at+1]
	if three := strings.Repeat(quote, 3); s.skip(three) {
		for !s.end() && !s.has(three) {
			s.char(quote)
		}
		for s.skip(quote) { // up to two more quotes belong to the text
		}
		return
	}
	s.at++
	for !s.end() && !s.has(quote) && !s.has("\n") {
		s.char(quote)
	}
	s.skip(quote)
}

// char skips a character of a string.
func (s *scanner) char(quote string) {
	if quote == `"` && s.has(`\`) {
		s.at++
	}
	s.at = min(s.at+1, len(s.text))
}
