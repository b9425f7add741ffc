// Package stdlib has the common parts of the modules for scripts: the services of a run ([Env]),
// arguments of functions ([Call]), iterators, errors, and values of modules.
//
// Each module is a package below this one with a function Module, listed in the table of package
// guest/stdlib/modules. Modules are made at the first import by a script and are shared by all
// runs, so modules hold no state: the state of a run is in Env, which a function gets from its
// thread.
package stdlib

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"go.starlark.net/starlark"
)

// Env is the part of a run used by functions of modules.
type Env struct {
	// Now returns the time of the run. The host is asked once; later calls give the
	// same answer.
	Now func() (time.Time, error)
	// Seed returns the seed of the run, always the same. It fails like Now.
	Seed func() (uint64, error)
	// Charge stops the run if it may not allocate n bytes. Functions call it before they make a
	// value of a size chosen by the script, for example 10 ** 9 copies.
	Charge func(n int) error
	// NewDict returns a dict for scripts.
	NewDict func(size int) Dict
	// DictAttr returns a method of dicts for a type that embeds a dict; nil for an unknown method.
	// The receiver takes the place of the dict in results and changes.
	DictAttr func(receiver DictLike, name string) (starlark.Value, error)
	// Str and Repr are the functions of these names.
	Str, Repr func(starlark.Value) string
	// State holds the data of modules for a run, for example the generator of random numbers, by a
	// key of the module's own type.
	State map[any]any
}

// Dict is a dict of scripts, and also a starlark.Mapping, a starlark.HasSetKey and a
// starlark.IterableMapping.
type Dict interface {
	starlark.IterableMapping
	starlark.HasSetKey
	DictLike
}

// DictLike is implemented by values seen as dicts by scripts: isinstance(x, dict), comparison with
// dicts, JSON. Their Type is "dict".
type DictLike interface {
	starlark.Value
	Underlying() *starlark.Dict
}

// TupleLike is implemented by values seen as tuples by scripts, for example from
// collections.namedtuple: isinstance(x, tuple), comparison with tuples, JSON.
type TupleLike interface {
	starlark.Value
	AsTuple() starlark.Tuple
}

// EnvKey is the key, among the locals of a thread, of a value with a method Env. Package interp
// keeps the run there, which makes the Env at the first use.
const EnvKey = "run"

// SetEnv makes e the environment of a thread.
func SetEnv(thread *starlark.Thread, e *Env) { thread.SetLocal(EnvKey, e) }

// EnvOf returns the environment of a thread.
func EnvOf(thread *starlark.Thread) *Env {
	return thread.Local(EnvKey).(interface{ Env() *Env }).Env()
}

// Env returns e itself.
func (e *Env) Env() *Env { return e }

// Module is a namespace for import by scripts.
type Module struct {
	Name    string
	Members starlark.StringDict
}

var _ starlark.HasAttrs = (*Module)(nil)

func (m *Module) String() string        { return fmt.Sprintf("<module '%s'>", m.Name) }
func (m *Module) Type() string          { return "module" }
func (m *Module) Freeze()               {}
func (m *Module) Truth() starlark.Bool  { return true }
func (m *Module) Hash() (uint32, error) { return starlark.String(m.Name).Hash() }
func (m *Module) AttrNames() []string   { return m.Members.Keys() }

// Attr returns nil for an unknown name. Package interp makes the error, with the nearest name.
func (m *Module) Attr(name string) (starlark.Value, error) {
	return m.Members[name], nil
}

// Entry is a module in the table. Names with a dot, like urllib.parse, are members of the module
// before the dot, which need not be in the table.
type Entry struct {
	Name string
	New  func() *Module // called once, when a script first imports the module
}

// Lazy returns an entry with a module made at most once.
func Lazy(name string, module func() *Module) Entry {
	return Entry{Name: name, New: sync.OnceValue(module)}
}

// Class is a type of a module: a constructor of values, and a class for isinstance and except.
type Class struct {
	Named string
	New   func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)
	Is    func(starlark.Value) bool
	// Attrs are the attributes of the class itself, for example datetime.strptime.
	Attrs starlark.StringDict
	// Bases are the base classes of an error class, as in Error; New and Is are then nil, and
	// package interp makes the errors.
	Bases []string
}

var (
	_ starlark.Callable = (*Class)(nil)
	_ starlark.HasAttrs = (*Class)(nil)
)

func (c *Class) String() string        { return fmt.Sprintf("<class '%s'>", c.Named) }
func (c *Class) Type() string          { return "type" }
func (c *Class) Freeze()               {}
func (c *Class) Truth() starlark.Bool  { return true }
func (c *Class) Hash() (uint32, error) { return starlark.String(c.Named).Hash() }
func (c *Class) AttrNames() []string   { return c.Attrs.Keys() }

