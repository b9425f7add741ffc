package discover

import (
	"bytes"
	"errors"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDocument is the size of the largest parsed schema, in bytes.
const maxDocument = 256 << 10

// maxNesting is the depth to which a document is parsed; deeper values are ignored.
const maxNesting = 64

var errDocument = errors.New("not a JSON document that can be read")

// node is a value in a JSON document. Members keep their order, and numbers their digits.
type node struct {
	kind    jsontext.Kind // as of tokens: { [ " 0 t f n
	raw     []byte
	members []member // of an object, the last of each name
	items   []*node  // of an array
}

type member struct {
	name  string
	value *node
}

// parse parses a document. The tree refers to raw.
func parse(raw []byte) (*node, error) {
	if len(raw) > maxDocument {
		return nil, errDocument
	}
	p := parser{raw, jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	n, err := p.value(maxNesting)
	if err != nil {
		return nil, errDocument
	}
	return n, nil
}

type parser struct {
	raw []byte
	d   *jsontext.Decoder
}

func (p *parser) value(depth int) (*node, error) {
	n := &node{kind: p.d.PeekKind()}
	if depth == 0 || n.kind != '{' && n.kind != '[' {
		v, err := p.d.ReadValue()
		end := p.d.InputOffset()
		if err == nil {
			n.raw = p.raw[int(end)-len(v) : end]
		}
		return n, err
	}
	if _, err := p.d.ReadToken(); err != nil {
		return n, err
	}
	start := p.d.InputOffset() - 1
	at := map[string]int{}
	for p.d.PeekKind() != n.kind+2 { // '}' is '{' + 2, ']' is '[' + 2
		var key string
		if n.kind == '{' {
			tok, err := p.d.ReadToken()
			if err != nil {
				return n, err
			}
			key = tok.String()
		}
		v, err := p.value(depth - 1)
		if err != nil {
			return n, err
		}
		i, again := at[key]
		switch {
		case n.kind == '[':
			n.items = append(n.items, v)
		case again:
			n.members[i].value = v
		default:
			at[key] = len(n.members)
			n.members = append(n.members, member{key, v})
		}
	}
	_, err := p.d.ReadToken()
	n.raw = p.raw[start:p.d.InputOffset()]
	return n, err
}

// get returns the member called name, or nil. n may be nil.
func (n *node) get(name string) *node {
	if n != nil {
		for _, m := range n.members {
			if m.name == name {
				return m.value
			}
		}
	}
	return nil
}

// text returns the value of a string, "" for other values.
func (n *node) text() string {
	if n == nil || n.kind != '"' {
		return ""
	}
	b, _ := jsontext.AppendUnquote(nil, n.raw) // invalid UTF-8 becomes U+FFFD
	return string(b)
}

// texts returns the strings in an array.
func (n *node) texts() []string {
	var all []string
	if n != nil {
		for _, item := range n.items {
			if item.kind == '"' {
				all = append(all, item.text())
			}
		}
	}
	return all
}

// propertyNames returns the names of the arguments in a raw inputSchema.
func propertyNames(schema []byte) []string {
	root, err := parse(schema)
	if err != nil {
		return nil
	}
	var names []string
	for _, m := range root.get("properties").object() {
		names = append(names, m.name)
	}
	return names
}

func (n *node) object() []member {
	if n == nil {
		return nil
	}
	return n.members
}

// schemaDocument is a schema and the targets of references within the schema.
type schemaDocument struct {
	root  *node
	named map[string]*node // by "#anchor" and by $id
}

func newSchemaDocument(root *node) *schemaDocument {
	d := &schemaDocument{root: root, named: map[string]*node{}}
	d.collect(root)
	return d
}

func (d *schemaDocument) collect(n *node) {
	for _, m := range n.members {
		switch id := m.value.text(); m.name {
		case "$anchor", "$dynamicAnchor":
			d.name("#"+id, n)
		case "$id", "id":
			if id != "" {
				d.name(strings.TrimSuffix(id, "#"), n)
			}
		}
		d.collect(m.value)
	}
	for _, item := range n.items {
		d.collect(item)
	}
}

func (d *schemaDocument) name(name string, n *node) {
	if d.named[name] == nil {
		d.named[name] = n
	}
}

// resolve returns the target of a reference; nil if the document does not have the target.
func (d *schemaDocument) resolve(ref string) *node {
	if n := d.named[strings.TrimSuffix(ref, "#")]; n != nil && ref != "" {
		return n
	}
	base, fragment, _ := strings.Cut(ref, "#")
	n := d.root
	if base != "" {
		if n = d.named[base]; n == nil {
			return nil
		}
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	if fragment == "" {
		return n
	}
	if fragment[0] != '/' {
		return d.named["#"+fragment]
	}
	for _, step := range strings.Split(fragment[1:], "/") {
		n = n.child(strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~"))
		if n == nil {
			return nil
		}
	}
	return n
}

// child follows a single step of a JSON pointer.
func (n *node) child(step string) *node {
	if n.kind != '[' {
		return n.get(step)
	}
	i := 0
	for _, c := range step {
		if i = 10*i + int(c-'0'); c < '0' || c > '9' || i >= len(n.items) {
			return nil
		}
	}
	if step == "" {
		return nil
	}
	return n.items[i]
}
