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

// LoadWithin reads a TOML file that contains settings of the configuration beside tables
// with another meaning, such as a smoke test file, which has upstreams and checks. other
// reads those tables from the top level of the file; the keys that it reads are known in
// addition to the settings. opts and the environment have the same meaning as for [Load],
// except that Flag is ignored.
//
// The error joins all problems, each a *[Problem], with its place where that is known.
// LoadWithin does not keep data.
func LoadWithin(opts LoadOptions, name string, data []byte, other func(top *Section)) (*Config, error) {
	l, c := newLoader(opts), newConfig()
	if problem := l.within(c, name, data, other, opts.Unset); problem != nil {
		l.problems = append(l.problems, problem)
	}
	l.environment(c)
	if len(l.problems) > 0 {
		return nil, join(l.problems)
	}
	return c, nil
}

// ReadFile reads a file for [LoadWithin]. It may be as large as a configuration file. The
// error is a *[Problem].
func ReadFile(opts LoadOptions, name string) ([]byte, error) {
	data, err := readCapped(opts.context(), name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	return data, nil
}

func (l *loader) within(c *Config, name string, data []byte, other func(top *Section), unset func(string, *Problem)) *Problem {
	base, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return &Problem{File: name, Text: fmt.Sprintf("its directory cannot be determined: %v", err), Err: err}
	}
	root, problem := parseTOML(data)
	if problem != nil {
		problem.File = name
		return problem
	}
	c.Path = name
	r := &reader{file: name, read: l.read, base: base, getenv: l.getenv, home: l.home, shown: c.shown, located: true, unset: unset, policies: l.policies}
	top := &table{r: r, node: root}
	other(&Section{t: top})
	if r.extended == nil {
		decodeInto(top, c)
	} else {
		r.extended.decode(top, c)
		l.problems = append(l.problems, r.extended.report(r.secrets)...)
	}
	c.Secrets, c.plain = sortSecrets(append(c.Secrets, r.secrets...)), r.plain
	c.warnings = append(c.warnings, r.warnings...)
	l.problems = append(l.problems, r.report()...)
	return nil
}

