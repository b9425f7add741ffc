package cassette

import (
	"sort"
	"strings"
	"unicode/utf8"
)

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
