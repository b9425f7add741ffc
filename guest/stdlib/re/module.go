package re

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// Module returns the module re.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{
		"compile": func(c *stdlib.Call) (starlark.Value, error) {
			var pattern starlark.Value
			flags := 0
			if err := c.Unpack("pattern", &pattern, "flags?", &flags); err != nil {
				return nil, err
			}
			return compile(c, pattern, flags)
		},
		"escape": func(c *stdlib.Call) (starlark.Value, error) {
			var text string
			if err := c.Unpack("pattern", &text); err != nil {
				return nil, err
			}
			return starlark.String(Escape(text)), nil
		},
		"purge": func(c *stdlib.Call) (starlark.Value, error) { return starlark.None, c.Unpack() },
	})
	for name := range patternMethods {
		members[name] = stdlib.NewFunc(name, viaPattern)
	}
	for _, f := range []struct {
		flag        Flags
		long, short string
	}{
		{IgnoreCase, "IGNORECASE", "I"}, {MultiLine, "MULTILINE", "M"}, {DotAll, "DOTALL", "S"},
		{Verbose, "VERBOSE", "X"}, {ASCII, "ASCII", "A"}, {Unicode, "UNICODE", "U"},
		{Locale, "LOCALE", "L"}, {Debug, "DEBUG", "DEBUG"}, {0, "NOFLAG", "NOFLAG"},
	} {
		members[f.long], members[f.short] = starlark.MakeInt(int(f.flag)), starlark.MakeInt(int(f.flag))
	}
	members["error"] = stdlib.ErrorClass("re.error")
	members["Pattern"] = &stdlib.Class{Named: "Pattern", New: notMade, Is: func(v starlark.Value) bool { _, ok := v.(patternValue); return ok }}
	members["Match"] = &stdlib.Class{Named: "Match", New: notMade, Is: func(v starlark.Value) bool { _, ok := v.(*matchValue); return ok }}
	return &stdlib.Module{Name: "re", Members: members}
}

func notMade(*starlark.Thread, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return nil, stdlib.Errorf(stdlib.TypeError, "cannot create 're' instances: write re.compile(pattern)")
}

// scriptError returns an error of this package as an error of Python.
func scriptError(err error) error {
	var bad *Error
	if errors.As(err, &bad) {
		attrs := starlark.StringDict{
			"msg": starlark.String(bad.Message), "pattern": starlark.String(bad.Pattern),
			"pos": starlark.None, "lineno": starlark.None, "colno": starlark.None,
		}
		if bad.Position >= 0 {
			line, column := bad.Place()
			attrs["pos"], attrs["lineno"], attrs["colno"] = starlark.MakeInt(bad.Position), starlark.MakeInt(line), starlark.MakeInt(column)
		}
		return &stdlib.Error{Class: "re.error", Message: bad.Error(), Attrs: attrs}
	}
	var unknown *UnknownGroup
	if errors.As(err, &unknown) {
		return stdlib.Errorf(stdlib.IndexError, "%v", err)
	}
	if errors.Is(err, ErrLimit) {
		return stdlib.Errorf(stdlib.RuntimeError, "%v", err)
	}
	return err
}

// maxCached is the number of compiled patterns kept by a run.
const maxCached = 256

type cacheKey struct{}

type cacheEntry struct {
	text  string
	flags Flags
}

