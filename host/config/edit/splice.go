package edit

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonValue is where a value is in a JSON text.
type jsonValue struct {
	from, to int
	kind     jsontext.Kind
	members  []jsonMember // of an object
	items    []jsonValue  // of an array
}

// jsonMember is a member of an object. from is where its name begins.
type jsonMember struct {
	name  string
	from  int
	value jsonValue
}

// member returns the value of a member.
func (v *jsonValue) member(name string) (*jsonValue, bool) {
	for i := range v.members {
		if v.members[i].name == name {
			return &v.members[i].value, true
		}
	}
	return nil, false
}

// scanJSON finds the values of a text, which must be JSON without duplicate names.
func scanJSON(text string) (*jsonValue, error) {
	d := jsontext.NewDecoder(strings.NewReader(text))
	s := jsonScanner{text: text, d: d}
	v, err := s.value()
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the end")
	}
	return v, nil
}

type jsonScanner struct {
	text string
	d    *jsontext.Decoder
}

// next returns where the next token begins.
func (s *jsonScanner) next() int {
	at := int(s.d.InputOffset())
	return at + len(s.text[at:]) - len(strings.TrimLeft(s.text[at:], " \t\r\n,:"))
}

func (s *jsonScanner) value() (*jsonValue, error) {
	v := &jsonValue{from: s.next()}
	token, err := s.d.ReadToken()
	if err != nil {
		return nil, err
	}
	v.kind = token.Kind()
	switch v.kind {
	case '{':
		for s.d.PeekKind() == '"' {
			m := jsonMember{from: s.next()}
			name, err := s.d.ReadToken()
			if err != nil {
				return nil, err
			}
			m.name = name.String()
			value, err := s.value()
			if err != nil {
				return nil, err
			}
			m.value = *value
			v.members = append(v.members, m)
		}
	case '[':
		for k := s.d.PeekKind(); k != ']' && k != 0; k = s.d.PeekKind() {
			item, err := s.value()
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, *item)
		}
	}
	if v.kind == '{' || v.kind == '[' {
		if _, err := s.d.ReadToken(); err != nil {
			return nil, err
		}
	}
	v.to = int(s.d.InputOffset())
	return v, nil
}

// layout is how a text is laid out.
type layout struct{ indent, newline string }

func layoutOf(text string) layout {
	l := layout{indent: "  ", newline: "\n"}
	first, rest, _ := strings.Cut(text, "\n")
	if strings.HasSuffix(first, "\r") {
		l.newline = "\r\n"
	}
	if n := len(rest) - len(strings.TrimLeft(rest, " \t")); n > 0 && n <= 8 {
		l.indent = rest[:n]
	}
	return l
}

// depthIndent returns the white space at the beginning of the line with a position.
func depthIndent(text string, at int) string {
	line := text[strings.LastIndexByte(text[:at], '\n')+1 : at]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// render writes a JSON value on several lines, for a place in a line with the given indent.
func (l layout) render(raw []byte, indent string) string {
	value := jsontext.Value(bytes.Clone(raw))
	if err := value.Indent(jsontext.WithIndentPrefix(indent), jsontext.WithIndent(l.indent)); err != nil {
		return string(raw) // cannot happen: it is ours
	}
	return strings.ReplaceAll(string(value), "\n", l.newline)
}

// insert adds an item or a member (with its name) at the end of an array or object. render
// writes it for a line with the given indent.
func (l layout) insert(text string, into *jsonValue, render func(indent string) string) string {
	end, last := into.to-1, -1
	if n := len(into.members); n > 0 {
		last = into.members[n-1].value.to
	} else if n := len(into.items); n > 0 {
		last = into.items[n-1].to
	}
	if last < 0 {
		outer := depthIndent(text, into.from)
		return text[:into.from+1] + l.newline + outer + l.indent + render(outer+l.indent) + l.newline + outer + text[end:]
	}
	var first int
	if len(into.members) > 0 {
		first = into.members[0].from
	} else {
		first = into.items[0].from
	}
	if gap := text[into.from+1 : first]; !strings.Contains(gap, "\n") { // all on one line
		return text[:last] + ", " + render(depthIndent(text, last)) + text[last:]
	}
	inner := depthIndent(text, first)
	return text[:last] + "," + l.newline + inner + render(inner) + text[last:]
}

// cut removes an item or member, number i of those that begin at from and end at to, with
// one of the commas around it.
func cut(text string, from, to []int, i int) string {
	switch {
	case i+1 < len(from):
		return text[:from[i]] + text[from[i+1]:]
	case i > 0:
		return text[:to[i-1]] + text[to[i]:]
	}
	before := strings.TrimRight(text[:from[i]], " \t\r\n")
	return before + strings.TrimLeft(text[to[i]:], " \t\r\n")
}
