package interp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/inpython"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/modules"
)

// toplevel is the name of the function with the script as body, and also the library's name for the
// outermost frame.
const toplevel = "<toplevel>"

// compile parses, rewrites and resolves a script. The program defines one global, the function
// toplevel. env may gain entries for the rewritten tree only.
func compile(src *source, env starlark.StringDict) (*starlark.Program, *abi.Error) {
	if i := strings.IndexByte(src.code, 0); i >= 0 {
		// The library treats a NUL as the end of the source.
		return nil, src.invalid(src.positionOf(i), "a script cannot contain a NUL character")
	}
	file, failure := src.parse()
	if failure != nil {
		return nil, failure
	}
	if failure := src.checkImports(file.Imports); failure != nil {
		return nil, failure
	}
	rw := newRewriter(file, env)
	rw.file(file.File)
	if rw.err != nil {
		return nil, src.invalid(src.position(rw.err.Pos), rw.err.Msg)
	}
	undefined := make(map[string]bool)
	prog, err := starlark.FileProgram(file.File, func(name string) bool {
		v, ok := meaning(env, name)
		if ok {
			env[name] = v
			src.imports(v)
		} else if !starlark.Universe.Has(name) {
			undefined[name] = true
		}
		return ok
	})
	if err != nil {
		return nil, src.resolveError(err, undefined, candidates(rw.bound, env), env)
	}
	return prog, nil
}

// parse returns the tree of a script.
func (s *source) parse() (*parse.File, *abi.Error) {
	file, errs := parse.Script(s.name, s.code, exports)
	if len(errs) > 0 {
		s.more = errs[0].Open
		return nil, s.syntaxErrors(errs)
	}
	return file, nil
}

// syntaxErrors combines the errors of the parser into a single error: the first in full, and each
// further error on a separate line.
func (s *source) syntaxErrors(errs []*parse.Error) *abi.Error {
	out := s.syntaxError(errs[0])
	for _, e := range errs[1:min(len(errs), maxShownErrors)] {
		next := s.syntaxError(e)
		out.Message += fmt.Sprintf("\nline %d: %s", next.Position.Line, next.Message)
	}
	if n := len(errs) - maxShownErrors; n > 0 {
		out.Message += fmt.Sprintf("\nand %d more", n)
	}
	return out
}

// maxShownErrors limits the errors of the source shown in a message.
const maxShownErrors = 6

// candidates returns the names of which an undefined name may be a misspelling.
func candidates(bound map[string]bool, env starlark.StringDict) []string {
	var names []string
	for name := range bound {
		names = append(names, name)
	}
	for _, dict := range []starlark.StringDict{env, always, starlark.Universe} {
		for name := range dict {
			if isIdentifier(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// resolveError turns the resolver's errors into a single error: the first in full, each further
// error on a separate line.
func (s *source) resolveError(err error, undefined map[string]bool, names []string, env starlark.StringDict) *abi.Error {
	var list resolve.ErrorList
	if !errors.As(err, &list) {
		return s.invalid(nil, err.Error())
	}
	slices.SortStableFunc(list, func(a, b resolve.Error) int {
		if a.Pos.Line != b.Pos.Line {
			return int(a.Pos.Line - b.Pos.Line)
		}
		return int(a.Pos.Col - b.Pos.Col)
	})
	message := ""
	for i, e := range list[:min(len(list), maxShownErrors)] {
		text := e.Msg
		if name := s.wordAt(e.Pos); undefined[name] {
			text = s.undefinedName(name, names, env)
			switch {
			case text != "undefined: "+name:
			case s.followedBy(e.Pos, name, ".["):
				text += knownServers(env)
			case s.followedBy(e.Pos, name, "(") && !strings.Contains(name, "__"):
				text += fmt.Sprintf(" (a saved tool is called as %s.%s({...}))", abi.Composites, name)
			}
		}
		if i > 0 {
			text = fmt.Sprintf("\nline %d: %s", e.Pos.Line, text)
		}
		message += text
	}
	if n := len(list) - maxShownErrors; n > 0 {
		message += fmt.Sprintf("\nand %d more", n)
	}
	return s.invalid(s.position(list[0].Pos), message)
}

// undefinedName returns the message for an undefined name, with a hint if available.
func (s *source) undefinedName(name string, names []string, env starlark.StringDict) string {
	// Unless configured otherwise, agents see tools as server__tool.
	if first, tool, ok := strings.Cut(name, "__"); ok && tool != "" {
		if _, is := env[first].(server); is {
			return fmt.Sprintf("undefined: %s (in a script it is %s.%s)", name, first, tool)
		}
	}
	if slices.Contains(s.agentTools, name) {
		return fmt.Sprintf("undefined: %s (only agents can call it: a script calls server.tool({...}), and saved tools as tools.name({...}))", name)
	}
	if hint, ok := undefinedHints[name]; ok {
		return fmt.Sprintf("undefined: %s (%s)", name, hint)
	}
	if n := nearest(name, names); n != "" {
		return fmt.Sprintf("undefined: %s (did you mean %s?)", name, n)
	}
	return "undefined: " + name
}

// followedBy reports whether a name is followed by any of some characters: a dot or bracket after
// the name of a server, a parenthesis after the name of a function.
func (s *source) followedBy(pos syntax.Position, name, characters string) bool {
	line := []rune(s.line(int(pos.Line)))
	after := int(pos.Col) - 1 + utf8.RuneCountInString(name)
	return after < len(line) && strings.ContainsRune(characters, line[after])
}

// knownServers returns the end of a message with the names of the servers.
func knownServers(env starlark.StringDict) string {
	const shown = 8
	var names []string
	for name, v := range env {
		if _, ok := v.(server); ok && name != abi.Composites {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch n := len(names); {
	case n == 0:
		return " (no servers are connected)"
	case n > shown:
		return fmt.Sprintf(" (the servers are %s and %d more)", strings.Join(names[:shown], ", "), n-shown)
	}
	return fmt.Sprintf(" (the servers are %s)", strings.Join(names, ", "))
}

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

// nearest returns the candidate with the smallest edit distance to name, or "" if
// none is near. Case and underscores do not count. Of several at the same distance,
// the first wins.
func nearest(name string, candidates []string) string {
	const longest = 64 // longer names are not compared
	if len(name) > longest {
		return ""
	}
	folded := fold(name)
	best, bestDistance := "", (utf8.RuneCountInString(folded)+1)/2
	for _, c := range candidates {
		if len(c) > longest || c == name || strings.HasPrefix(c, parse.Hidden) {
			continue
		}
		if d := distance(folded, fold(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.ToLower(strings.ReplaceAll(s, "_", ""))
}

// distance returns the Levenshtein distance in code points.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			cost := diagonal
			if x[i] != y[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(y)]
}

// suggest returns the end of an error about an unknown name: the nearest candidate,
// or else the first few candidates.
func suggest(name string, candidates, all []string) string {
	if n := nearest(name, candidates); n != "" {
		return fmt.Sprintf(" (did you mean %s?)", n)
	}
	const shown = 8
	switch {
	case len(all) == 0:
		return " (it has no keys)"
	case len(all) <= shown:
		return fmt.Sprintf(" (it has: %s)", strings.Join(all, ", "))
	}
	return fmt.Sprintf(" (it has: %s and %d more)", strings.Join(all[:shown], ", "), len(all)-shown)
}

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
