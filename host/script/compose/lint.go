package compose

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Warning is about a script that runs, but probably not as intended.
type Warning struct {
	Line    int    `json:"line"`   // from 1
	Column  int    `json:"column"` // from 1, in code points
	Message string `json:"message"`
	// Source is the line of the script.
	Source string `json:"-"`
	// Unchecked reports that the warning is about unchecked parts, for example calls of a server
	// without a connection, and not about the script.
	Unchecked bool `json:"-"`
}

const (
	// maxWarnings limits the warnings about a script.
	maxWarnings = 100
	// maxFollowed limits how many saved tools Lint analyses to find a cycle of calls.
	maxFollowed = 64
	// lintWork is the fuel for finding warnings, about a second, if a run may use more.
	lintWork = 2_000_000_000
	// resolveWork is the fuel for resolving the name of a tool among perhaps many.
	resolveWork = 100_000
	// scanWork is the fuel for a search in a schema, for each byte of the schema.
	scanWork = 4
	// lintWait is how long Lint waits, in total, for servers whose tools have not been listed yet.
	lintWait = 3 * time.Second
)

// Inspect analyses a script in the sandbox without running the script; see abi.Lint. The error is a
// *Failure.
func (c *Composer) Inspect(ctx context.Context, name, code string) (abi.Lint, error) {
	return c.inspectFor(ctx, nil, name, code)
}

// inspectFor is Inspect with the fuel of an account; nil: the fuel of a run.
func (c *Composer) inspectFor(ctx context.Context, account *sandbox.Account, name, code string) (abi.Lint, error) {
	var l abi.Lint
	out, err := c.inspectWith(ctx, abi.OpLint, name, code, c.names(code), c.budget(tools.Limits{}), account)
	if err != nil {
		return l, err
	}
	if out.Err != nil {
		return l, &Failure{Type: abi.ErrInternal, Message: "checking the script: " + out.Err.Message}
	}
	if err := jsonvalue.Unmarshal(out.Result, &l); err != nil {
		return l, &Failure{Type: abi.ErrInternal, Message: "checking the script: " + err.Error()}
	}
	return l, nil
}

// Lint returns warnings about probable mistakes in a script to be saved as name: mistakes in the
// code (unused variables, unreachable code), unknown tools, literal arguments that do not match a
// tool's inputSchema, and saved tools that call the script back. For a durable tool without a rule
// for calls in doubt, Lint warns of a call that is not idempotent. For a server that is down Lint
// warns once of the unchecked calls. Arguments other than literals, and code that does not parse,
// are not checked; see Check. The warnings are in the order of the source. The error is a *Failure.
func (c *Composer) Lint(ctx context.Context, name, code string) ([]Warning, error) {
	return c.LintTool(ctx, tools.Definition{Name: name, Code: code})
}

