package compose

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// Warning is about a script that runs, but probably not as intended.
type Warning struct {
	Line    int    `json:"line"`   // from 1
	Column  int    `json:"column"` // from 1, in code points
	Message string `json:"message"`
	// Source is that line of the script.
	Source string `json:"-"`
	// Unchecked reports that this is about a server that is down, not about the script.
	Unchecked bool `json:"-"`
}

const (
	// maxWarnings limits the warnings about one script.
	maxWarnings = 100
	// maxFollowed limits how many saved tools Lint searches for a cycle of calls.
	maxFollowed = 64
	// lintWait is how long Lint waits, in total, for servers that have not listed
	// their tools yet.
	lintWait = 3 * time.Second
)

// Inspect analyses a script in the sandbox without running it; see abi.Lint. The error is
// a *Failure.
func (c *Composer) Inspect(ctx context.Context, name, code string) (abi.Lint, error) {
	var l abi.Lint
	out, err := c.inspect(ctx, abi.OpLint, name, code)
	if err != nil {
		return l, err
	}
	if out.Err != nil {
		return l, &Failure{Type: abi.ErrInternal, Message: "checking the script: " + out.Err.Message}
	}
	if err := json.Unmarshal(out.Result, &l); err != nil {
		return l, &Failure{Type: abi.ErrInternal, Message: "checking the script: " + err.Error()}
	}
	return l, nil
}

// Lint returns warnings about probable mistakes in a script that will be saved as name:
// mistakes in the code (unused variables, unreachable code), unknown tools, literal
// arguments that do not match a tool's inputSchema, and saved tools that call this one
// back. For a durable tool that does not say what happens in doubt, it warns of a call that
// is not idempotent. For a server that is down it warns once that calls are not checked. It does not
// check arguments that are not literals, or code that does not parse; see Check. The
// warnings are in the order of the source. The error is a *Failure.
func (c *Composer) Lint(ctx context.Context, name, code string) ([]Warning, error) {
	return c.LintTool(ctx, tools.Definition{Name: name, Code: code})
}

