package interp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/inpython"
	"go.starlark.net/starlark"
)

// A sourceModule is a module written in Python, or a module in Go with further names in Python. The
// code runs in a run that asks for any of these names.
type sourceModule struct {
	inpython.Module
	goPart  starlark.HasAttrs // nil for a module entirely in Python
	run     *run              // nil while a script is only checked
	members starlark.StringDict
}

// moduleFile begins the file names of modules in positions.
const moduleFile = "·module·"

func (m *sourceModule) String() string        { return fmt.Sprintf("<module '%s'>", m.Name) }
func (m *sourceModule) Type() string          { return "module" }
func (m *sourceModule) Freeze()               {}
func (m *sourceModule) Truth() starlark.Bool  { return true }
func (m *sourceModule) Hash() (uint32, error) { return starlark.String(m.Name).Hash() }

func (m *sourceModule) AttrNames() []string {
	names := slices.Clone(m.Names)
	if m.goPart != nil {
		names = append(names, m.goPart.AttrNames()...)
	}
	slices.Sort(names)
	return names
}

// Attr returns a member of the module; None for a member in Python while a script is only checked.
func (m *sourceModule) Attr(name string) (starlark.Value, error) {
	if !slices.Contains(m.Names, name) {
		if m.goPart == nil {
			return nil, nil
		}
		return m.goPart.Attr(name)
	}
	if m.run == nil {
		return starlark.None, nil
	}
	if m.members == nil {
		if err := m.load(); err != nil {
			return nil, err
		}
	}
	return m.members[name], nil
}

// load runs the code of the module. Modules with the same code share the values.
func (m *sourceModule) load() error {
	r := m.run
	if members := r.modules[m.Code]; members != nil {
		m.members = members
		return nil
	}
	src := newSource(moduleFile+m.Name, m.Code)
	env := predeclared(nil)
	prog, failure := compile(src, env)
	if failure != nil {
		return fmt.Errorf("module %s, line %d: %s", m.Name, failure.Position.Line, failure.Message)
	}
	r.adopt(src)
	globals, err := prog.Init(r.current, env)
	if err != nil {
		return err
	}
	v, err := r.callback(globals[toplevel], nil)
	if err != nil {
		return err
	}
	m.members = make(starlark.StringDict)
	for k, v := range v.(Object).Entries() {
		m.members[string(k.(starlark.String))] = v
	}
	if r.modules == nil {
		r.modules = make(map[string]starlark.StringDict)
	}
	r.modules[m.Code] = m.members
	return nil
}

// imports records the use of a value by a program; the value may be a module in Python.
func (s *source) imports(v starlark.Value) {
	if imported, ok := v.(importedModule); ok {
		if m, ok := imported.HasAttrs.(*sourceModule); ok {
			s.modules = append(s.modules, m)
		}
	}
}

// adopt gives the modules in Python imported by a program to the run.
func (r *run) adopt(s *source) {
	for _, m := range s.modules {
		m.run = r
	}
}

// withSource adds the modules in Python to the registry.
func withSource(all map[string]func() starlark.HasAttrs) {
	for _, m := range inpython.All {
		inGo := all[m.Name]
		all[m.Name] = func() starlark.HasAttrs {
			out := &sourceModule{Module: m}
			if inGo != nil {
				out.goPart = inGo()
			}
			return out
		}
	}
}

// inModule reports whether a frame belongs to a module in Python. Scripts' errors are shown at the
// call of the module.
func inModule(f starlark.CallFrame) bool { return strings.HasPrefix(f.Pos.Filename(), moduleFile) }

// cachedProperty is functools.cached_property.
func cachedProperty(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	fn, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	return &property{wrapped: wrapped{fn: fn}, once: true}, nil
}

var _ stdlib.Object = (*instance)(nil)
