package interp

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/modules"
	"go.starlark.net/starlark"
)

// registry has the modules importable by scripts, by name. A module of package guest/stdlib is made
// when a script first imports it.
var registry = func() map[string]func() starlark.HasAttrs {
	all := map[string]func() starlark.HasAttrs{
		"json": func() starlark.HasAttrs { return jsonModule },
		"math": func() starlark.HasAttrs { return mathModule },
	}
	for _, m := range ownModules {
		all[m.Name] = func() starlark.HasAttrs { return m }
	}
	for _, e := range modules.All {
		all[e.Name] = sync.OnceValue(func() starlark.HasAttrs {
			m := e.New()
			withOwn(m, ownMembers[e.Name])
			return m
		})
	}
	withSource(all)
	return all
}()

// ownMembers are members of modules of package guest/stdlib in need of this package.
var ownMembers = map[string]starlark.StringDict{
	"functools": {"cached_property": starlark.NewBuiltin("cached_property", cachedProperty)},
}

func moduleNames() []string { return slices.Sorted(maps.Keys(registry)) }

// findModule returns a module, nil for an unknown name. The module urllib is a namespace of the
// modules below it.
func findModule(name string) starlark.HasAttrs {
	if module, ok := registry[name]; ok {
		return module()
	}
	var below starlark.StringDict
	for full, module := range registry {
		if rest, ok := strings.CutPrefix(full, name+"."); ok && !strings.Contains(rest, ".") {
			if below == nil {
				below = make(starlark.StringDict)
			}
			below[rest] = module()
		}
	}
	if below == nil {
		return nil
	}
	return &stdlib.Module{Name: name, Members: below}
}

// member returns a module's member of a name, nil without a member. A submodule is a member.
func member(m starlark.HasAttrs, module, name string) starlark.Value {
	if v, err := m.Attr(name); v != nil && err == nil {
		return v
	}
	if sub := findModule(module + "." + name); sub != nil {
		return sub
	}
	return nil
}

// exports returns the public names of a module.
func exports(module string) []string {
	m := findModule(module)
	if m == nil {
		return nil
	}
	return slices.DeleteFunc(m.AttrNames(), func(name string) bool { return strings.HasPrefix(name, "_") })
}

// checkImports refuses modules, and names of modules, if unknown.
func (s *source) checkImports(imports []*parse.Import) *abi.Error {
	var failure *abi.Error
	unknown := make(map[string]bool) // modules of which an error has told
	for _, im := range imports {
		message := importError(im)
		if message == "" || unknown[im.Module] {
			continue
		}
		unknown[im.Module] = findModule(im.Module) == nil
		if failure == nil {
			failure = s.invalid(s.position(im.Pos), message)
			continue
		}
		failure.Message += fmt.Sprintf("\nline %d: %s", im.Pos.Line, message)
	}
	return failure
}

func importError(im *parse.Import) string {
	m := findModule(im.Module)
	if m == nil {
		hint := ""
		if h := moduleHints[strings.SplitN(im.Module, ".", 2)[0]]; h != "" {
			hint = " (" + h + ")"
		}
		return fmt.Sprintf("there is no module %s%s; the modules are %s", im.Module, hint, strings.Join(moduleNames(), ", "))
	}
	if im.Name == "" || member(m, im.Module, im.Name) != nil {
		return ""
	}
	names := m.AttrNames()
	return fmt.Sprintf("module %s has no %s%s", im.Module, im.Name, suggest(im.Name, names, names))
}

// moduleHints are hints for missing modules of Python.
var moduleHints = func() map[string]string {
	hints := map[string]string{
		"logging": "use log.info(...), log.warn(...), log.error(...)",
		"numpy":   "use lists and comprehensions", "pandas": "use lists of dicts and comprehensions",
	}
	for hint, names := range map[string]string{
		reachesNothing: "glob http httpx os pathlib requests shutil socket sqlite3 subprocess sys tempfile urllib",
		overlap:        "asyncio concurrent multiprocessing threading",
	} {
		for _, name := range strings.Fields(names) {
			hints[name] = hint
		}
	}
	return hints
}()

// meaning returns the meaning of a name of a script, or of a rewritten tree, without a binding in
// the script: a server or a value for this script, or a value in always.
func meaning(env starlark.StringDict, name string) (starlark.Value, bool) {
	if v, ok := env[name]; ok {
		return v, true
	}
	if v, ok := always[name]; ok {
		return v, true
	}
	if module, ok := strings.CutPrefix(name, parse.ImportPrefix); ok {
		if m := findModule(module); m != nil {
			return importedModule{m, module}, true
		}
	}
	for _, prefix := range []string{parse.Unpack, parse.UnpackEach} {
		if numbers, ok := strings.CutPrefix(name, prefix); ok {
			return newUnpack(numbers, prefix == parse.UnpackEach), true
		}
	}
	return nil, false
}

// importedModule is a module with hints for missing names.
type importedModule struct {
	starlark.HasAttrs
	name string
}

func (m importedModule) Attr(name string) (starlark.Value, error) {
	if v := member(m.HasAttrs, m.name, name); v != nil {
		return v, nil
	}
	if own, ok := m.HasAttrs.(*module); ok {
		return own.Attr(name)
	}
	names := m.AttrNames()
	return nil, stdlib.Errorf(stdlib.AttributeError, "module %s has no .%s%s", m.name, name, suggest(name, names, names))
}
