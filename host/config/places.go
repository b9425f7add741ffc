package config

import (
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// place is where a key and its value are in a text. For a table with a header of its own,
// value is empty.
type place struct{ key, value span }

// places records where the keys of a TOML file are, and the order of the keys in each
// table. The TOML library provides neither for tables in arrays.
type places struct {
	at    map[string]place    // by path, see pathID
	order map[string][]string // the keys of a table, by its path
	known map[string]bool     // paths in order
}

// indexKey returns the path element for item i of an array. It is not valid UTF-8, so no
// key can be the same.
func indexKey(i int) string { return "\xff" + strconv.Itoa(i) }

// pathID returns a map key for a path.
func pathID(path []string) string {
	if len(path) == 0 {
		return ""
	}
	return "\xfe" + strings.Join(path, "\xfe") // begins with a separator: the key "" is a path too
}

// findPlaces scans a text that the TOML library accepts. For any other text the result
// may be incomplete or wrong, but the scan ends.
func findPlaces(data string) *places {
	s := &placeScanner{
		text: data, arrays: map[string]int{},
		places: &places{at: map[string]place{}, order: map[string][]string{}, known: map[string]bool{}},
	}
	for s.skip(" \t\r\n"); s.pos < len(s.text); s.skip(" \t\r\n") {
		before := s.pos
		if s.text[s.pos] == '[' {
			s.header()
		} else {
			s.assignment(s.table)
		}
		if s.pos == before {
			s.pos++
		}
	}
	return s.places
}

// placeScanner scans a text once.
type placeScanner struct {
	*places
	text   string
	pos    int
	table  []string       // path of the table that assignments go to
	arrays map[string]int // how many tables each array of tables has so far
}

// skip skips the given characters, and comments.
func (s *placeScanner) skip(white string) {
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

// take skips c if it is the next character.
func (s *placeScanner) take(c byte) bool {
	if s.pos < len(s.text) && s.text[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// header reads [a.b] or [[a.b]] and makes it the table of the next assignments.
func (s *placeScanner) header() {
	s.take('[')
	many := s.take('[')
	parts, spans := s.keys()
	s.take(']')
	if many {
		s.take(']')
	}
	path := []string{}
	for i, part := range parts {
		path = s.addKey(path, part, spans[i])
		n := s.arrays[pathID(path)]
		if many && i == len(parts)-1 {
			s.arrays[pathID(path)] = n + 1
			path = append(path, indexKey(n))
			s.put(path, place{key: spans[i]})
		} else if n > 0 {
			path = append(path, indexKey(n-1))
		}
	}
	s.table = path
}

// assignment reads key = value into the table at the given path.
func (s *placeScanner) assignment(table []string) {
	parts, spans := s.keys()
	if len(parts) == 0 {
		return
	}
	path := append([]string{}, table...)
	for i, part := range parts {
		path = s.addKey(path, part, spans[i])
	}
	s.take('=')
	s.skip(" \t")
	from := s.pos
	s.value(path)
	s.at[pathID(path)] = place{spans[len(spans)-1], span{from, s.pos}}
}

// addKey returns the path of a key in a table, and records the key if it is new.
func (s *placeScanner) addKey(table []string, key string, at span) []string {
	path := append(table[:len(table):len(table)], key)
	if !s.known[pathID(path)] {
		s.known[pathID(path)] = true
		s.order[pathID(table)] = append(s.order[pathID(table)], key)
		s.put(path, place{key: at})
	}
	return path
}

func (s *placeScanner) put(path []string, p place) { s.at[pathID(path)] = p }

// keys reads keys that are separated by dots.
func (s *placeScanner) keys() (parts []string, spans []span) {
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
			return parts, spans
		}
		parts = append(parts, keyText(s.text[from:s.pos]))
		spans = append(spans, span{from, s.pos})
		s.skip(" \t")
		if !s.take('.') {
			return parts, spans
		}
	}
}

// keyText returns the key that is written as a bare or quoted key.
func keyText(written string) string {
	if len(written) < 2 || written[0] != '"' && written[0] != '\'' {
		return written
	}
	if written[0] == '\'' || !strings.Contains(written, `\`) {
		return written[1 : len(written)-1]
	}
	var v struct{ K string }
	if _, err := tomldoc.Decode("K="+written, &v); err != nil {
		return written
	}
	return v.K
}

// skipString skips a string with the given delimiters.
func (s *placeScanner) skipString(delimiter string) {
	s.pos += len(delimiter)
	for s.pos < len(s.text) {
		switch {
		case s.text[s.pos] == '\\' && delimiter[0] == '"':
			s.pos = min(s.pos+2, len(s.text))
		case strings.HasPrefix(s.text[s.pos:], delimiter):
			s.pos += len(delimiter)
			for n := 0; len(delimiter) == 3 && n < 2 && s.take(delimiter[0]); n++ { // quotes that belong to the text
			}
			return
		default:
			s.pos++
		}
	}
}

// value skips a value, and records the keys and items in it.
func (s *placeScanner) value(path []string) {
	rest := s.text[s.pos:]
	switch {
	case strings.HasPrefix(rest, `"""`), strings.HasPrefix(rest, "'''"):
		s.skipString(rest[:3])
	case strings.HasPrefix(rest, `"`), strings.HasPrefix(rest, "'"):
		s.skipString(rest[:1])
	case s.take('['):
		s.items(path)
	case s.take('{'):
		s.members(path)
	default:
		end := strings.IndexAny(rest, ",]}#\r\n")
		if end < 0 {
			end = len(rest)
		}
		s.pos += len(strings.TrimRight(rest[:end], " \t"))
	}
}

const between = " \t\r\n,"

func (s *placeScanner) items(path []string) {
	for i := 0; ; i++ {
		s.skip(between)
		if s.pos >= len(s.text) || s.take(']') {
			return
		}
		item := append(path[:len(path):len(path)], indexKey(i))
		from := s.pos
		s.value(item)
		if s.pos == from {
			s.pos++
		}
		s.put(item, place{span{from, s.pos}, span{from, s.pos}})
	}
}

func (s *placeScanner) members(path []string) {
	for {
		s.skip(between)
		if s.pos >= len(s.text) || s.take('}') {
			return
		}
		from := s.pos
		s.assignment(path)
		if s.pos == from {
			s.pos++
		}
	}
}
