package pins

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

func TestDigest(t *testing.T) {
	// printf '%s' '{"inputSchema":{"type":"object"},"name":"echo"}' | sha256sum
	const want = "a85008edb2a361a39358ef9a40ccff45a3a4938fd90bb7d55450a050284e4723"
	got := Digest([]byte("{ \"name\":\"\\u0065cho\",\n\"inputSchema\":{\"type\":\"object\"}}"))
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCanonical(t *testing.T) {
	tests := []struct{ raw, want string }{ // "" is an error
		{` {"b": [1 , 2], "a" :null}`, `{"a":null,"b":[1,2]}`},
		{`{"€":1,"\r":2,"\ufb33":3,"1":4,"😀":5,"\u0080":6,"ö":7}`, // of RFC 8785, 3.2.3
			"{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}"},
		{`"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/\u2028"`, "\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\u2028\""},
		{`[1,1.0,1e0,10E-1,-0,0,0.0]`, `[1,1.0,1e0,10E-1,-0,0,0.0]`},
		{`[9007199254740993,1e400,0.1000000000000000055]`, `[9007199254740993,1e400,0.1000000000000000055]`},
		{`{"a":1,"a":1}`, ``},
		{`{"x":{"a":1,"\u0061":2}}`, ``},
		{`"\ud800"`, ``},
		{`"\udc00\ud800"`, ``},
		{"\"\xff\"", ``},
		{`{} {}`, ``},
		{`{"a":1,}`, ``},
		{``, ``},
		{strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), ``},
	}
	for _, test := range tests {
		raw := []byte(test.raw)
		got, err := Canonical(raw)
		if string(got) != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%.80s: got %q, %v, want %q", test.raw, got, err, test.want)
		}
		if string(raw) != test.raw {
			t.Errorf("%.80s: was changed to %q", test.raw, raw)
		}
	}
}

// TestDigestsDiffer has pairs that some readers understand alike, and others do not.
func TestDigestsDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, raw := range []string{
		`{"a":1}`, `{"a":1.0}`, `{"a":1e0}`, `{"a":1,"a":1}`, `{"a":1,"a":2}`, `{"a":2,"a":1}`, `{"a":2}`,
		`{"A":1}`, `{"a":1,"A":1}`, `{"a":1} ` + "\x00", `{"a":"1"}`, `{"a":9007199254740992}`, `{"a":9007199254740993}`,
		`{"a":"\ud800"}`, `{"a":"\ud801"}`, `{"a":"\ufffd"}`, "{\"a\":\"\xff\"}", "{\"a\":\"\xfe\"}",
		`{"a":"é"}`, `{"a":"e\u0301"}`, `{"a":0}`, `{"a":-0}`, `{"a":null}`, `{}`, `{"a":[]}`, `{"a":{}}`, ``, "\x00",
	} {
		d := Digest([]byte(raw))
		if other, twice := seen[d]; twice {
			t.Errorf("%q and %q have one digest", raw, other)
		}
		seen[d] = raw
	}
}

// FuzzDigest compares the digests of two texts with what a second reader makes of them, and
// writes the first in other ways.
func FuzzDigest(f *testing.F) {
	f.Add([]byte(`{"name":"a","inputSchema":{"required":["x"],"n":1.50}}`), []byte(`{"name":"a"}`), uint64(1))
	f.Add([]byte(`{"a":"\ud83d\ude00\/\u0000","b":[true,false,null,-1e5]}`), []byte(`{"b":[true,false,null,-1e5],"a":"😀/\u0000"}`), uint64(2))
	f.Add([]byte(`{"a":1,"a":2}`), []byte(`{"a":2,"a":1}`), uint64(3))
	f.Add([]byte(`"\ud800"`), []byte(`"\ud800 "`), uint64(4))
	f.Fuzz(func(t *testing.T, a, b []byte, seed uint64) {
		x, okX := readTree(a)
		y, okY := readTree(b)
		alike := okX && okY && x.same(y) || bytes.Equal(a, b)
		if (Digest(a) == Digest(b)) != alike {
			t.Fatalf("%q and %q: alike is %v, and the digests are %s and %s", a, b, alike, Digest(a), Digest(b))
		}
		if !okX {
			return
		}
		random := rand.New(rand.NewPCG(seed, 0))
		again := x.write(nil, random)
		if Digest(again) != Digest(a) {
			t.Fatalf("%q and %q have other digests", a, again)
		}
		if changed := x.changed(random).write(nil, random); Digest(changed) == Digest(a) {
			t.Fatalf("%q and %q have one digest", a, changed)
		}
	})
}

// tree is a JSON value: a number by its text, a string by its meaning.
type tree struct {
	kind  jsontext.Kind
	text  string   // of a string or number
	names []string // of the members of an object
	items []*tree
}

// readTree reads a value by tokens; ok is false if readers may understand it differently.
func readTree(raw []byte) (n *tree, ok bool) {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	n, ok = readNode(d)
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, false
	}
	return n, ok
}

func readNode(d *jsontext.Decoder) (*tree, bool) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, false
	}
	n := &tree{kind: token.Kind()}
	switch n.kind {
	case '"', '0':
		n.text = token.String()
	case '{', '[':
		for d.PeekKind() != n.kind+2 {
			if n.kind == '{' {
				name, err := d.ReadToken()
				if err != nil {
					return nil, false
				}
				n.names = append(n.names, name.String())
			}
			item, ok := readNode(d)
			if !ok {
				return nil, false
			}
			n.items = append(n.items, item)
		}
		_, err = d.ReadToken()
	}
	return n, err == nil
}

