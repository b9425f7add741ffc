package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// reader collects what is found while a tree is read: problems, secrets and warnings.
type reader struct {
	file   string
	json   bool   // the file's format; it determines names of types and units of numbers
	base   string // the file's directory, an absolute path
	getenv func(string) (string, bool)
	home   func() (string, error)
	shown  map[string]string // masked values by key path; see Config
	// read reads a further file that the file names, as large as a configuration may be.
	read func(name string) ([]byte, error)
	// located makes every problem have its position.
	located bool
	// unset, if set, is called for variables of upstreams that are not set, instead of
	// reporting a problem.
	unset func(upstream string, p *Problem)
	// tolerate keeps the problems of upstreams with them; leftOut are those of upstreams
	// that have no name of their own.
	tolerate bool
	leftOut  []*Problem
	// policies compiles the policy; see LoadOptions.
	policies PolicyCompiler
	// extended is what the file extends; nil: nothing.
	extended *extended

	problems []*Problem
	secrets  []string
	plain    bool // a secret is in the file itself
	warnings []string
}

// table is one table of the tree while it is read. A key becomes known when it is read;
// close reports the others.
type table struct {
	r    *reader
	node *node
	// prefix precedes keys in messages: "", "execution." or `upstream "github": `.
	prefix string
	known  []string
	// lenient ignores variables that are not set, because the upstream is disabled or may
	// be left out. In the latter case upstream is its name, for reader.unset.
	lenient  bool
	upstream string
	// hosts says that the table has the form that MCP hosts use. It may contain settings
	// of a host, so an unknown key that resembles no known one is only a warning.
	hosts bool
}

// problem reports a problem with a key, or with the table itself if key is "".
func (t *table) problem(key, format string, args ...any) *Problem {
	p := t.newProblem(key, format, args...)
	t.r.problems = append(t.r.problems, p)
	return p
}

// newProblem returns a problem without reporting it.
func (t *table) newProblem(key, format string, args ...any) *Problem {
	p := &Problem{File: t.r.file, Key: t.path(key), Text: fmt.Sprintf(format, args...)}
	p.public = fmt.Sprintf(format, withoutValues(args)...)
	if t.r.located && t.node != nil {
		if n := cmp.Or(t.find(key), t.node); n != nil {
			p.Line, p.Column = n.position()
		}
	}
	return p
}

// path returns what messages call a key of this table.
func (t *table) path(key string) string {
	if key == "" {
		return strings.TrimRight(t.prefix, ".: ")
	}
	return t.prefix + key
}

// get returns the value of a key and makes the key known. A value of another kind is
// reported and treated as missing.
func (t *table) get(key, want string, kinds ...kind) *node {
	t.know(key)
	n := t.node.fields[key]
	if n == nil || n.pending && n.kind != kindTable {
		return nil
	}
	if n = n.as(kinds); !t.check(key, n, want, kinds...) {
		return nil
	}
	return n
}

// know makes keys known.
func (t *table) know(keys ...string) {
	for _, key := range keys {
		if !slices.Contains(t.known, key) {
			t.known = append(t.known, key)
		}
	}
}

// check reports a node that is of none of the kinds.
func (t *table) check(key string, n *node, want string, kinds ...kind) bool {
	if slices.Contains(kinds, n.kind) {
		return true
	}
	hint := ""
	if want == "a string" && (n.kind == kindInteger || n.kind == kindFloat || n.kind == kindBool) {
		hint = " (put it in quotes)"
	}
	t.problem(key, "is %s, want %s%s", n.typeName(t.r.json), want, hint)
	return false
}

// key returns a setting's name in the format of the file.
func (t *table) key(name string) string { return keyName(name, t.r.json) }

// key returns a setting's name in the format of the file.
func (c *Config) key(name string) string { return keyName(name, c.json) }

