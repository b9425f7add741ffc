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
	"sync"
	"time"

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