func (n *tree) same(o *tree) bool {
	if n.kind != o.kind || n.text != o.text || len(n.items) != len(o.items) {
		return false
	}
	for i, item := range n.items {
		at := i
		if n.kind == '{' {
			at = slices.Index(o.names, n.names[i])
		}
		if at < 0 || !item.same(o.items[at]) {
			return false
		}
	}
	return true
}

// write appends the value with random white space, escapes and order of members.
func (n *tree) write(b []byte, r *rand.Rand) []byte {
	b = append(b, []string{"", " ", "\n\t"}[r.IntN(3)]...)
	switch n.kind {
	case '"':
		b = writeString(b, n.text, r)
	case '0':
		b = append(b, n.text...)
	case '{', '[':
		b = append(b, byte(n.kind))
		order := make([]int, len(n.items))
		for i := range order {
			order[i] = i
		}
		if n.kind == '{' {
			order = r.Perm(len(n.items))
		}
		for i, at := range order {
			if i > 0 {
				b = append(b, ',')
			}
			if n.kind == '{' {
				b = append(writeString(b, n.names[at], r), ':')
			}
			b = n.items[at].write(b, r)
		}
		b = append(b, byte(n.kind+2))
	default:
		b = append(b, map[jsontext.Kind]string{'t': "true", 'f': "false", 'n': "null"}[n.kind]...)
	}
	return append(b, []string{"", "\r\n "}[r.IntN(2)]...)
}

func writeString(b []byte, s string, r *rand.Rand) []byte {
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c < ' ' || c == '"' || c == '\\' || r.IntN(3) == 0:
			for _, unit := range utf16.Encode([]rune{c}) {
				b = fmt.Appendf(b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], unit)
			}
		case c == '/' && r.IntN(2) == 0:
			b = append(b, `\/`...)
		default:
			b = append(b, string(c)...)
		}
	}
	return append(b, '"')
}

// changed returns the value with one random place changed.
func (n *tree) changed(r *rand.Rand) *tree {
	c := *n
	c.names, c.items = slices.Clone(n.names), slices.Clone(n.items)
	switch at := r.IntN(len(n.items) + 1); {
	case at < len(n.items):
		c.items[at] = n.items[at].changed(r)
	case n.kind == '"':
		c.text += []string{" ", "\u200b", "x", "\u0301"}[r.IntN(4)]
	case n.kind == '0':
		c.text += []string{"0", "1"}[r.IntN(2)]
		if n.text == "0" || n.text == "-0" {
			c.text = "1"
		}
	case n.kind == '[':
		c.items = append(c.items, &tree{kind: 'n'})
	case n.kind == '{':
		name := "x"
		for slices.Contains(c.names, name) {
			name += "x"
		}
		c.names, c.items = append(c.names, name), append(c.items, &tree{kind: 'n'})
	default:
		c.kind = map[jsontext.Kind]jsontext.Kind{'t': 'f', 'f': 'n', 'n': 't'}[n.kind]
	}
	return &c
}

// TestDefinitionsThatAreTooLarge checks that a definition that could not be compared with another
// one cannot be pinned either: it would always seem to be the same.
func TestDefinitionsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	definition := func(objects int) *Definition {
		return NewDefinition([]byte(`{"name":"a","inputSchema":{"examples":[` + strings.Repeat(`{"":1},`, objects) + `1]}}`))
	}
	var many *jsonvalue.TooManyError
	for _, d := range []*Definition{definition(60_000), NewDefinition([]byte(strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)))} {
		if err := d.Ambiguous(); err == nil || d.canonical() != nil || len(d.raw) > 100_000 && !errors.As(err, &many) {
			t.Errorf("%.50s: %v", d.raw, err)
		}
	}
	if err := definition(40_000).Ambiguous(); err != nil {
		t.Error(err)
	}
}

// confusable reports whether two names can be taken for each other.
func confusable(a, b string) bool {
	return slices.ContainsFunc(looks(a), func(l string) bool { return slices.Contains(looks(b), l) })
}

func TestConfusable(t *testing.T) {
	for _, pair := range [][2]string{
		{"read_file", "read_file"}, {"read_file", "Read_File"}, {"read_file", "READ_FILE"}, {"read_file", "read-file"},
		{"read_file", "read.file"}, {"read_file", "reаd_file"}, {"read_file", "read\u200b_file"}, {"read_file", "ｒead_file"},
		{"list", "1ist"}, {"list", "Iist"}, {"log0", "logO"}, {"é", "e\u0301"}, {"straße", "STRASSE"}, {"corn", "com"},
		{"read_file", "read\u2010file"}, {"read_file", "read file"}, {"a\ufe0fb", "ab"},
	} {
		if !confusable(pair[0], pair[1]) || !confusable(pair[1], pair[0]) {
			t.Errorf("%q and %q look different", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{
		{"read_file", "read_files"}, {"read_file", "readfile"}, {"get_a", "get_b"}, {"", "a"}, {"search", "research"},
	} {
		if confusable(pair[0], pair[1]) {
			t.Errorf("%q and %q look alike", pair[0], pair[1])
		}
	}
}