// compile returns the pattern for a text or a pattern.
func compile(c *stdlib.Call, v starlark.Value, flags int) (patternValue, error) {
	switch v := v.(type) {
	case patternValue:
		if flags != 0 {
			return v, stdlib.Errorf(stdlib.ValueError, "cannot process flags argument with a compiled pattern")
		}
		return v, nil
	case starlark.String:
		state := c.Env().State
		cache, ok := state[cacheKey{}].(map[cacheEntry]*Pattern)
		if !ok || len(cache) >= maxCached {
			cache = map[cacheEntry]*Pattern{}
			state[cacheKey{}] = cache
		}
		key := cacheEntry{string(v), Flags(flags)}
		if p := cache[key]; p != nil {
			return patternValue{p}, nil
		}
		p, err := Compile(key.text, key.flags)
		if err != nil {
			return patternValue{}, scriptError(err)
		}
		cache[key] = p
		return patternValue{p}, nil
	case starlark.Bytes:
		return patternValue{}, stdlib.Errorf(stdlib.TypeError, "patterns of bytes are not supported: decode the bytes and use text")
	}
	return patternValue{}, stdlib.Errorf(stdlib.TypeError, "first argument must be string or compiled pattern, not '%s'", stdlib.TypeName(v))
}

// viaPattern is a function of the module and a method of patterns: re.search(pattern, string,
// flags) is re.compile(pattern, flags).search(string).
func viaPattern(c *stdlib.Call) (starlark.Value, error) {
	args, kwargs := c.Args, []starlark.Tuple(nil)
	var pattern starlark.Value
	if len(args) > 0 {
		pattern, args = args[0], args[1:]
	}
	flags := 0
	var given starlark.Value
	most := 1
	switch c.Name {
	case "sub", "subn":
		most = 3
	case "split":
		most = 2
	}
	if len(args) > most {
		if len(args) > most+1 {
			return nil, c.Errorf(stdlib.TypeError, "takes at most %d positional arguments (%d given)", most+2, len(c.Args))
		}
		given, args = args[most], args[:most]
	}
	for _, kv := range c.Kwargs {
		switch {
		case kv[0] == starlark.String("pattern") && pattern == nil:
			pattern = kv[1]
		case kv[0] == starlark.String("flags") && given == nil:
			given = kv[1]
		case kv[0] == starlark.String("pos"), kv[0] == starlark.String("endpos"): // of methods only
			return nil, c.Errorf(stdlib.TypeError, "got an unexpected keyword argument %s", kv[0])
		default:
			kwargs = append(kwargs, kv)
		}
	}
	if pattern == nil {
		return nil, c.Errorf(stdlib.TypeError, "missing required argument 'pattern'")
	}
	if given != nil {
		n, err := stdlib.Int(given)
		if err != nil {
			return nil, err
		}
		flags = n
	}
	p, err := compile(c, pattern, flags)
	if err != nil {
		return nil, err
	}
	return patternMethods[c.Name](&stdlib.Call{Thread: c.Thread, Name: c.Name, Receiver: p, Args: args, Kwargs: kwargs})
}

// patternMethods are the methods of patterns.
var patternMethods = map[string]stdlib.Func{
	"search":    func(c *stdlib.Call) (starlark.Value, error) { return once(c, (*Searcher).Search) },
	"match":     func(c *stdlib.Call) (starlark.Value, error) { return once(c, (*Searcher).MatchAt) },
	"fullmatch": func(c *stdlib.Call) (starlark.Value, error) { return once(c, (*Searcher).FullMatch) },
	"findall":   findAll,
	"finditer":  findIter,
	"split":     split,
	"sub": func(c *stdlib.Call) (starlark.Value, error) {
		text, _, err := substitute(c)
		return starlark.String(text), err
	},
	"subn": func(c *stdlib.Call) (starlark.Value, error) {
		text, n, err := substitute(c)
		return starlark.Tuple{starlark.String(text), starlark.MakeInt(n)}, err
	},
}

// search is the text and the range of a search.
type search struct {
	*Searcher
	p           *Pattern
	text        string // up to endpos
	from        int
	pos, endpos int // in code points
	// counted is an offset up to which code points have been counted, and their number.
	counted, points int
}

// open reads the arguments string, pos and endpos.
func open(c *stdlib.Call) (*search, error) {
	var subject starlark.Value
	pos, endpos := 0, unlimited
	if err := c.Unpack("string", &subject, "pos?", &pos, "endpos?", &endpos); err != nil {
		return nil, err
	}
	return newSearch(c, subject, pos, endpos)
}

