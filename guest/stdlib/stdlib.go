// Package stdlib has what the modules that scripts import have in common: what a run
// offers them, the values they return, and the errors they raise.
//
//	stdlib.go    modules, and what a run offers them
//	call.go      calls of functions: arguments, numbers, comparisons
//	iterator.go  lazy iterators, and loops over values that may fail
//	errors.go    errors of Python's classes
//	output.go    text and lists that grow within the memory of the run
//	sort.go      sorting with keys of the script
//	repr.go      values of modules as text (quote.go: text and bytes as repr has them)
//
// Each module is a package below this one with a function Module. Package
// guest/stdlib/modules has the table of them. Modules are made when a script first
// imports them and are shared by all runs, so they hold no state: what belongs to a
// run is in Env, which a function gets from its thread.
package stdlib

import (
	"fmt"
	"sync"
	"time"

	"go.starlark.net/starlark"
)

// Env is the part of a run that functions of modules use.
type Env struct {
	// Now returns the time of the run. The host is asked once; later calls give the
	// same answer.
	Now func() (time.Time, error)
	// Seed returns the seed of the run, always the same one. It fails as Now does.
	Seed func() (uint64, error)
	// Charge stops the run if it may not allocate n bytes. Functions call it before
	// they make something whose size a script chooses, such as 10 ** 9 copies.
	Charge func(n int) error
	// NewDict returns a dict as scripts have it.
	NewDict func(size int) Dict
	// DictAttr returns a method of dicts for a type that embeds one; nil if there
	// is no such method. The receiver is used for what the method returns and
	// changes.
	DictAttr func(receiver DictLike, name string) (starlark.Value, error)
	// Str and Repr are the functions of these names.
	Str, Repr func(starlark.Value) string
	// State holds what a module keeps for one run, such as the state of its
	// generator of random numbers, by a key of the module's own type.
	State map[any]any
}

// Dict is a dict as scripts have it. It is also a starlark.Mapping, a
// starlark.HasSetKey and a starlark.IterableMapping.
type Dict interface {
	starlark.IterableMapping
	starlark.HasSetKey
	DictLike
}

// DictLike is implemented by values that are dicts to scripts: isinstance(x, dict),
// comparison with dicts, JSON. Their Type is "dict".
type DictLike interface {
	starlark.Value
	Underlying() *starlark.Dict
}

// TupleLike is implemented by values that are tuples to scripts, such as those of
// collections.namedtuple: isinstance(x, tuple), comparison with tuples, JSON.
type TupleLike interface {
	starlark.Value
	AsTuple() starlark.Tuple
}

// EnvKey is the key, among the locals of a thread, of a value with a method Env. Package
// interp has its run there, which makes the Env when a script first needs it.
const EnvKey = "run"

// SetEnv makes e the environment of a thread.
func SetEnv(thread *starlark.Thread, e *Env) { thread.SetLocal(EnvKey, e) }

// EnvOf returns the environment of a thread.
func EnvOf(thread *starlark.Thread) *Env {
	return thread.Local(EnvKey).(interface{ Env() *Env }).Env()
}

// Env returns e itself.
func (e *Env) Env() *Env { return e }

// Module is a namespace that scripts import.
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

// Attr returns nil for a name that the module does not have. Package interp makes
// the error, which names the nearest.
func (m *Module) Attr(name string) (starlark.Value, error) {
	return m.Members[name], nil
}

// Entry is a module in the table. Names with a dot, such as urllib.parse, are
// members of the module before the dot, which need not be in the table.
type Entry struct {
	Name string
	New  func() *Module // called once, when a script first imports the module
}

// Lazy returns an entry whose module is made at most once.
func Lazy(name string, module func() *Module) Entry {
	return Entry{Name: name, New: sync.OnceValue(module)}
}

// Class is a type of a module: a callable that makes values, and a class for
// isinstance and except.
type Class struct {
	Named string
	New   func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)
	Is    func(starlark.Value) bool
	// Attrs are the attributes of the class itself, such as datetime.strptime.
	Attrs starlark.StringDict
	// Bases are those of a error class, as in Error; New and Is are nil then, and
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

// Attr returns a member of the class, nil if there is none of that name.
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

// JSONValue is implemented by values that have a form in JSON, as a result of a script
// and in json.dumps: a datetime is its text.
type JSONValue interface {
	starlark.Value
	JSONValue() starlark.Value
}

// Binder is implemented by callables that are methods when they stand in a class, as
// functions are: what a decorator such as lru_cache returns.
type Binder interface {
	starlark.Callable
	BindsSelf()
}
