package cassette

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// The TOML library does not tell where what is in which of several tables of an
// array. So the text of a file, which the library has found to be valid, is
// looked through for the places of keys.

// places are where the keys of a file stand.
type places struct {
	text   string
	tables []tableAt // the file itself, then each [[interaction]]
	lines  []int     // where lines begin; nil until it is asked for
}

// tableAt is where a table is, and its keys by their first part.
type tableAt struct {
	offset int
	keys   map[string]keyAt
}

// keyAt is a key, and the value behind it; offsets in bytes.
type keyAt struct{ key, value int }

// findPlaces finds the keys of valid TOML; what is not valid is read up to there,
// or beyond it in some way.
func findPlaces(text, array string) *places {
	s := scanner{text: text}
	p := &places{text: text, tables: []tableAt{{keys: map[string]keyAt{}}}}
	under := "" // first part of the table's name below the interaction
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
				p.note(len(p.tables)-1, under, keyAt{start, start})
			case len(name) > 0:
				under = name[0]
				p.note(0, under, keyAt{start, start})
			}
		default:
			name := s.key()
			s.skip("=")
			s.blank(false)
			value := s.at
			s.value()
			if under == "" && len(name) > 0 {
				p.note(len(p.tables)-1, name[0], keyAt{start, value})
			}
			if s.at == start {
				return p // it is not valid
			}
		}
	}
}

func (p *places) note(table int, key string, at keyAt) {
	if _, known := p.tables[table].keys[key]; !known {
		p.tables[table].keys[key] = at
	}
}

// line is the line and column, in code points, of an offset, from 1.
func (p *places) line(offset int) (line, column int) {
	offset = min(max(offset, 0), len(p.text))
	if p.lines == nil { // once: there may be as many questions as lines
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

// content is where the text of a string begins whose value is at offset, and
// whether the text stands there without escapes.
func (p *places) content(offset int) (int, bool) {
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

// scanner goes through the text of valid TOML.
type scanner struct {
	text string
	at   int
}

func (s *scanner) end() bool { return s.at >= len(s.text) }

func (s *scanner) has(prefix string) bool { return strings.HasPrefix(s.text[s.at:], prefix) }

// skip goes past a prefix, if it is there.
func (s *scanner) skip(prefix string) bool {
	if s.has(prefix) {
		s.at += len(prefix)
		return true
	}
	return false
}

// blank goes past space and, if lines is set, past ends of lines and comments.
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

// until goes past the next mark, or to the end.
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

// key reads a key that may be dotted.
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

// value goes past a value.
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

// string goes past a string of any of the four kinds.
func (s *scanner) string() {
	quote := s.text[s.at : s.at+1]
	if s.skip(strings.Repeat(quote, 3)) {
		for !s.end() && !s.has(strings.Repeat(quote, 3)) {
			s.char(quote)
		}
		for s.skip(quote) { // up to two belong to the text
		}
		return
	}
	s.at++
	for !s.end() && !s.has(quote) && !s.has("\n") {
		s.char(quote)
	}
	s.skip(quote)
}

// char goes past one character of a string.
func (s *scanner) char(quote string) {
	if quote == `"` && s.has(`\`) {
		s.at++
	}
	s.at = min(s.at+1, len(s.text))
}