func newSearch(c *stdlib.Call, subject starlark.Value, pos, endpos int) (*search, error) {
	text, ok := starlark.AsString(subject)
	if !ok {
		return nil, stdlib.Errorf(stdlib.TypeError, "expected string or bytes-like object, got '%s'", stdlib.TypeName(subject))
	}
	if len(text) > unlimited {
		return nil, scriptError(ErrLimit)
	}
	s := &search{p: c.Receiver.(patternValue).Pattern, text: text, endpos: utf8.RuneCountInString(text)}
	if endpos < s.endpos {
		s.endpos = max(endpos, 0)
		s.text = text[:byteOffset(text, s.endpos)]
	}
	s.pos = min(max(pos, 0), s.endpos)
	s.from = byteOffset(s.text, s.pos)
	s.counted, s.points = s.from, s.pos
	s.Searcher = NewSearcher(s.p, s.text, 0)
	return s, nil
}

// byteOffset returns the offset of a code point in bytes.
func byteOffset(text string, points int) int {
	at := 0
	for ; points > 0 && at < len(text); points-- {
		at += width(text, at)
	}
	return at
}

// value returns a match for the script. Matches come in the order of the text, so each
// character is counted once.
func (s *search) value(m *Match) *matchValue {
	s.points += utf8.RuneCountInString(s.text[s.counted:m.Spans[0]])
	s.counted = m.Spans[0]
	return &matchValue{Match: m, p: s.p, text: s.text, start: s.points, pos: s.pos, endpos: s.endpos}
}

func once(c *stdlib.Call, find func(*Searcher, int) (*Match, error)) (starlark.Value, error) {
	s, err := open(c)
	if err != nil {
		return nil, err
	}
	m, err := find(s.Searcher, s.from)
	if err != nil {
		return nil, scriptError(err)
	}
	if m == nil {
		return starlark.None, nil
	}
	return s.value(m), nil
}

func findAll(c *stdlib.Call) (starlark.Value, error) {
	s, err := open(c)
	if err != nil {
		return nil, err
	}
	list := c.Env().NewValues()
	err = s.All(s.from, func(m *Match) (bool, error) {
		found := matchValue{Match: m, p: s.p, text: s.text}
		switch s.p.Groups {
		case 0:
			return true, list.Add(found.group(0, nil))
		case 1:
			return true, list.Add(found.group(1, starlark.String("")))
		}
		return true, list.Add(found.groups(starlark.String("")))
	})
	if err != nil {
		return nil, scriptError(err)
	}
	return list.Value(), nil
}

func findIter(c *stdlib.Call) (starlark.Value, error) {
	s, err := open(c)
	if err != nil {
		return nil, err
	}
	var last *Match
	return stdlib.NewIterator("callable_iterator", func() (starlark.Value, error) {
		m, err := s.Next(last, s.from)
		if err != nil {
			return nil, scriptError(err)
		}
		if m == nil {
			return nil, nil
		}
		last = m
		return s.value(m), nil
	}), nil
}

func split(c *stdlib.Call) (starlark.Value, error) {
	var subject starlark.Value
	most := 0
	if err := c.Unpack("string", &subject, "maxsplit?", &most); err != nil {
		return nil, err
	}
	s, err := newSearch(c, subject, 0, unlimited)
	if err != nil {
		return nil, err
	}
	list := c.Env().NewValues()
	last, n := 0, 0
	add := func(m *Match) (bool, error) {
		if err := list.Add(starlark.String(s.text[last:m.Spans[0]])); err != nil {
			return false, err
		}
		found := matchValue{Match: m, p: s.p, text: s.text}
		for i := range s.p.Groups {
			if err := list.Add(found.group(i+1, starlark.None)); err != nil {
				return false, err
			}
		}
		last = m.Spans[1]
		n++
		return most == 0 || n < most, nil
	}
	if most >= 0 {
		if err := s.All(0, add); err != nil {
			return nil, scriptError(err)
		}
	}
	err = list.Add(starlark.String(s.text[last:]))
	return list.Value(), err
}

