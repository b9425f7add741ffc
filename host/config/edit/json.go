package edit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// The keys that list servers: the array of the specification, which may be an object too,
// and the object of MCP hosts.
const (
	serversKey = "upstreamServers"
	hostsKey   = "mcpServers"
)

const bom = "\ufeff"

// jsonDoc is a JSON configuration and where the values in it are.
type jsonDoc struct {
	text string // without a byte order mark
	root *jsonValue
}

// parseJSON reads the text. The error is that of package config.
func (f *File) parseJSON() (*jsonDoc, error) {
	d := &jsonDoc{text: strings.TrimPrefix(f.text, bom)}
	root, err := scanJSON(d.text)
	if err != nil || root.kind != '{' {
		return nil, f.asError(err)
	}
	d.root = root
	return d, nil
}

// server is a server in a JSON text.
type server struct {
	name      string
	value     *jsonValue
	container *jsonValue
	at        int // in the container
}

// servers returns the servers in order.
func (d *jsonDoc) servers() []server {
	var list []server
	for _, key := range []string{serversKey, hostsKey} {
		c, ok := d.root.member(key)
		if !ok {
			continue
		}
		for i := range c.members {
			list = append(list, server{c.members[i].name, &c.members[i].value, c, i})
		}
		for i := range c.items {
			if name, ok := c.items[i].member("name"); ok && name.kind == '"' {
				list = append(list, server{d.str(name), &c.items[i], c, i})
			}
		}
	}
	return list
}

// str returns the text of a string.
func (d *jsonDoc) str(v *jsonValue) string {
	b, err := jsontext.AppendUnquote(nil, d.text[v.from:v.to])
	if err != nil {
		return ""
	}
	return string(b)
}

func (d *jsonDoc) names() []string {
	var list []string
	for _, s := range d.servers() {
		list = append(list, s.name)
	}
	return list
}

// find returns the first server with a name.
func (d *jsonDoc) find(name string) (server, bool) {
	list := d.servers()
	i := slices.IndexFunc(list, func(s server) bool { return s.name == name })
	if i < 0 {
		return server{}, false
	}
	return list[i], true
}

// takeJSON replaces the text.
func (f *File) takeJSON(text string) error {
	if strings.HasPrefix(f.text, bom) {
		text = bom + text
	}
	f.text = text
	_, err := f.parseJSON()
	return err
}

func (f *File) putJSON(name string, s Server) error {
	d, err := f.parseJSON()
	if err != nil {
		return err
	}
	now, exists := d.find(name)
	table := s.table()
	if !exists {
		return f.addJSON(d, name, table)
	}
	for _, m := range now.value.members {
		has := slices.ContainsFunc(table, func(e tomldoc.Entry) bool { return e.Key == m.name })
		if !has && !(m.name == "name" && now.container.kind == '[') {
			if err := f.unsetJSON(name, m.name); err != nil {
				return err
			}
		}
	}
	for _, e := range table {
		if err := f.setJSON(name, e.Key, e.Value); err != nil {
			return err
		}
	}
	return nil
}

// addJSON adds a server where the others are: to the object of MCP hosts if there is one,
// otherwise to the key of the specification.
func (f *File) addJSON(d *jsonDoc, name string, table tomldoc.InlineTable) error {
	l := layoutOf(d.text)
	named := slices.Concat(tomldoc.InlineTable{{Key: "name", Value: name}}, table)
	c, ok := d.root.member(hostsKey)
	if !ok {
		c, ok = d.root.member(serversKey)
	}
	switch {
	case !ok:
		return f.takeJSON(l.insert(d.text, d.root, func(indent string) string {
			return quoteJSON(serversKey) + ": " + l.render(rawJSON([]any{named}), indent)
		}))
	case c.kind == '{':
		return f.takeJSON(l.insert(d.text, c, func(indent string) string {
			return quoteJSON(name) + ": " + l.render(rawJSON(table), indent)
		}))
	case c.kind == '[':
		return f.takeJSON(l.insert(d.text, c, func(indent string) string { return l.render(rawJSON(named), indent) }))
	}
	return &Error{f.path, fmt.Errorf("%s: %w", serversKey, tomldoc.ErrForm)}
}

func (f *File) setJSON(name, key string, value any) error {
	d, err := f.parseJSON()
	if err != nil {
		return err
	}
	s, _ := d.find(name)
	if s.value.kind != '{' {
		return &Error{f.path, fmt.Errorf("upstream %q: %w", name, tomldoc.ErrForm)}
	}
	l, raw := layoutOf(d.text), rawJSON(value)
	now, ok := s.value.member(key)
	if !ok {
		return f.takeJSON(l.insert(d.text, s.value, func(indent string) string {
			return quoteJSON(key) + ": " + l.render(raw, indent)
		}))
	}
	if sameJSON(d.text[now.from:now.to], raw) {
		return nil
	}
	return f.takeJSON(d.text[:now.from] + l.render(raw, depthIndent(d.text, now.from)) + d.text[now.to:])
}

func (f *File) unsetJSON(name, key string) error {
	d, err := f.parseJSON()
	if err != nil {
		return err
	}
	s, _ := d.find(name)
	for i, m := range s.value.members {
		if m.name == key {
			return f.takeJSON(cutChild(d.text, s.value, i))
		}
	}
	return nil
}

func (f *File) removeJSON(name string) error {
	d, err := f.parseJSON()
	if err != nil {
		return err
	}
	s, _ := d.find(name)
	return f.takeJSON(cutChild(d.text, s.container, s.at))
}

// cutChild removes child i of an array or object.
func cutChild(text string, of *jsonValue, i int) string {
	var from, to []int
	for _, m := range of.members {
		from, to = append(from, m.from), append(to, m.value.to)
	}
	for _, item := range of.items {
		from, to = append(from, item.from), append(to, item.to)
	}
	return cut(text, from, to, i)
}

// rawJSON returns a value as JSON.
func rawJSON(value any) []byte {
	var b bytes.Buffer
	writeJSON(&b, value)
	return b.Bytes()
}

func writeJSON(b *bytes.Buffer, value any) {
	switch v := value.(type) {
	case tomldoc.InlineTable:
		b.WriteByte('{')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quoteJSON(e.Key) + ":")
			writeJSON(b, e.Value)
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSON(b, item)
		}
		b.WriteByte(']')
	case string:
		b.WriteString(quoteJSON(v))
	default: // bool, int64, float64, []string
		raw, err := json.Marshal(v)
		if err != nil {
			panic(fmt.Sprintf("edit: a %T is no value", value)) // a mistake of the caller
		}
		b.Write(raw)
	}
}

func quoteJSON(s string) string {
	b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		panic("edit: valid UTF-8 is not quoted") // cannot happen
	}
	return string(b)
}

// sameJSON reports whether two values are equal, apart from layout.
func sameJSON(a string, b []byte) bool {
	x, y := jsontext.Value(a), jsontext.Value(bytes.Clone(b))
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}
