package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LoadWithin reads a TOML file that holds settings of the configuration beside
// tables of somebody else's: a file of checks brings its own upstreams along.
// own reads those tables out of the file's top level; what it asks for is known
// there, in addition to the settings. Apart from Flag, which has no meaning
// here, opts and the environment count as for [Load].
//
// All problems are reported at once, joined, each a *[Problem] with a place
// where that is known. The bytes of data are not kept.
func LoadWithin(opts LoadOptions, name string, data []byte, own func(top *Section)) (*Config, error) {
	l, c := newLoader(opts), newConfig()
	if problem := l.within(c, name, data, own, opts.Unset); problem != nil {
		l.problems = append(l.problems, problem)
	}
	l.environment(c)
	if len(l.problems) > 0 {
		return nil, join(l.problems)
	}
	return c, nil
}

// ReadFile is the content of a file that [LoadWithin] can be given: of one that
// is not larger than a configuration may be. The error is a *[Problem].
func ReadFile(opts LoadOptions, name string) ([]byte, error) {
	data, err := readCapped(opts.context(), name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	return data, nil
}

func (l *loader) within(c *Config, name string, data []byte, own func(top *Section), unset func(string, *Problem)) *Problem {
	base, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return &Problem{File: name, Text: fmt.Sprintf("its directory cannot be told: %v", err), Err: err}
	}
	root, problem := parseTOML(data)
	if problem != nil {
		problem.File = name
		return problem
	}
	c.Path = name
	r := &reader{file: name, base: base, getenv: l.getenv, home: l.home, shown: c.shown, located: true, unset: unset}
	top := &table{r: r, node: root}
	own(&Section{t: top})
	decodeInto(top, c)
	c.Secrets = sortSecrets(r.secrets)
	c.warnings = append(c.warnings, r.warnings...)
	var secrets Masker // what was read by others may be quoted by them
	secrets.Add(r.secrets...)
	for _, p := range r.problems {
		p.Key, p.Text = secrets.Mask(p.Key), secrets.Mask(p.Text)
	}
	slices.SortStableFunc(r.problems, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	l.problems = append(l.problems, r.problems...)
	return nil
}

// Section is a table of a TOML file while it is read; see [LoadWithin]. Keys
// that are asked for are known, and Close reports the others. What has another
// type than is asked for, or is out of bounds, is reported and counts as not
// there.
type Section struct{ t *table }

// Span is a part of a file, from one byte offset up to another.
type Span struct{ From, To int }

// Has reports whether the table has a key, of any type.
func (s *Section) Has(key string) bool { return s.t.node.fields[key] != nil }

// Keys are those of the table, in the order of the file.
func (s *Section) Keys() []string { return s.t.node.keys }

// Know makes keys known that are read in another way, or not at all.
func (s *Section) Know(keys ...string) { s.t.know(keys...) }

// Problem reports what is wrong with a key, "" for the table itself.
func (s *Section) Problem(key, format string, args ...any) { s.t.problem(key, format, args...) }

// Name has messages call the table that from now on, instead of its key.
func (s *Section) Name(name string) { s.t.prefix = name + ": " }

// Place is where a key stands (the table itself for ""), zeroes if that is not
// known.
func (s *Section) Place(key string) (line, column int) {
	if n := s.t.find(key); n != nil {
		return n.position()
	}
	return 0, 0
}

// Written is where the value of a key is in the bytes of the file, and is
// empty if it is in no one place.
func (s *Section) Written(key string) Span {
	if n := s.t.node.fields[key]; n != nil {
		return Span{n.written.from, n.written.to}
	}
	return Span{}
}

// IsString reports whether a key is there and is a string.
func (s *Section) IsString(key string) bool { return s.is(key, kindString) }

// IsTable reports whether a key is there and is a table.
func (s *Section) IsTable(key string) bool { return s.is(key, kindTable) }

// IsArray reports whether a key is there and is an array.
func (s *Section) IsArray(key string) bool { return s.is(key, kindArray) }

func (s *Section) is(key string, k kind) bool {
	n := s.t.node.fields[key]
	return n != nil && n.kind == k
}

// Section is the table under a key, nil if there is none.
func (s *Section) Section(key string) *Section {
	if sub := s.t.sub(key); sub != nil {
		return &Section{sub}
	}
	return nil
}

// Sections are the tables of the array under a key.
func (s *Section) Sections(key string) []*Section {
	n := s.t.get(key, fmt.Sprintf("tables [[%s%s]]", s.t.prefix, key), kindArray)
	if n == nil {
		return nil
	}
	var list []*Section
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", key, i)
		if s.t.check(at, item, s.t.tableType(), kindTable) {
			list = append(list, &Section{&table{r: s.t.r, node: item, prefix: s.t.prefix + at + "."}})
		}
	}
	return list
}

// String is the string under a key, its variables expanded.
func (s *Section) String(key string) (string, bool) { return s.t.str(key) }