// substitute is subn.
func substitute(c *stdlib.Call) (string, int, error) {
	var repl, subject starlark.Value
	most := 0
	if err := c.Unpack("repl", &repl, "string", &subject, "count?", &most); err != nil {
		return "", 0, err
	}
	s, err := newSearch(c, subject, 0, unlimited)
	if err != nil {
		return "", 0, err
	}
	replacement, err := s.replacer(c, repl)
	if err != nil {
		return "", 0, scriptError(err)
	}
	out := c.Env().NewOutput()
	last, n := 0, 0
	if most >= 0 {
		err = s.All(0, func(m *Match) (bool, error) {
			text, err := replacement(m)
			if err != nil {
				return false, err
			}
			if err := out.WriteString(s.text[last:m.Spans[0]] + text); err != nil {
				return false, err
			}
			last = m.Spans[1]
			n++
			return most == 0 || n < most, nil
		})
	}
	if err != nil {
		return "", 0, scriptError(err)
	}
	if n == 0 {
		return s.text, 0, nil
	}
	return out.String() + s.text[last:], n, nil
}

// replacer returns the function for the replacement of a match.
func (s *search) replacer(c *stdlib.Call, repl starlark.Value) (func(*Match) (string, error), error) {
	if text, ok := starlark.AsString(repl); ok {
		t, err := s.p.Template(text)
		return func(m *Match) (string, error) {
			var out strings.Builder
			t.Expand(&out, s.text, m)
			return out.String(), nil
		}, err
	}
	if _, ok := repl.(starlark.Callable); !ok {
		return nil, stdlib.Errorf(stdlib.TypeError, "decoding to str: need a bytes-like object, %s found", stdlib.TypeName(repl))
	}
	return func(m *Match) (string, error) {
		v, err := c.Call(repl, s.value(m))
		if err != nil {
			return "", err
		}
		if v == starlark.None {
			return "", nil
		}
		text, ok := starlark.AsString(v)
		if !ok {
			return "", stdlib.Errorf(stdlib.TypeError, "sequence item 1: expected str instance, %s found", stdlib.TypeName(v))
		}
		return text, nil
	}, nil
}

// patternValue is a compiled pattern in scripts.
type patternValue struct{ *Pattern }

var _ starlark.HasAttrs = patternValue{}

// flagNames are the flags in the text of a pattern, in Python's order.
var flagNames = []struct {
	flag Flags
	name string
}{
	{IgnoreCase, "re.IGNORECASE"}, {MultiLine, "re.MULTILINE"}, {DotAll, "re.DOTALL"},
	{Verbose, "re.VERBOSE"}, {Debug, "re.DEBUG"}, {ASCII, "re.ASCII"},
}

func (p patternValue) String() string { return p.Repr(stdlib.PlainRepr) }

// Repr is the text of the pattern.
func (p patternValue) Repr(repr func(starlark.Value) string) string {
	var flags []string
	for _, f := range flagNames {
		if p.Flags&f.flag != 0 {
			flags = append(flags, f.name)
		}
	}
	text := repr(starlark.String(p.Text))
	if len(flags) > 0 {
		text += ", " + strings.Join(flags, "|")
	}
	return "re.compile(" + text + ")"
}

func (patternValue) Type() string            { return "re.Pattern" }
func (patternValue) Freeze()                 {}
func (patternValue) Truth() starlark.Bool    { return true }
func (p patternValue) Hash() (uint32, error) { return starlark.String(p.Text).Hash() }

func (patternValue) AttrNames() []string {
	return []string{"findall", "finditer", "flags", "fullmatch", "groupindex", "groups", "match", "pattern", "search", "split", "sub", "subn"}
}