// keyName returns a setting's name in a format: max_memory in TOML is maxMemory in JSON.
func keyName(name string, json bool) string {
	if !json {
		return name
	}
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// sub returns the table under a key, or nil.
func (t *table) sub(key string) *table {
	n := t.get(key, t.tableType(), kindTable)
	if n == nil {
		return nil
	}
	return &table{r: t.r, node: n, prefix: t.prefix + key + "."}
}

// inherit makes t as lenient as the table that it is in.
func (t *table) inherit(of *table) { t.lenient, t.upstream = of.lenient, of.upstream }

func (t *table) tableType() string { return (&node{kind: kindTable}).typeName(t.r.json) }

// str returns the expanded string under a key, and whether there is a valid one. It is
// for public values, in which a variable is secret only if its name suggests it.
func (t *table) str(key string) (string, bool) {
	n := t.get(key, "a string", kindString)
	if n == nil {
		return "", false
	}
	return t.expandPublic(key, n)
}

// expandPublic expands a string that is not secret, except for variables with names of secrets.
func (t *table) expandPublic(key string, n *node) (string, bool) {
	e, ok := t.expand(key, n)
	t.keep(key, e, secretVars(e, false))
	return e.text, ok
}

// expandPrivate expands a string in which every variable is secret, and also everything that
// looks secret. name is the name of the value where it is used, of an environment
// variable or an option; "" for none.
func (t *table) expandPrivate(key, name string, n *node) (string, bool) {
	e, ok := t.expand(key, n)
	t.keep(key, e, append(secretVars(e, true), secretParts(name, e.text)...))
	return e.text, ok
}

// expand expands a string without references and reports problems with it.
func (t *table) expand(key string, n *node) (expansion, bool) {
	e, ok := t.expandAll(key, n)
	if len(e.refs) > 0 && ok {
		t.problem(key, "cannot have a reference such as ${%s:...} (only args, env, url, headers and client_secret of an upstream can; write $${ for a literal ${)", e.refs[0].Kind)
		return e, false
	}
	return e, ok
}

// expandAll expands a string, which may have references, and reports problems with it.
func (t *table) expandAll(key string, n *node) (expansion, bool) {
	e, errs := n.expand(t.r.getenv)
	for i := range e.refs {
		if err := t.r.locate(&e.refs[i].Reference); err != nil {
			errs = append(errs, fmt.Errorf("${%s:...} %w", e.refs[i].Kind, err))
		}
	}
	if strings.ContainsRune(e.text, 0) {
		errs = append(errs, errNUL)
	}
	for _, err := range errs {
		switch _, unset := err.(*UnsetError); {
		case !unset || !t.lenient:
			t.problem(key, "%v", err).Err = err
		case t.upstream != "":
			p := t.newProblem(key, "%v", err)
			p.Err = err
			t.r.unset(t.upstream, p)
		}
	}
	return e, len(errs) == 0
}

// keep records the secret parts of a value.
func (t *table) keep(key string, e expansion, secret []span) {
	text := e.text
	if len(secret) == 0 {
		return
	}
	t.r.shown[t.path(key)] = maskSpans(text, secret)
	short := false
	for _, s := range secret {
		t.r.secrets = append(t.r.secrets, text[s.from:s.to])
		t.r.plain = t.r.plain || !e.fromVariable(s)
		short = short || s.to-s.from < MinSecret
	}
	if short {
		t.r.warnings = append(t.r.warnings, fmt.Sprintf(
			"%s: a secret of fewer than %d characters is not masked in logs", t.path(key), MinSecret))
	}
}

// strs returns the strings in the array under a key, nil if there is none. each expands
// and checks an item.
func (t *table) strs(key string, each func(key string, n *node) (string, bool)) []string {
	n := t.get(key, "an array of strings", kindArray)
	if n == nil {
		return nil
	}
	list := make([]string, 0, len(n.items))
	for i, item := range n.items {
		itemKey := fmt.Sprintf("%s[%d]", key, i)
		item = item.as([]kind{kindString})
		if !t.check(itemKey, item, "a string", kindString) {
			continue
		}
		if s, ok := each(itemKey, item); ok {
			list = append(list, s)
		}
	}
	return list
}

// boolean sets *v to the boolean under a key.
func (t *table) boolean(key string, v *bool) {
	if n := t.get(key, "true or false", kindBool); n != nil {
		*v = n.text == "true"
	}
}

// duration sets *v to the duration under a key: a string, or in JSON also a whole number
// of milliseconds.
func (t *table) duration(key string, v *time.Duration, least, most time.Duration) {
	want, kinds := `a string such as "30s"`, []kind{kindString}
	if t.r.json {
		want, kinds = `a whole number of milliseconds or a string such as "30s"`, append(kinds, kindInteger)
	}
	n := t.get(key, want, kinds...)
	if n == nil {
		return
	}
	var d time.Duration
	if n.kind == kindInteger {
		ms, err := strconv.ParseInt(n.text, 10, 64)
		if err != nil || ms > most.Milliseconds() || ms < -most.Milliseconds() {
			t.problem(key, "is out of bounds: at least %s, at most %s", units.FormatDuration(least), units.FormatDuration(most))
			return
		}
		d = time.Duration(ms) * time.Millisecond
	} else {
		text, ok := t.expandPublic(key, n)
		if !ok {
			return
		}
		var err error
		if d, err = units.ParseDuration(text); err != nil {
			t.problem(key, "%s %v", quoteWritten(n), err)
			return
		}
	}
	if d < least || d > most {
		t.problem(key, "%s is out of bounds: at least %s, at most %s", quoteWritten(n), units.FormatDuration(least), units.FormatDuration(most))
		return
	}
	*v = d
}

// size sets *v to the size under a key: a string or a number of bytes.
func (t *table) size(key string, v *uint64, least, most uint64) {
	n := t.get(key, `a string such as "128MB" or a whole number of bytes`, kindString, kindInteger)
	if n == nil {
		return
	}
	text := n.text
	if n.kind == kindString {
		var ok bool
		if text, ok = t.expandPublic(key, n); !ok {
			return
		}
	}
	size, err := units.ParseSize(text)
	if err != nil {
		t.problem(key, "%s %v", quoteWritten(n), err)
		return
	}
	if size < least || size > most {
		t.problem(key, "%s is out of bounds: at least %s, at most %s", quoteWritten(n), units.FormatSize(least), units.FormatSize(most))
		return
	}
	*v = size
}

// count is number for an int.
func (t *table) count(key string, v *int, least, most int) {
	n := uint64(*v)
	t.number(key, &n, uint64(least), uint64(most))
	*v = int(n)
}

// number sets *v to the whole number under a key.
func (t *table) number(key string, v *uint64, least, most uint64) {
	n := t.get(key, "a whole number", kindInteger)
	if n == nil {
		return
	}
	number, err := strconv.ParseUint(n.text, 10, 64)
	if err != nil || number < least || number > most {
		t.problem(key, "%s is out of bounds: at least %d, at most %d", quoteWritten(n), least, most)
		return
	}
	*v = number
}

// fileValue is a value as it is in the file. Texts that clients may see do not have it: it
// may be a secret in the wrong place.
type fileValue string

// quoteWritten returns a value as it is in the file, where variables are not expanded.
func quoteWritten(n *node) fileValue {
	if n.kind == kindString {
		return fileValue(strconv.Quote(n.text))
	}
	return fileValue(n.text)
}

// withoutValues replaces the values of the file in the arguments of a format.
func withoutValues(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		if _, ok := arg.(fileValue); ok {
			args[i] = "the value"
		}
	}
	return args
}

// close reports the unknown keys. aliases are names that other programs use for known
// keys.
func (t *table) close(aliases map[string]string) {
	for _, key := range t.node.keys {
		if slices.Contains(t.known, key) {
			continue
		}
		hint := "known here: " + strings.Join(slices.Sorted(slices.Values(t.known)), ", ")
		near := nearestKey(key, t.known, aliases)
		if near != "" {
			hint = fmt.Sprintf("did you mean %q?", t.key(near))
		} else if t.hosts {
			t.r.warnings = append(t.r.warnings, fmt.Sprintf("%sunknown key %q has no effect (a setting of an MCP host?)", t.prefix, key))
			continue
		}
		p := t.problem("", "unknown key %q (%s)", key, hint)
		p.Line, p.Column = t.node.fields[key].position()
	}
}

// nearestKey returns the known key that was most likely meant, "" if none is similar.
func nearestKey(key string, known []string, aliases map[string]string) string {
	plain := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(key))
	if name := aliases[plain]; name != "" {
		return name
	}
	return nearest.Name(key, known, max(1, len(key)/3))
}