// Verbatim is the string under a key as it is written: for code, in which ${
// means nothing.
func (s *Section) Verbatim(key string) (string, bool) {
	n := s.t.get(key, "a string", kindString)
	if n == nil {
		return "", false
	}
	return n.text, true
}

// Strings are those of the array under a key, nil when there is none.
func (s *Section) Strings(key string) []string { return s.t.strs(key, s.t.public) }

// Path is the absolute path of a file under a key; what is relative is so to
// the directory of the file that is read.
func (s *Section) Path(key string) (string, bool) { return s.t.file(key) }

// Bool sets *v to the boolean under a key.
func (s *Section) Bool(key string, v *bool) { s.t.boolean(key, v) }

// Duration sets *v to the duration under a key, and reports whether there is one.
func (s *Section) Duration(key string, v *time.Duration, least, most time.Duration) bool {
	before := len(s.t.r.problems)
	s.t.duration(key, v, least, most)
	return s.Has(key) && len(s.t.r.problems) == before
}

// Size sets *v to the size in bytes under a key.
func (s *Section) Size(key string, v *uint64) { s.t.size(key, v, 1, 1<<62) }

// Number sets *v to the whole number under a key.
func (s *Section) Number(key string, v *uint64, least, most uint64) { s.t.number(key, v, least, most) }

// JSON is the value under a key, of whatever type, as JSON; nil when there is
// none. Variables in its strings are expanded; they are secret where their
// names or that of the member say so. What TOML does not have (null, large
// numbers) can be written as JSON text under the key with _json at the end.
func (s *Section) JSON(key string) []byte {
	s.t.know(key)
	if n := s.t.node.fields[key]; n != nil {
		if s.Has(key + jsonSuffix) {
			s.Problem(key, "cannot be together with %s%s (leave one out)", key, jsonSuffix)
		}
		return s.t.raw(key, n, s.t.named)
	}
	return s.t.jsonText(key + jsonSuffix)
}

// Object is JSON for a table.
func (s *Section) Object(key string) []byte {
	if s.Has(key) && !s.IsTable(key) {
		s.t.get(key, s.t.tableType(), kindTable)
		return nil
	}
	raw := s.JSON(key)
	if raw != nil && raw[0] != '{' {
		s.Problem(key+jsonSuffix, "is no JSON object")
		return nil
	}
	return raw
}

const jsonSuffix = "_json"

// jsonText is the JSON in the string under a key, nil if there is none.
func (t *table) jsonText(key string) []byte {
	n := t.get(key, "a string", kindString)
	if n == nil {
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(n.text)); err != nil {
		t.problem(key, "is no JSON: %v", err)
		return nil
	}
	return compact.Bytes()
}

// Close reports the keys that nobody has asked for. aliases are other names
// for known ones, in lower case without separators.
func (s *Section) Close(aliases map[string]string) { s.t.close(aliases) }

// find is the node at a key such as "a", "a[1]" or "a.b", the table's own for
// "", and nil when there is none.
func (t *table) find(key string) *node {
	n := t.node
	for key != "" && n != nil {
		if list, ok := strings.CutPrefix(key, "["); ok {
			at, rest, _ := strings.Cut(list, "]")
			i, err := strconv.Atoi(at)
			if err != nil || i < 0 || i >= len(n.items) {
				return nil
			}
			n, key = n.items[i], strings.TrimPrefix(rest, ".")
			continue
		}
		if whole := n.fields[key]; whole != nil { // a key may have dots in it
			return whole
		}
		end := strings.IndexAny(key, ".[")
		if end < 0 {
			return nil
		}
		n, key = n.fields[key[:end]], strings.TrimPrefix(key[end:], ".")
	}
	return n
}

// Values are those of the table as the TOML library decodes them, variables in
// strings expanded as JSON has them. All keys are known then.
func (s *Section) Values() map[string]any {
	v, _ := s.t.decoded("", "", s.t.node).(map[string]any)
	s.t.know(s.t.node.keys...)
	return v
}

// decoded is a node as a Go value; a date or time is struct{}{}.
func (t *table) decoded(key, name string, n *node) any {
	switch n.kind {
	case kindTable:
		m := make(map[string]any, len(n.keys))
		for _, k := range n.keys {
			m[k] = t.decoded(strings.TrimPrefix(key+"."+k, "."), k, n.fields[k])
		}
		return m
	case kindArray:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = t.decoded(fmt.Sprintf("%s[%d]", key, i), name, item)
		}
		return list
	case kindString:
		text, _ := t.named(key, name, n)
		return text
	case kindInteger:
		i, err := strconv.ParseInt(n.text, 10, 64)
		if err != nil {
			break
		}
		return i
	case kindFloat:
		f, err := strconv.ParseFloat(n.text, 64)
		if err != nil {
			break
		}
		return f
	case kindBool:
		return n.text == "true"
	}
	return struct{}{}
}

// IsTrue reports whether a key is there and is true.
func (s *Section) IsTrue(key string) bool {
	return s.is(key, kindBool) && s.t.node.fields[key].text == "true"
}
