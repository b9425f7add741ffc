package compose

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// savedCall is Lint's knowledge of a called saved tool.
type savedCall struct {
	problem string        // why the tool cannot be called; "" for no problem
	raw     []byte        // the inputSchema
	schema  *tools.Schema // nil if the schema does not compile
	cycle   []string      // the shortest chain of calls from the tool to the script, with both; nil for none
}

// saved checks a call of a saved tool.
func (l *linter) saved(ctx context.Context, n abi.NamedTool) error {
	if l.itself(n) {
		l.warn(n.Position, fmt.Sprintf("%s calls itself, which saved tools cannot", l.name))
		return nil
	}
	if l.cfg.Saved == nil {
		return nil // saved tools are not known
	}
	name, ok := l.named(n)
	if !ok {
		err := l.work(ctx, func(spend tools.Spend) error { return spend(resolveWork) })
		if err != nil {
			return err
		}
		if name, err = (&run{Composer: l.Composer}).resolveSaved(abi.ToolCall{Server: n.Server, Tool: n.Tool, Exact: n.Exact}); err != nil {
			l.warn(n.Position, err.Error())
			return nil
		}
	}
	of, err := l.savedCall(ctx, name)
	if err != nil {
		return err
	}
	if of.problem != "" {
		l.warn(n.Position, of.problem)
		return nil
	}
	if of.schema != nil {
		err := l.arguments(ctx, n, abi.Composites+"."+name, of.raw, func(args []byte, spend tools.Spend) error {
			_, err := of.schema.Coerce(args, spend)
			return err
		})
		if err != nil {
			return err
		}
	}
	if of.cycle != nil {
		chain := append([]string{l.name}, of.cycle...)
		l.warn(n.Position, "saved tools call each other in a cycle, which is refused: "+strings.Join(chain, " -> "))
	}
	return nil
}

// itself reports whether a call is a call of the script itself.
func (l *linter) itself(n abi.NamedTool) bool {
	return n.Tool == l.name || !n.Exact && n.Tool == abi.Ident(l.name)
}

// named finds the saved tool for a call as a run does, if exactly one tool fits.
func (l *linter) named(n abi.NamedTool) (name string, ok bool) {
	if l.names == nil {
		l.names = map[string][]string{}
		for _, def := range l.cfg.Saved.List() {
			id := abi.Ident(def.Name)
			l.names[id] = append(l.names[id], def.Name)
		}
	}
	found := l.names[abi.Ident(n.Tool)]
	switch {
	case slices.Contains(found, n.Tool):
		return n.Tool, true
	case n.Exact || abi.Ident(n.Tool) != n.Tool || len(found) != 1:
		return "", false
	}
	return found[0], true
}

// savedCall returns the knowledge of a saved tool. Each tool is looked up once.
func (l *linter) savedCall(ctx context.Context, name string) (savedCall, error) {
	if of, ok := l.saves[name]; ok {
		return of, nil
	}
	var of savedCall
	def, err := l.cfg.Saved.Get(name)
	if err != nil {
		of.problem = err.Error()
	} else {
		of.raw = def.InputSchema
		of.schema, _ = def.Input(l.turn(ctx, l.name))
		if of.cycle, err = l.callsBack(ctx, name); err != nil {
			return of, err
		}
	}
	if l.saves == nil {
		l.saves = map[string]savedCall{}
	}
	l.saves[name] = of
	return of, nil
}

// following is the set of calls of a saved tool.
type following struct {
	back  bool     // the tool calls the script
	saved []string // the called saved tools, each once
}

// callsBack returns the shortest chain of calls from a saved tool to the script, including both;
// nil for none, or if more than maxFollowed tools would have to be analysed.
func (l *linter) callsBack(ctx context.Context, name string) ([]string, error) {
	from := map[string]string{name: ""} // who has led to a tool
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		calls, err := l.callsOf(ctx, queue[0])
		if err != nil {
			return nil, err
		}
		if calls.back {
			chain := []string{l.name}
			for at := queue[0]; at != ""; at = from[at] {
				chain = append(chain, at)
			}
			slices.Reverse(chain)
			return chain, nil
		}
		for _, next := range calls.saved {
			if _, seen := from[next]; !seen {
				from[next] = queue[0]
				queue = append(queue, next)
			}
		}
	}
	return nil, nil
}

// callsOf returns the calls of a saved tool; none if the tool cannot be called, or after
// maxFollowed other tools.
func (l *linter) callsOf(ctx context.Context, name string) (following, error) {
	if calls, ok := l.follows[name]; ok || len(l.follows) >= maxFollowed {
		return calls, nil
	}
	if l.follows == nil {
		l.follows = map[string]following{}
	}
	var calls following
	if def, err := l.cfg.Saved.Get(name); err == nil {
		found, err := l.inspectFor(ctx, l.account, name, def.Code)
		if err != nil {
			return calls, err
		}
		err = l.work(ctx, func(spend tools.Spend) error { return spend(uint64(len(found.Calls)) * nameWork) })
		if err != nil {
			return calls, err
		}
		for _, n := range found.Calls {
			if n.Server != abi.Composites {
				continue
			}
			if calls.back = calls.back || l.itself(n); calls.back {
				break
			}
			if called, ok := l.named(n); ok && !slices.Contains(calls.saved, called) {
				calls.saved = append(calls.saved, called)
			}
		}
	}
	l.follows[name] = calls
	return calls, nil
}