// LintTool is Lint for a tool with an inputSchema: it also warns of arguments that this
// does not have.
func (c *Composer) LintTool(ctx context.Context, def tools.Definition) ([]Warning, error) {
	name, code := def.Name, def.Code
	found, err := c.Inspect(ctx, name, code)
	if err != nil {
		return nil, err
	}
	l := linter{Composer: c, name: name, durability: def.Durability, account: sandbox.NewAccount(c.cfg.Limits, nil)}
	l.params(found.Params, def.InputSchema)
	for _, w := range found.Warnings {
		l.warn(w.Position, w.Message)
	}
	waiting, cancel := context.WithTimeout(ctx, lintWait)
	defer cancel()
	for _, n := range found.Calls {
		switch {
		case n.Undefined: // there is a warning
		case n.Server == abi.Composites:
			if err := l.saved(ctx, n); err != nil {
				return nil, err
			}
		default:
			l.upstream(ctx, waiting, n)
		}
	}
	if ctx.Err() != nil {
		return nil, contextFailure(ctx)
	}
	slices.SortStableFunc(l.found, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return l.found[:min(len(l.found), maxWarnings)], nil
}

// linter is the state of one call of Lint.
type linter struct {
	*Composer
	name  string
	found []Warning
	// account limits the fuel for checking literal arguments.
	account *sandbox.Account

	durability tools.Durability
	doubted    bool // there is a warning about calls in doubt

	down  map[string]bool            // servers that are not available
	calls map[string][]abi.NamedTool // of saved tools that were analysed
}

func (l *linter) warn(at abi.Position, message string) {
	w := Warning{Line: at.Line, Column: at.Column, Message: display.ClipSize(message, maxCallMessage), Source: at.Source}
	if !slices.Contains(l.found, w) {
		l.found = append(l.found, w)
	}
}

// params warns of arguments that the schema does not have.
func (l *linter) params(named []abi.NamedParam, inputSchema []byte) {
	raw, ok := wire.Get(inputSchema, "properties")
	var properties map[string]json.RawMessage
	if !ok || json.Unmarshal(raw, &properties) != nil {
		return
	}
	for _, key := range []string{"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"} {
		if more, ok := wire.Get(inputSchema, key); ok && string(more) != "false" {
			return // there may be others
		}
	}
	names := slices.Sorted(maps.Keys(properties))
	for _, p := range named {
		if _, known := properties[p.Name]; known {
			continue
		}
		hint := ""
		if n := nearest.Name(p.Name, names, nearest.Limit(len(p.Name))); n != "" {
			hint = fmt.Sprintf(" (did you mean %s?)", n)
		}
		l.warn(p.Position, fmt.Sprintf("inputSchema has no property %q%s", p.Name, hint))
	}
}

// unchecked warns that calls of a server are not checked.
func (l *linter) unchecked(n abi.NamedTool, err error) {
	before := len(l.found)
	l.warn(n.Position, fmt.Sprintf("calls of %s are not checked: %v", n.Server, err))
	for i := range l.found[before:] {
		l.found[before+i].Unchecked = true
	}
}

// upstream checks a call of a server's tool. It waits for the server until waiting
// ends.
func (l *linter) upstream(ctx, waiting context.Context, n abi.NamedTool) {
	if l.down[n.Server] {
		return
	}
	server, tool, err := l.cfg.Catalog.Resolve(n.Server, n.Tool, n.Exact)
	if needsStart(l.cfg.Catalog, server, err) {
		if err := l.cfg.Upstreams.Ready(waiting, nil, server); err != nil {
			if l.down == nil {
				l.down = map[string]bool{}
			}
			l.down[n.Server] = true // its tools are not known
			l.unchecked(n, err)
			return
		}
		server, tool, err = l.cfg.Catalog.Resolve(n.Server, n.Tool, n.Exact)
	}
	if err != nil {
		l.warn(n.Position, err.Error())
		return
	}
	l.doubt(n, server, tool)
	raw := l.cfg.Catalog.InputSchema(server, tool)
	if schema := l.schemas.of(server, tool, raw, l.cfg.Log, nil); schema != nil {
		l.arguments(ctx, n, server+"."+tool, raw, schema.ValidateArguments)
	}
}

// doubt warns once that a durable run can fail because it is not known whether a call was made.
func (l *linter) doubt(n abi.NamedTool, server, tool string) {
	d := l.durability
	if !d.Durable || d.InDoubt != "" || l.doubted || l.cfg.Idempotent == nil || l.cfg.Idempotent(server, tool) {
		return
	}
	l.doubted = true
	l.warn(n.Position, fmt.Sprintf("%s.%s is not known to be idempotent: if the process dies during the call, the run fails, and nothing is undone (set inDoubt to \"undo\" or \"ask\", or to \"fail\" if that is wanted)", server, tool))
}

// saved checks a call of a saved tool.
func (l *linter) saved(ctx context.Context, n abi.NamedTool) error {
	if n.Tool == l.name || !n.Exact && n.Tool == abi.Ident(l.name) {
		l.warn(n.Position, fmt.Sprintf("%s calls itself, which saved tools cannot", l.name))
		return nil
	}
	if l.cfg.Saved == nil {
		return nil // saved tools are not known
	}
	name, err := l.resolve(n)
	if err != nil {
		l.warn(n.Position, err.Error())
		return nil
	}
	def, err := l.cfg.Saved.Get(name)
	if err != nil {
		l.warn(n.Position, err.Error())
		return nil
	}
	if schema, err := def.Input(); err == nil && schema != nil {
		l.arguments(ctx, n, abi.Composites+"."+name, def.InputSchema, func(args []byte, spend tools.Spend) error {
			_, err := schema.Coerce(args, spend)
			return err
		})
	}
	back, err := l.callsBack(ctx, def)
	if err != nil {
		return err
	}
	if back != nil {
		chain := append([]string{l.name}, back...)
		l.warn(n.Position, "saved tools call each other in a cycle, which is refused: "+strings.Join(chain, " -> "))
	}
	return nil
}

// resolve finds the saved tool for a call.
func (l *linter) resolve(n abi.NamedTool) (string, error) {
	return (&run{Composer: l.Composer}).resolveSaved(abi.ToolCall{Server: n.Server, Tool: n.Tool, Exact: n.Exact})
}

// callsBack returns the shortest chain of calls from def to the script, including both;
// nil if there is none.
func (l *linter) callsBack(ctx context.Context, def tools.Definition) ([]string, error) {
	seen := map[string]bool{def.Name: true}
	for queue := [][]string{{def.Name}}; len(queue) > 0 && len(seen) <= maxFollowed; queue = queue[1:] {
		chain := queue[0]
		def, err := l.cfg.Saved.Get(chain[len(chain)-1])
		if err != nil {
			continue // it cannot be called
		}
		calls, err := l.callsOf(ctx, def)
		if err != nil {
			return nil, err
		}
		for _, n := range calls {
			if n.Server != abi.Composites {
				continue
			}
			if n.Tool == l.name || !n.Exact && n.Tool == abi.Ident(l.name) {
				return append(slices.Clone(chain), l.name), nil
			}
			if name, err := l.resolve(n); err == nil && !seen[name] {
				seen[name] = true
				queue = append(queue, append(slices.Clone(chain), name))
			}
		}
	}
	return nil, nil
}

// callsOf returns the tools that a saved tool names.
func (l *linter) callsOf(ctx context.Context, def tools.Definition) ([]abi.NamedTool, error) {
	if calls, ok := l.calls[def.Name]; ok {
		return calls, nil
	}
	found, err := l.Inspect(ctx, def.Name, def.Code)
	if err != nil {
		return nil, err
	}
	if l.calls == nil {
		l.calls = map[string][]abi.NamedTool{}
	}
	l.calls[def.Name] = found.Calls
	return found.Calls, nil
}

// arguments checks literal arguments against the tool's inputSchema.
func (l *linter) arguments(ctx context.Context, n abi.NamedTool, tool string, schema []byte, validate func([]byte, tools.Spend) error) {
	if n.Arguments == nil {
		return
	}
	l.options(n, tool, schema)
	whole := !n.More && len(n.Unknown) == 0
	work := l.cfg.Sandbox.Compute(ctx, l.name, l.account)
	defer work.Close()
	var wrong *tools.ValidationError
	if err := validate(n.Arguments, work.Spend); errors.As(err, &wrong) {
		for _, v := range wrong.Violations {
			if whole || decided(v.Pointer, n) {
				l.warn(n.Position, fmt.Sprintf("%s: the arguments do not match the tool's inputSchema: %s", tool, v))
			}
		}
	}
	if whole {
		return
	}
	for _, message := range nameProblems(n, schema) {
		l.warn(n.Position, fmt.Sprintf("%s: the arguments do not match the tool's inputSchema: /: %s", tool, message))
	}
}

// options warns about arguments that are probably meant as options of the call: they
// would be, next to a dict of arguments, and the tool has no argument of that name.
func (l *linter) options(n abi.NamedTool, tool string, schema []byte) {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(schema, &s) != nil || s.Properties == nil || json.Unmarshal(n.Arguments, &given) != nil {
		return
	}
	for _, name := range []string{"meta", "timeout"} {
		if _, ok := given[name]; ok && s.Properties[name] == nil {
			l.warn(n.Position, fmt.Sprintf("%s: %s is sent as an argument, but the tool has no argument of that name: if it is an option of the call, pass the arguments as a dict: ({...}, %s=...)", tool, name, name))
		}
	}
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

// property has the part of a property's schema that we need.
type property struct {
	Default json.RawMessage
}

// UnmarshalJSON reads the default of a schema that is an object.
func (p *property) UnmarshalJSON(raw []byte) error {
	p.Default, _ = wire.Get(raw, "default")
	return nil
}

// nameProblems returns what is wrong with the names of arguments, according to the
// simple parts of a schema.
func nameProblems(n abi.NamedTool, schema []byte) []string {
	var s struct {
		Properties           map[string]property `json:"properties"`
		PatternProperties    json.RawMessage     `json:"patternProperties"`
		AdditionalProperties json.RawMessage     `json:"additionalProperties"`
		Required             []string            `json:"required"`
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(schema, &s) != nil || json.Unmarshal(n.Arguments, &given) != nil {
		return nil
	}
	var out []string
	for _, name := range s.Required {
		if _, ok := given[name]; !ok && !n.More && s.Properties[name].Default == nil {
			out = append(out, fmt.Sprintf("missing property %s", wire.Quote(name)))
		}
	}
	if string(s.AdditionalProperties) != "false" || s.PatternProperties != nil {
		return out
	}
	for name := range given {
		if _, ok := s.Properties[name]; !ok {
			out = append(out, fmt.Sprintf("unknown property %s", wire.Quote(name)))
		}
	}
	slices.Sort(out)
	return out
}