func (p patternValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "pattern":
		return starlark.String(p.Text), nil
	case "flags":
		return starlark.MakeInt(int(p.Flags)), nil
	case "groups":
		return starlark.MakeInt(p.Groups), nil
	case "groupindex":
		d := starlark.NewDict(len(p.Index))
		for _, name := range p.GroupNames() {
			if err := d.SetKey(starlark.String(name), starlark.MakeInt(p.Index[name])); err != nil {
				return nil, err
			}
		}
		return d, nil
	}
	if m := stdlib.Method(p, name, patternMethods); m != nil {
		return m, nil
	}
	return nil, nil
}

// matchValue is a match in scripts. Offsets are in bytes here, and in code points for
// scripts.
type matchValue struct {
	*Match
	p           *Pattern
	text        string
	start       int // of the match, in code points; -1 if not counted yet
	pos, endpos int
}

var (
	_ starlark.HasAttrs = (*matchValue)(nil)
	_ starlark.Mapping  = (*matchValue)(nil)
)

func (m *matchValue) String() string { return m.Repr(stdlib.PlainRepr) }

// Repr is the text of the match.
func (m *matchValue) Repr(repr func(starlark.Value) string) string {
	from, to := m.span(0)
	return fmt.Sprintf("<re.Match object; span=(%d, %d), match=%s>", from, to, repr(m.group(0, starlark.None)))
}

func (*matchValue) Type() string            { return "re.Match" }
func (*matchValue) Freeze()                 {}
func (*matchValue) Truth() starlark.Bool    { return true }
func (m *matchValue) Hash() (uint32, error) { return starlark.String(m.text).Hash() }

func (*matchValue) AttrNames() []string {
	return []string{"end", "endpos", "expand", "group", "groupdict", "groups", "lastgroup", "lastindex", "pos", "re", "regs", "span", "start", "string"}
}

func (m *matchValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "string":
		return starlark.String(m.text), nil
	case "re":
		return patternValue{m.p}, nil
	case "pos":
		return starlark.MakeInt(m.pos), nil
	case "endpos":
		return starlark.MakeInt(m.endpos), nil
	case "lastindex":
		if m.LastIndex == 0 {
			return starlark.None, nil
		}
		return starlark.MakeInt(m.LastIndex), nil
	case "lastgroup":
		if m.p.Names[m.LastIndex] == "" {
			return starlark.None, nil
		}
		return starlark.String(m.p.Names[m.LastIndex]), nil
	case "regs":
		spans := make(starlark.Tuple, m.p.Groups+1)
		for i := range spans {
			spans[i] = m.spanValue(i)
		}
		return spans, nil
	}
	if method := stdlib.Method(m, name, matchMethods); method != nil {
		return method, nil
	}
	return nil, nil
}

// Get is m[group].
func (m *matchValue) Get(k starlark.Value) (starlark.Value, bool, error) {
	i, err := m.number(k)
	if err != nil {
		return nil, false, err
	}
	return m.group(i, starlark.None), true, nil
}

// number returns the number of a group given by number or name.
func (m *matchValue) number(k starlark.Value) (int, error) {
	if name, ok := starlark.AsString(k); ok {
		if n, ok := m.p.Index[name]; ok {
			return n, nil
		}
	} else if n, ok := stdlib.Integer(k); ok {
		if i, ok := n.Int64(); ok && 0 <= i && i <= int64(m.p.Groups) {
			return int(i), nil
		}
	}
	return 0, stdlib.Errorf(stdlib.IndexError, "no such group")
}

// group returns the text of a group, or a default without a match.
func (m *matchValue) group(i int, otherwise starlark.Value) starlark.Value {
	if m.Spans[2*i] < 0 {
		return otherwise
	}
	return starlark.String(m.text[m.Spans[2*i]:m.Spans[2*i+1]])
}

// span returns the offsets of a group in code points.
func (m *matchValue) span(i int) (from, to int) {
	if m.Spans[2*i] < 0 {
		return -1, -1
	}
	if m.start < 0 {
		m.start = utf8.RuneCountInString(m.text[:m.Spans[0]])
	}
	return m.position(m.Spans[2*i]), m.position(m.Spans[2*i+1])
}

