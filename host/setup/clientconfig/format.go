package clientconfig

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"

	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

var utf8BOM = []byte("\ufeff")

// parseJSON parses JSON with comments and trailing commas. An empty text is an empty object, as in
// the hosts. The result refers to data.
func parseJSON(data []byte) (*hujson.Value, error) {
	data = bytes.TrimPrefix(data, utf8BOM)
	if err := checkDepth(data); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return &hujson.Value{Value: &hujson.Object{}, AfterExtra: hujson.Extra("\n")}, nil
	}
	// The parser refuses a comment at the end without a line break.
	closed := append(data[:len(data):len(data)], '\n')
	v, err := hujson.Parse(closed)
	if err != nil {
		return nil, jsonError(err)
	}
	v.AfterExtra = bytes.TrimSuffix(v.AfterExtra, []byte("\n"))
	return &v, nil
}

// jsonError returns an error of the parser without quoted text.
func jsonError(err error) error {
	e := &SyntaxError{Text: "is not valid JSON"}
	// The parser has no other way to tell the position.
	if n, _ := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &e.Line, &e.Column); n < 2 {
		e.Line, e.Column = 0, 0
	}
	return e
}

// checkDepth refuses too deep nesting: the parser recurses. checkDepth counts brackets outside of
// strings and comments.
func checkDepth(data []byte) error {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '/':
			i = skipComment(data, i)
		case '{', '[':
			if depth++; depth > maxDepth {
				line := 1 + bytes.Count(data[:i], []byte("\n"))
				return &SyntaxError{
					Line: line, Column: i - bytes.LastIndexByte(data[:i], '\n'),
					Text: fmt.Sprintf("is nested deeper than %d levels", maxDepth),
				}
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// skipComment returns the offset of the last byte of the comment at i, or i.
func skipComment(data []byte, i int) int {
	for _, c := range []struct{ begin, end string }{{"//", "\n"}, {"/*", "*/"}} {
		rest, ok := bytes.CutPrefix(data[i:], []byte(c.begin))
		if !ok {
			continue
		}
		at := bytes.Index(rest, []byte(c.end))
		if at < 0 {
			return len(data)
		}
		return i + len(c.begin) + at + len(c.end) - 1
	}
	return i
}

// readJSON converts a text to a tree. The top level must be an object.
func readJSON(data []byte) (*object, error) {
	v, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	root, ok := fromJSON(v.Value).(*object)
	if !ok {
		return nil, &shapeError{"does not contain a JSON object"}
	}
	return root, nil
}

// fromJSON converts a value of the parser.
func fromJSON(v hujson.ValueTrimmed) any {
	switch v := v.(type) {
	case *hujson.Object:
		o := newObject()
		for _, m := range v.Members {
			o.set(memberName(m), fromJSON(m.Value.Value))
		}
		return o
	case *hujson.Array:
		list := make([]any, len(v.Elements))
		for i, e := range v.Elements {
			list[i] = fromJSON(e.Value)
		}
		return list
	case hujson.Literal:
		switch v.Kind() {
		case '"':
			return v.String()
		case 't', 'f':
			return v.Bool()
		case '0':
			return number(v)
		}
	}
	return nil
}

func memberName(m hujson.ObjectMember) string {
	name, _ := m.Name.Value.(hujson.Literal)
	return name.String()
}

// object is an object of JSON or a table of TOML. The values are string, bool, number,
// []any, *object, and nil for everything else.
type object struct {
	keys   []string
	fields map[string]any
}

// number is a number as in the file.
type number string

func newObject() *object { return &object{fields: map[string]any{}} }

// set sets a key. The last value of a repeated key counts, as in all hosts.
func (o *object) set(key string, v any) {
	if _, twice := o.fields[key]; !twice {
		o.keys = append(o.keys, key)
	}
	o.fields[key] = v
}

// at returns the object at a path, nil for none.
func (o *object) at(path ...string) *object {
	for _, key := range path {
		if o == nil {
			return nil
		}
		o, _ = o.fields[key].(*object)
	}
	return o
}

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

// readTOML converts a text to a tree.
func readTOML(data []byte) (*object, error) {
	var root map[string]any
	md, err := tomldoc.Decode(string(bytes.TrimPrefix(data, utf8BOM)), &root)
	if guarded := new(tomldoc.Error); errors.As(err, &guarded) {
		return nil, &SyntaxError{Line: guarded.Line, Column: guarded.Column, Text: guarded.Message()}
	}
	if err != nil {
		e := &SyntaxError{Text: "is not valid TOML"}
		if parse := (toml.ParseError{}); errors.As(err, &parse) {
			e.Line, e.Column = parse.Position.Line, parse.Position.Col
		}
		return nil, e
	}
	order := map[string]int{} // the library decodes to maps; this is where each key came
	for i, key := range md.Keys() {
		if _, known := order[pathID(key)]; !known {
			order[pathID(key)] = i
		}
	}
	return fromTable(nil, root, order), nil
}

// pathID encodes a path of keys as a string.
func pathID(path []string) string { return fmt.Sprintf("%q", path) }

// fromTable converts the table at path.
func fromTable(path []string, m map[string]any, order map[string]int) *object {
	o := newObject()
	at := func(key string) int { return order[pathID(append(path[:len(path):len(path)], key))] }
	for _, key := range slices.SortedStableFunc(maps.Keys(m), func(a, b string) int { return at(a) - at(b) }) {
		o.set(key, fromTOML(append(path[:len(path):len(path)], key), m[key], order))
	}
	return o
}

func fromTOML(path []string, v any, order map[string]int) any {
	switch v := v.(type) {
	case map[string]any:
		return fromTable(path, v, order)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = fromTOML(path, item, order)
		}
		return list
	case []map[string]any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = fromTable(path, item, order)
		}
		return list
	case int64, float64:
		return number(fmt.Sprint(v))
	case string, bool:
		return v
	}
	return nil // dates and times
}

