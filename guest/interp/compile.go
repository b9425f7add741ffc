package interp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// toplevel is the name of the function that a script is the body of: what the
// library calls the outermost frame too.
const toplevel = "<toplevel>"

// compile parses, rewrites and resolves a script. The program defines one
// global, the function toplevel. env may gain entries that only the rewritten
// tree refers to.
func compile(src *source, env starlark.StringDict) (*starlark.Program, *abi.Error) {
	if i := strings.IndexByte(src.code, 0); i >= 0 {
		// The library takes a NUL for the end of the source.
		return nil, src.invalid(src.positionOf(i), "a NUL character cannot stand in a script")
	}
	opts := &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}
	file, err := opts.Parse(src.name, src.code, 0)
	if err != nil {
		return nil, src.syntaxError(err)
	}
	rw := rewriter{bound: make(map[string]bool)}
	rw.file(file, env)
	if rw.err != nil {
		return nil, src.invalid(src.position(rw.err.Pos), rw.err.Msg)
	}
	undefined := make(map[string]bool)
	prog, err := starlark.FileProgram(file, func(name string) bool {
		_, ok := env[name]
		if !ok && !starlark.Universe.Has(name) {
			undefined[name] = true
		}
		return ok
	})
	if err != nil {
		return nil, src.resolveError(err, undefined, candidates(rw.bound, env))
	}
	return prog, nil
}

// candidates are the names that an undefined one may have been meant to be.
func candidates(bound map[string]bool, env starlark.StringDict) []string {
	var names []string
	for name := range bound {
		names = append(names, name)
	}
	for _, dict := range []starlark.StringDict{env, starlark.Universe} {
		for name := range dict {
			if isIdentifier(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// resolveError words what the resolver found: the first error in full, and the
// others each on a line of its own.
func (s *source) resolveError(err error, undefined map[string]bool, names []string) *abi.Error {
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
	const shown = 6
	message := ""
	for i, e := range list[:min(len(list), shown)] {
		text := e.Msg
		if name := s.wordAt(e.Pos); undefined[name] {
			text = undefinedName(name, names)
		}
		if i > 0 {
			text = fmt.Sprintf("\nline %d: %s", e.Pos.Line, text)
		}
		message += text
	}
	if n := len(list) - shown; n > 0 {
		message += fmt.Sprintf("\nand %d more", n)
	}
	return s.invalid(s.position(list[0].Pos), message)
}

func undefinedName(name string, names []string) string {
	if hint, ok := undefinedHints[name]; ok {
		return fmt.Sprintf("undefined: %s (%s)", name, hint)
	}
	if n := nearest(name, names); n != "" {
		return fmt.Sprintf("undefined: %s (did you mean %s?)", name, n)
	}
	return "undefined: " + name
}