// Attr returns a member of the class, nil for an unknown name.
func (c *Class) Attr(name string) (starlark.Value, error) {
	if name == "__name__" {
		return starlark.String(c.Named), nil
	}
	return c.Attrs[name], nil
}

// Name is the name of the class in errors and backtraces.
func (c *Class) Name() string { return c.Named }

// CallInternal makes a value of the class.
func (c *Class) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if c.New == nil {
		return nil, Errorf(TypeError, "%s can only be caught: raise one of Python's own classes, such as ValueError", c.Named)
	}
	v, err := c.New(thread, args, kwargs)
	return v, mustKnow(err, args, kwargs)
}

// JSONValue is implemented by values with a form in JSON, as a result of a script and in
// json.dumps: a datetime is its text.
type JSONValue interface {
	starlark.Value
	JSONValue() starlark.Value
}

// Binder is implemented by callables that become methods in a class, like functions: the results of
// a decorator like lru_cache.
type Binder interface {
	starlark.Callable
	BindsSelf()
}

// Output is text growing within the memory of the run.
type Output struct {
	env  *Env
	text strings.Builder
	may  int // the length allowed before the run is asked again
}

// NewOutput returns an empty Output.
func (e *Env) NewOutput() *Output { return &Output{env: e, may: 4096} }

// WriteString appends s.
func (o *Output) WriteString(s string) error {
	if n := o.text.Len() + len(s); n > o.may {
		o.may = max(n, 2*o.may)
		if err := o.env.Charge(o.may); err != nil {
			return err
		}
	}
	o.text.WriteString(s)
	return nil
}

// Len returns the number of bytes.
func (o *Output) Len() int { return o.text.Len() }

// String returns the text.
func (o *Output) String() string { return o.text.String() }

// Values is a list growing within the memory of the run.
type Values struct {
	env  *Env
	List []starlark.Value
	may  int
}

// NewValues returns an empty list.
func (e *Env) NewValues() *Values { return &Values{env: e, may: 256} }

// valueSize is the size of a value in a slice, in bytes.
const valueSize = 16

// Add appends v.
func (l *Values) Add(v starlark.Value) error {
	if len(l.List) >= l.may {
		l.may *= 2
		if err := l.env.Charge(l.may * valueSize); err != nil {
			return err
		}
	}
	l.List = append(l.List, v)
	return nil
}

// Value returns the list for scripts.
func (l *Values) Value() *starlark.List { return starlark.NewList(l.List) }

// Elements returns the elements of a value, as many as the memory of the run holds.
func (c *Call) Elements(v starlark.Value) ([]starlark.Value, error) {
	switch v := v.(type) {
	case starlark.Tuple:
		return append([]starlark.Value(nil), v...), nil
	case starlark.Sequence:
		if n := v.Len(); n > 256 {
			if err := c.Env().Charge(n * valueSize); err != nil {
				return nil, err
			}
		}
	}
	list := c.Env().NewValues()
	err := Each(v, list.Add)
	return list.List, err
}

// Representer is implemented by values with other values inside: Repr is their text, made with the
// texts of these values.
type Representer interface {
	starlark.Value
	Repr(repr func(starlark.Value) string) string
}

// PlainRepr is the text of a value inside another value where no Env is at hand.
func PlainRepr(v starlark.Value) string { return v.String() }

// JoinRepr returns the texts of values with ", " between them.
func JoinRepr(values []starlark.Value, repr func(starlark.Value) string) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(repr(v))
	}
	return b.String()
}

// FloatText returns a float in the form of Python's repr.
func FloatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// Texter is implemented by values with a str different from their repr.
type Texter interface {
	starlark.Value
	Str() string
}

// Formatter is implemented by values with their own formats in f-strings and format: Format is the
// text for a non-empty specification after the colon.
type Formatter interface {
	starlark.Value
	Format(spec string) (string, error)
}

// Copier is implemented by containers of modules: CopyWith returns a copy, made with copies of the
// content.
type Copier interface {
	starlark.Value
	CopyWith(element func(starlark.Value) (starlark.Value, error)) (starlark.Value, error)
}

// Quote returns text in the form of Python's repr.
func Quote(s string) string {
	mark := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	var b strings.Builder
	b.WriteByte(mark)
	for _, r := range s {
		switch {
		case r == rune(mark) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f || r >= 0x80 && r <= 0xff && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case r >= utf8.RuneSelf && !unicode.IsPrint(r) && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		case r >= utf8.RuneSelf && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte(mark)
	return b.String()
}

// QuoteBytes returns bytes as Python's repr has them.
func QuoteBytes(s string) string {
	mark := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	var b strings.Builder
	b.WriteByte('b')
	b.WriteByte(mark)
	for i := range len(s) {
		switch c := s[i]; {
		case c == mark || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte(mark)
	return b.String()
}