// report returns the problems in the order of the file, each once and without secrets.
func (r *reader) report() []*Problem {
	var secrets Masker // problems that others report may quote expanded values
	secrets.Add(r.secrets...)
	for _, p := range r.problems {
		p.Key, p.Text = secrets.Mask(p.Key), secrets.Mask(p.Text)
	}
	slices.SortStableFunc(r.problems, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	// One table may have been read several times, with other values.
	return slices.CompactFunc(r.problems, func(a, b *Problem) bool {
		return a.Line > 0 && a.Line == b.Line && a.Column == b.Column && a.Key == b.Key && a.Text == b.Text
	})
}

// Section is a table of a TOML file that is being read; see [LoadWithin]. A key becomes
// known when it is read, and Close reports the unknown ones. A value of the wrong type or
// out of bounds is reported and treated as missing.
type Section struct{ t *table }

// Span is a part of a file, from one byte offset up to another.
type Span struct{ From, To int }

// Has reports whether the table has a key, of any type.
func (s *Section) Has(key string) bool { return s.t.node.fields[key] != nil }

// Keys returns the keys of the table in the order of the file.
func (s *Section) Keys() []string { return s.t.node.keys }

// Know makes keys known that are read in another way, or not at all.
func (s *Section) Know(keys ...string) { s.t.know(keys...) }

// Problem reports a problem with a key, or with the table itself if key is "".
func (s *Section) Problem(key, format string, args ...any) { s.t.problem(key, format, args...) }

// Name sets what messages call the table from now on, instead of its key.
func (s *Section) Name(name string) { s.t.prefix = name + ": " }

// Place returns the position of a key, or of the table itself for ""; zeros if it is
// unknown.
func (s *Section) Place(key string) (line, column int) {
	if n := s.t.find(key); n != nil {
		return n.position()
	}
	return 0, 0
}

// Written returns where the value of a key is in the file. It is empty if the value is in
// more than one place.
func (s *Section) Written(key string) Span {
	if n := s.t.node.fields[key]; n != nil {
		return Span{n.written.from, n.written.to}
	}
	return Span{}
}

// IsString reports whether a key exists and is a string.
func (s *Section) IsString(key string) bool { return s.is(key, kindString) }

// IsTable reports whether a key exists and is a table.
func (s *Section) IsTable(key string) bool { return s.is(key, kindTable) }

// IsArray reports whether a key exists and is an array.
func (s *Section) IsArray(key string) bool { return s.is(key, kindArray) }

func (s *Section) is(key string, k kind) bool {
	n := s.t.node.fields[key]
	return n != nil && n.kind == k
}

// Section returns the table under a key, nil if there is none.
func (s *Section) Section(key string) *Section {
	if sub := s.t.sub(key); sub != nil {
		return &Section{sub}
	}
	return nil
}

// Sections returns the tables in the array under a key.
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

// String returns the string under a key with its variables expanded.
func (s *Section) String(key string) (string, bool) { return s.t.str(key) }

// Verbatim returns the string under a key without expanding variables. It is for code,
// where ${ has no special meaning.
func (s *Section) Verbatim(key string) (string, bool) {
	n := s.t.get(key, "a string", kindString)
	if n == nil {
		return "", false
	}
	return n.text, true
}

// Strings returns the strings in the array under a key, nil if there is none.
func (s *Section) Strings(key string) []string { return s.t.strs(key, s.t.expandPublic) }

// Path returns the absolute path of a file under a key. A relative path is relative to
// the directory of the file that is being read.
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

// JSON returns the value under a key, of any type, as JSON; nil if there is none.
// Variables in its strings are expanded; they are secret if their names or the member's
// name suggest it. A value that TOML cannot express (null, large numbers) can be written
// as JSON text under the key with the suffix _json.
func (s *Section) JSON(key string) []byte {
	s.t.know(key)
	if n := s.t.node.fields[key]; n != nil {
		if n.pending {
			return nil
		}
		if s.Has(key + jsonSuffix) {
			s.Problem(key, "cannot be combined with %s%s (leave one out)", key, jsonSuffix)
		}
		return s.t.raw(key, n, s.t.expandNamed)
	}
	return s.t.jsonText(key + jsonSuffix)
}

// Object is like JSON, for a value that must be a table.
func (s *Section) Object(key string) []byte {
	if s.Has(key) && !s.IsTable(key) {
		s.t.get(key, s.t.tableType(), kindTable)
		return nil
	}
	raw := s.JSON(key)
	if raw != nil && raw[0] != '{' {
		s.Problem(key+jsonSuffix, "is not a JSON object")
		return nil
	}
	return raw
}

const jsonSuffix = "_json"

// jsonText returns the JSON in the string under a key, nil if there is none.
func (t *table) jsonText(key string) []byte {
	n := t.get(key, "a string", kindString)
	if n == nil {
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(n.text)); err != nil {
		t.problem(key, "is not JSON: %v", err)
		return nil
	}
	return compact.Bytes()
}

// Close reports the keys that were not read. aliases are other names for known keys, in
// lower case without separators.
func (s *Section) Close(aliases map[string]string) { s.t.close(aliases) }

// find returns the node at a key such as "a", "a[1]" or "a.b", or the table's own for "";
// nil if there is none.
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

// Values returns the table as the TOML library decodes it, with variables in strings
// expanded as JSON does. It makes all keys known.
func (s *Section) Values() map[string]any {
	v, _ := s.t.goValue("", "", s.t.node).(map[string]any)
	s.t.know(s.t.node.keys...)
	return v
}

// goValue returns a node as a Go value; a date or time becomes struct{}{}.
func (t *table) goValue(key, name string, n *node) any {
	switch n.kind {
	case kindTable:
		m := make(map[string]any, len(n.keys))
		for _, k := range n.keys {
			m[k] = t.goValue(strings.TrimPrefix(key+"."+k, "."), k, n.fields[k])
		}
		return m
	case kindArray:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = t.goValue(fmt.Sprintf("%s[%d]", key, i), name, item)
		}
		return list
	case kindString:
		text, _ := t.expandNamed(key, name, n)
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

// IsTrue reports whether a key exists and is true.
func (s *Section) IsTrue(key string) bool {
	return s.is(key, kindBool) && s.t.node.fields[key].text == "true"
}