// setCodex returns text, whose tree is root, with the table of the entry. Keys of the table that
// the product does not set stay.
func setCodex(text []byte, root *object, path []string, e *Entry) (_ []byte, err error) {
	edited := string(bytes.TrimPrefix(text, utf8BOM))
	set := func(value any, keys ...string) {
		if err == nil {
			edited, err = tomldoc.Set(edited, append(path[:len(path):len(path)], keys...), value)
		}
	}
	if root.at(path...) == nil {
		set(e.toml())
		return withBOM(text, edited), err
	}
	set(e.Command, "command")
	set(orEmpty(e.Args), "args")
	for _, s := range e.Env {
		set(s.Value, "env", s.Name)
	}
	if e.Pass != nil {
		set(e.Pass, "env_vars")
	}
	enable(root.at(path...), set)
	return withBOM(text, edited), err
}

// toml returns the entry as a table of Codex.
func (e *Entry) toml() tomldoc.InlineTable {
	t := tomldoc.InlineTable{{Key: "command", Value: e.Command}, {Key: "args", Value: orEmpty(e.Args)}}
	if e.Pass != nil {
		t = append(t, tomldoc.Entry{Key: "env_vars", Value: e.Pass})
	}
	if len(e.Env) > 0 {
		var env tomldoc.InlineTable
		for _, s := range e.Env {
			env = append(env, tomldoc.Entry{Key: s.Name, Value: s.Value})
		}
		t = append(t, tomldoc.Entry{Key: "env", Value: env})
	}
	return t
}

// removeTOML returns text without the table at path, and whether the table existed.
func removeTOML(text []byte, path []string) (_ []byte, removed bool, err error) {
	root, err := readTOML(text)
	if err != nil {
		return nil, false, err
	}
	parent := root.at(path[:len(path)-1]...)
	if parent == nil || parent.fields[path[len(path)-1]] == nil {
		return text, false, nil
	}
	edited, err := tomldoc.Remove(string(bytes.TrimPrefix(text, utf8BOM)), path)
	if err != nil {
		return nil, false, err
	}
	return withBOM(text, edited), true, nil
}

// withBOM gives an edited text the byte order mark of the original.
func withBOM(text []byte, edited string) []byte {
	if bytes.HasPrefix(text, utf8BOM) {
		edited = string(utf8BOM) + edited
	}
	return []byte(edited)
}