// position returns an offset in code points. With lookaround, the position can be before the match.
func (m *matchValue) position(offset int) int {
	if offset < m.Spans[0] {
		return m.start - utf8.RuneCountInString(m.text[offset:m.Spans[0]])
	}
	return m.start + utf8.RuneCountInString(m.text[m.Spans[0]:offset])
}

func (m *matchValue) spanValue(i int) starlark.Value {
	from, to := m.span(i)
	return starlark.Tuple{starlark.MakeInt(from), starlark.MakeInt(to)}
}

var matchMethods = map[string]stdlib.Func{
	"group": func(c *stdlib.Call) (starlark.Value, error) {
		m := c.Receiver.(*matchValue)
		if len(c.Kwargs) > 0 {
			return nil, c.Errorf(stdlib.TypeError, "takes no keyword arguments")
		}
		out := make(starlark.Tuple, 0, len(c.Args))
		for _, k := range c.Args {
			i, err := m.number(k)
			if err != nil {
				return nil, err
			}
			out = append(out, m.group(i, starlark.None))
		}
		switch len(out) {
		case 0:
			return m.group(0, starlark.None), nil
		case 1:
			return out[0], nil
		}
		return out, nil
	},
	"groups": func(c *stdlib.Call) (starlark.Value, error) {
		m := c.Receiver.(*matchValue)
		var otherwise starlark.Value = starlark.None
		if err := c.Unpack("default?", &otherwise); err != nil {
			return nil, err
		}
		return m.groups(otherwise), nil
	},
	"groupdict": func(c *stdlib.Call) (starlark.Value, error) {
		m := c.Receiver.(*matchValue)
		var otherwise starlark.Value = starlark.None
		if err := c.Unpack("default?", &otherwise); err != nil {
			return nil, err
		}
		d := c.Env().NewDict(len(m.p.Index))
		for _, name := range m.p.GroupNames() {
			if err := d.SetKey(starlark.String(name), m.group(m.p.Index[name], otherwise)); err != nil {
				return nil, err
			}
		}
		return d, nil
	},
	"start": func(c *stdlib.Call) (starlark.Value, error) {
		return place(c, func(from, to int) starlark.Value { return starlark.MakeInt(from) })
	},
	"end": func(c *stdlib.Call) (starlark.Value, error) {
		return place(c, func(from, to int) starlark.Value { return starlark.MakeInt(to) })
	},
	"span": func(c *stdlib.Call) (starlark.Value, error) {
		return place(c, func(from, to int) starlark.Value {
			return starlark.Tuple{starlark.MakeInt(from), starlark.MakeInt(to)}
		})
	},
	"expand": func(c *stdlib.Call) (starlark.Value, error) {
		m := c.Receiver.(*matchValue)
		var text string
		if err := c.Unpack("template", &text); err != nil {
			return nil, err
		}
		t, err := m.p.Template(text)
		if err != nil {
			return nil, scriptError(err)
		}
		var out strings.Builder
		t.Expand(&out, m.text, m.Match)
		return starlark.String(out.String()), nil
	},
}

func (m *matchValue) groups(otherwise starlark.Value) starlark.Tuple {
	out := make(starlark.Tuple, m.p.Groups)
	for i := range out {
		out[i] = m.group(i+1, otherwise)
	}
	return out
}

// place is start, end or span of a group.
func place(c *stdlib.Call, of func(from, to int) starlark.Value) (starlark.Value, error) {
	var group starlark.Value = starlark.MakeInt(0)
	if err := c.Unpack("group?", &group, "/", nil); err != nil {
		return nil, err
	}
	m := c.Receiver.(*matchValue)
	i, err := m.number(group)
	if err != nil {
		return nil, err
	}
	return of(m.span(i)), nil
}
