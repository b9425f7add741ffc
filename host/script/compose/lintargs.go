package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// Schemas are hostile and can be as large as a list. So they are searched, at most a few times
// for each call and for fuel, and no tree is made of them.
const (
	// maxRequired is how many required properties of a schema, or names for a hint, Lint looks at.
	maxRequired = 1000
	// nameWork is the fuel for comparing two names, or two pointers.
	nameWork = 500
	// maxNameShown is the length in bytes of a name in a warning.
	maxNameShown = 200
)

// params warns of arguments missing in the inputSchema of the tool.
func (l *linter) params(ctx context.Context, named []abi.NamedParam, inputSchema []byte) error {
	if len(named) == 0 {
		return nil
	}
	return l.work(ctx, func(spend tools.Spend) error {
		if err := spend(2 * uint64(len(inputSchema)) * scanWork); err != nil {
			return err
		}
		var parts [8][]byte
		wire.Pick(inputSchema, []string{"properties", "additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"}, parts[:])
		for _, more := range parts[1:] {
			if more != nil && string(more) != "false" {
				return nil // other parameters may follow
			}
		}
		known := map[string]bool{}
		for _, p := range named {
			known[p.Name] = false
		}
		var names []string
		ok := parts[0] != nil && wire.Each(parts[0], func(name, _ []byte) bool {
			if _, used := known[string(name)]; used {
				known[string(name)] = true
			}
			if len(names) < maxRequired && len(name) <= nearest.MaxLength {
				names = append(names, string(name))
			}
			return true
		})
		if !ok {
			return nil
		}
		slices.Sort(names)
		for _, p := range named {
			if known[p.Name] || l.full() {
				continue
			}
			if err := spend(uint64(len(names)) * nameWork); err != nil {
				return err
			}
			hint := ""
			if n := nearest.Name(p.Name, names, nearest.Limit(len(p.Name))); n != "" {
				hint = fmt.Sprintf(" (did you mean %s?)", n)
			}
			l.warn(p.Position, fmt.Sprintf("inputSchema has no property %q%s", display.ClipSize(p.Name, maxNameShown), hint))
		}
		return nil
	})
}

// arguments checks literal arguments against the tool's inputSchema.
func (l *linter) arguments(ctx context.Context, n abi.NamedTool, tool string, schema []byte, validate func([]byte, tools.Spend) error) error {
	if n.Arguments == nil {
		return nil
	}
	return l.work(ctx, func(spend tools.Spend) error {
		names, err := argumentNames(n, schema, spend)
		if err != nil {
			return err
		}
		for _, name := range []string{"meta", "timeout"} {
			if names.undeclared(name) {
				l.warn(n.Position, fmt.Sprintf("%s: %s is sent as an argument, but the tool has no argument of that name: if it is an option of the call, pass the arguments as a dict: ({...}, %s=...)", tool, name, name))
			}
		}
		whole := !n.More && len(n.Unknown) == 0
		mismatch := func(what fmt.Stringer) {
			l.warn(n.Position, fmt.Sprintf("%s: the arguments do not match the tool's inputSchema: %s", tool, what))
		}
		var wrong *tools.ValidationError
		switch err := validate(n.Arguments, spend); {
		case errors.As(err, new(*sandbox.LimitError)) || ctx.Err() != nil:
			return err
		case errors.As(err, &wrong):
			for _, v := range wrong.Violations {
				if l.full() {
					return nil
				}
				if err := spend(uint64(len(n.Unknown)) * nameWork); err != nil {
					return err
				}
				if whole || decided(v.Pointer, n) {
					mismatch(v)
				}
			}
		}
		if !whole {
			for _, problem := range names.problems() {
				mismatch(tools.Violation{Message: problem})
			}
		}
		return nil
	})
}

// decided reports whether the literals determine a violation at a pointer.
func decided(pointer string, n abi.NamedTool) bool {
	if pointer == "" {
		return false
	}
	return !slices.ContainsFunc(n.Unknown, func(u string) bool {
		return pointer == u || strings.HasPrefix(pointer, u+"/") || strings.HasPrefix(u, pointer+"/")
	})
}

// givenNames are the names of the arguments in code, compared with the simple parts of a schema.
type givenNames struct {
	properties bool            // the schema has properties
	declared   map[string]bool // the given names; true for a property of the schema
	missing    []string        // required, and not given
	closed     bool            // other names are not allowed
}

// argumentNames compares the names of the arguments of a call with a schema.
func argumentNames(n abi.NamedTool, schema []byte, spend tools.Spend) (g givenNames, err error) {
	if err := spend(3 * uint64(len(schema)) * scanWork); err != nil {
		return g, err
	}
	given, ok := wire.Members(n.Arguments)
	var parts [4][]byte
	if !wire.Pick(schema, []string{"properties", "required", "additionalProperties", "patternProperties"}, parts[:]) || !ok {
		return g, nil
	}
	g.closed = string(parts[2]) == "false" && parts[3] == nil
	g.declared = map[string]bool{}
	for _, m := range given {
		g.declared[m.Name] = false
	}
	required := map[string]bool{} // and not given
	if first, _, err := wire.FirstElements(parts[1], maxRequired); err == nil && !n.More {
		for _, raw := range first {
			name, ok := wire.Text(raw)
			if _, given := g.declared[name]; ok && !given && !required[name] {
				required[name] = true
				g.missing = append(g.missing, name)
			}
		}
	}
	g.properties = wire.Each(parts[0], func(name, value []byte) bool {
		if _, given := g.declared[string(name)]; given {
			g.declared[string(name)] = true
		}
		if required[string(name)] {
			_, hasDefault := wire.Get(value, "default")
			required[string(name)] = !hasDefault
		}
		return true
	})
	g.missing = slices.DeleteFunc(g.missing, func(name string) bool { return !required[name] })
	return g, nil
}

// undeclared reports whether name is given without being an argument of the tool.
func (g givenNames) undeclared(name string) bool {
	declared, given := g.declared[name]
	return given && !declared && g.properties
}

// problems returns the mistakes in the names.
func (g givenNames) problems() (all []string) {
	show := func(name string) []byte { return wire.Quote(display.ClipSize(name, maxNameShown)) }
	for _, name := range g.missing[:min(len(g.missing), maxWarnings)] {
		all = append(all, fmt.Sprintf("missing property %s", show(name)))
	}
	if !g.closed {
		return all
	}
	for name, declared := range g.declared {
		if !declared {
			all = append(all, fmt.Sprintf("unknown property %s", show(name)))
		}
	}
	slices.Sort(all)
	return all
}
