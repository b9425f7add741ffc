package clientconfig

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"
)

// setJSON returns text with the member at path set to raw JSON. Missing objects on the way are
// made. All other bytes stay, except for an added comma where needed. The new value is indented
// like its neighbours.
func setJSON(text []byte, path []string, raw []byte) ([]byte, error) {
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	style := styleOf(text)
	v, depth := root, 0
	for ; depth < len(path); depth++ {
		m, err := findMember(v, path[:depth], path[depth])
		if err != nil {
			return nil, err
		}
		if m == nil {
			break
		}
		v = &m.Value
	}
	if depth == len(path) { // an existing member: replace its value only
		if sameJSON(v.Value, raw) {
			return text, nil
		}
		v.Value = formatted(raw, style, depth)
		return pack(text, root), nil
	}
	for i := len(path) - 1; i > depth; i-- {
		name := []byte(hujson.String(path[i])) // Literal.String would unquote the text
		raw = fmt.Appendf(nil, "{%s:%s}", name, raw)
	}
	object := v.Value.(*hujson.Object) // findMember has checked the type
	appendMember(object, path[depth], formatted(raw, style, depth+1), style, depth+1)
	return pack(text, root), nil
}

// removeJSON returns text without the member at path, and without the comment on the same line
// after the member. removed reports whether the member existed.
func removeJSON(text []byte, path []string) (_ []byte, removed bool, err error) {
	root, err := parseJSON(text)
	if err != nil {
		return nil, false, err
	}
	v, last := root, len(path)-1
	for i, key := range path[:last] {
		m, err := findMember(v, path[:i], key)
		if err != nil {
			return nil, false, err
		}
		if m == nil {
			return text, false, nil
		}
		v = &m.Value
	}
	m, err := findMember(v, path[:last], path[last])
	if m == nil || err != nil {
		return text, false, err
	}
	deleteMember(v.Value.(*hujson.Object), m)
	return pack(text, root), true, nil
}

// pack returns the text of an edited tree. A byte order mark stays.
func pack(text []byte, root *hujson.Value) []byte {
	packed := root.Pack()
	if bytes.HasPrefix(text, utf8BOM) {
		return append(bytes.Clone(utf8BOM), packed...)
	}
	return packed
}

// findMember returns the member of an object with a key, nil for none. A value v at path other than
// an object is an error, and so is a repeated key: hosts disagree about which value counts.
func findMember(v *hujson.Value, path []string, key string) (*hujson.ObjectMember, error) {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		where := "the top level"
		if len(path) > 0 {
			where = strings.Join(path, ".")
		}
		return nil, &shapeError{where + " is not a JSON object"}
	}
	var found *hujson.ObjectMember
	for i := range object.Members {
		if memberName(object.Members[i]) != key {
			continue
		}
		if found != nil {
			return nil, &shapeError{fmt.Sprintf("the key %q is there twice (leave one out)", key)}
		}
		found = &object.Members[i]
	}
	return found, nil
}

// appendMember adds a member at the end of an object. depth is the number of objects around the
// member.
func appendMember(object *hujson.Object, key string, value hujson.ValueTrimmed, s style, depth int) {
	m := hujson.ObjectMember{
		Name:  hujson.Value{Value: hujson.String(key)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: value},
	}
	// AfterExtra can hold a comment on the last member, or a comment in an empty object. The
	// comment stays before the new member.
	before := bytes.TrimRight(object.AfterExtra, " \t\r\n")
	m.Name.BeforeExtra = hujson.Extra(string(before) + s.newline + strings.Repeat(s.indent, depth))
	if n := len(object.Members); n > 0 {
		if last := &object.Members[n-1].Value; last.AfterExtra != nil { // keep the form with a trailing comma
			m.Value.AfterExtra = hujson.Extra{}
		}
	}
	object.AfterExtra = hujson.Extra(s.newline + strings.Repeat(s.indent, depth-1))
	object.Members = append(object.Members, m)
}

// deleteMember removes a member of an object. Comments before the member stay, because they may
// belong to later members as well.
func deleteMember(object *hujson.Object, m *hujson.ObjectMember) {
	i, last := 0, len(object.Members)-1
	for &object.Members[i] != m {
		i++
	}
	if i < last {
		next := &object.Members[i+1].Name
		next.BeforeExtra = concat(m.Name.BeforeExtra, afterLine(next.BeforeExtra))
	} else {
		object.AfterExtra = concat(m.Name.BeforeExtra, afterLine(object.AfterExtra))
	}
	if i == last && i > 0 {
		before := &object.Members[i-1].Value
		if m.Value.AfterExtra == nil { // no trailing comma, so the new last member has none either
			object.AfterExtra = concat(before.AfterExtra, object.AfterExtra)
			before.AfterExtra = nil
		} else if before.AfterExtra == nil {
			before.AfterExtra = hujson.Extra{}
		}
	}
	object.Members = append(object.Members[:i], object.Members[i+1:]...)
	if len(object.Members) == 0 && len(bytes.TrimSpace(object.AfterExtra)) == 0 {
		object.AfterExtra = nil
	}
}

// concat joins two stretches of white space and comments. White space at the end of the
// first goes if the second begins with a line break.
func concat(before, after hujson.Extra) hujson.Extra {
	if bytes.HasPrefix(after, []byte("\n")) || bytes.HasPrefix(after, []byte("\r\n")) {
		before = bytes.TrimRight(before, " \t\r\n")
	}
	return append(before[:len(before):len(before)], after...)
}

// afterLine returns extra without a comment on its first line, which belongs to the value before.
func afterLine(extra hujson.Extra) hujson.Extra {
	i := bytes.IndexByte(extra, '\n')
	if i < 0 || bytes.Contains(extra[:i], []byte("/*")) {
		return extra
	}
	if i > 0 && extra[i-1] == '\r' {
		i--
	}
	return extra[i:]
}

// formatted returns the parsed form of raw JSON, indented for a member at a depth.
func formatted(raw []byte, s style, depth int) hujson.ValueTrimmed {
	value := jsontext.Value(bytes.Clone(raw))
	if err := value.Indent(jsontext.WithIndentPrefix(strings.Repeat(s.indent, depth)), jsontext.WithIndent(s.indent)); err != nil {
		value = raw // cannot happen: raw is valid
	}
	if s.newline != "\n" {
		value = bytes.ReplaceAll(value, []byte("\n"), []byte(s.newline))
	}
	v, err := hujson.Parse(value)
	if err != nil {
		panic("clientconfig: the new value is not JSON") // the value is from this package
	}
	return v.Value
}

// sameJSON reports whether a value equals raw, apart from the layout.
func sameJSON(v hujson.ValueTrimmed, raw []byte) bool {
	had := hujson.Value{Value: v}
	had = had.Clone()
	had.Minimize()
	want := jsontext.Value(bytes.Clone(raw))
	return want.Compact() == nil && bytes.Equal(had.Pack(), want)
}

// style is how a text is laid out.
type style struct{ indent, newline string }

// styleOf returns the layout of a text: the least white space before a member.
func styleOf(text []byte) style {
	s := style{newline: "\n"}
	first := true
	for line := range bytes.Lines(text) {
		if first && bytes.HasSuffix(line, []byte("\r\n")) {
			s.newline = "\r\n"
		}
		first = false
		rest := bytes.TrimLeft(line, " \t")
		n := len(line) - len(rest)
		if n > 0 && len(rest) > 0 && rest[0] == '"' && (s.indent == "" || n < len(s.indent)) {
			s.indent = string(line[:n])
		}
	}
	if s.indent == "" || len(s.indent) > 8 {
		s.indent = "  "
	}
	return s
}