// LintTool is Lint for a tool with an inputSchema, with warnings of arguments missing in the
// inputSchema.
func (c *Composer) LintTool(ctx context.Context, def tools.Definition) ([]Warning, error) {
	name, code := def.Name, def.Code
	found, err := c.Inspect(ctx, name, code)
	if err != nil {
		return nil, err
	}
	b := c.budget(tools.Limits{})
	limits := b.Limits.WithDefaults()
	limits.Fuel = min(limits.Fuel, lintWork)
	l := linter{Composer: c, name: name, durability: def.Durability, account: sandbox.NewAccount(limits, nil)}
	limited, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	l.room = maxWarnings
	if err := l.params(limited, found.Params, def.InputSchema); err != nil {
		l.stopped(found.Params[0].Position, "names of arguments", err)
	}
	l.room = len(l.found) + maxWarnings
	for _, w := range found.Warnings {
		l.warn(w.Position, w.Message)
	}
	l.room = len(l.found) + maxWarnings
	waiting, cancel := context.WithTimeout(limited, lintWait)
	defer cancel()
	for _, n := range found.Calls {
		if err := l.call(limited, waiting, n); err != nil {
			l.stopped(n.Position, "calls from here on", err)
			break
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

// linter is the state of a call of Lint. The methods return an error if they were stopped.
type linter struct {
	*Composer
	name  string
	found []Warning
	room  int // how many warnings found may have
	// account limits the fuel for all work on the warnings.
	account *sandbox.Account

	durability tools.Durability
	doubted    bool // warned about calls in doubt

	down    map[string]bool      // unavailable servers
	schemas map[string]toolInput // of the called tools of upstreams
	saves   map[string]savedCall // of the called saved tools
	follows map[string]following // the calls of analysed saved tools
	names   map[string][]string  // of saved tools, by their script names; nil if they are not known yet
}

// full reports whether no room is left for another warning.
func (l *linter) full() bool { return len(l.found) >= l.room }

func (l *linter) warn(at abi.Position, message string) {
	w := Warning{Line: at.Line, Column: at.Column, Message: display.ClipSize(message, maxCallMessage), Source: at.Source}
	if !l.full() && !slices.Contains(l.found, w) {
		l.found = append(l.found, w)
	}
}

// stopped warns of an unchecked part, because the check was stopped.
func (l *linter) stopped(at abi.Position, what string, err error) {
	l.found = append(l.found, Warning{
		Line: at.Line, Column: at.Column, Source: at.Source, Unchecked: true,
		Message: display.ClipSize(fmt.Sprintf("%s are not checked: %v", what, err), maxCallMessage),
	})
}

// work does a part of the work, which costs fuel and takes a turn like the work of a run.
func (l *linter) work(ctx context.Context, f func(spend tools.Spend) error) error {
	work := l.cfg.Sandbox.Compute(ctx, l.name, l.account)
	defer work.Close()
	return f(work.Spend)
}

// call checks a call.
func (l *linter) call(ctx, waiting context.Context, n abi.NamedTool) error {
	switch {
	case n.Undefined || l.full(): // the warning exists already
		return nil
	case n.Server == abi.Composites:
		return l.saved(ctx, n)
	}
	return l.upstream(ctx, waiting, n)
}

// unchecked warns that calls of a server are not checked.
func (l *linter) unchecked(n abi.NamedTool, err error) {
	before := len(l.found)
	l.warn(n.Position, fmt.Sprintf("calls of %s are not checked: %v", n.Server, err))
	for i := range l.found[before:] {
		l.found[before+i].Unchecked = true
	}
}

// upstream checks a call of a server's tool. upstream waits for the server until waiting ends.
func (l *linter) upstream(ctx, waiting context.Context, n abi.NamedTool) error {
	if l.down[n.Server] {
		return nil
	}
	if err := l.work(ctx, func(spend tools.Spend) error { return spend(resolveWork) }); err != nil {
		return err
	}
	server, tool, err := l.cfg.Catalog.Resolve(n.Server, n.Tool, n.Exact)
	if needsStart(l.cfg.Catalog, server, err) {
		if err := l.cfg.Upstreams.Ready(waiting, nil, server); err != nil {
			if l.down == nil {
				l.down = map[string]bool{}
			}
			l.down[n.Server] = true // the tools of the server are not known
			l.unchecked(n, err)
			return nil
		}
		server, tool, err = l.cfg.Catalog.Resolve(n.Server, n.Tool, n.Exact)
	}
	if err != nil {
		l.warn(n.Position, err.Error())
		return nil
	}
	l.doubt(n, server, tool)
	in, err := l.input(ctx, server, tool)
	if err != nil || in.schema == nil {
		return err
	}
	return l.arguments(ctx, n, server+"."+tool, in.raw, in.schema.ValidateArguments)
}

// toolInput is the inputSchema of an upstream's tool.
type toolInput struct {
	raw    []byte
	schema *tools.Schema // nil if the schema does not compile
}

// input returns the inputSchema of an upstream's tool. Each tool is looked up once.
func (l *linter) input(ctx context.Context, server, tool string) (toolInput, error) {
	key := server + "." + tool
	if in, ok := l.schemas[key]; ok {
		return in, nil
	}
	in := toolInput{raw: l.cfg.Catalog.InputSchema(server, tool)}
	err := l.work(ctx, func(spend tools.Spend) error { return spend(uint64(len(in.raw)) * scanWork) })
	if err != nil {
		return in, err
	}
	in.schema = l.upstreamSchema(server, tool, in.raw, l.turn(ctx, l.name))
	if l.schemas == nil {
		l.schemas = map[string]toolInput{}
	}
	l.schemas[key] = in
	return in, nil
}

// doubt warns once of a possible failure of a durable run by a call that may or may not have been
// made.
func (l *linter) doubt(n abi.NamedTool, server, tool string) {
	d := l.durability
	if !d.Durable || d.InDoubt != "" || l.doubted || l.cfg.Idempotent == nil || l.cfg.Idempotent(server, tool) {
		return
	}
	l.doubted = true
	l.warn(n.Position, fmt.Sprintf("%s.%s is not known to be idempotent: if the process dies during the call, the run fails, and nothing is undone (set inDoubt to \"undo\" or \"ask\", or to \"fail\" if that is wanted)", server, tool))
}
