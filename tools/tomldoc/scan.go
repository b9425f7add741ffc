package tomldoc

import "strings"

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
