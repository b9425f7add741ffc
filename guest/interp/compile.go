package interp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
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
