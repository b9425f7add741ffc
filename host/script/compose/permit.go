package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/permissions"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// A grant is what one saved tool in a chain of calls may call.
type grant struct {
	tool   string
	listed bool // permissions are those of its script; otherwise only their bounds count
	*tools.Permissions
}

// Permissions derives what a saved tool may call; see permissions.Source.Derive. It waits a
// little for servers whose tools are not known yet. The error is a *Failure.
func (c *Composer) Permissions(ctx context.Context, def tools.Definition) (*tools.Permissions, []tools.Violation, error) {
	waiting, cancel := context.WithTimeout(ctx, lintWait)
	defer cancel()
	from := c.permissionSource()
	from.Await = func(server string) {
		_ = c.cfg.Upstreams.Ready(waiting, nil, server) // otherwise its tools stay unknown
	}
	return from.Derive(ctx, def)
}

// permissionSource returns what permissions are derived from, without waiting for servers.
func (c *Composer) permissionSource() permissions.Source {
	return permissions.Source{
		Reach: func(ctx context.Context, name, code string) ([]abi.Reached, error) {
			found, err := c.reach(ctx, name, code, c.names(code))
			return found.tools, err
		},
		Resolve: c.cfg.Catalog.Resolve, Servers: c.cfg.Definitions, Saved: c.cfg.Saved, Hides: c.cfg.Hides,
	}
}

// permitted returns a saved tool with permissions of its script. A tool that was written by
// an earlier program, or edited by hand, may lack them.
func (c *Composer) permitted(ctx context.Context, def tools.Definition) tools.Definition {
	if def.Permissions.Of(def.Code) {
		return def
	}
	from := c.permissionSource()
	from.Servers = nil
	derived, wrong, err := from.Derive(ctx, def)
	if err != nil || wrong != nil { // then the run limits it to its bounds, or fails
		return def
	}
	derived.Definitions = nil // the digests of today say nothing
	def.Permissions = derived
	return def
}

// permitted is the row that refuses calls that a saved tool may not make. Code that is not saved
// may make all: it has no permissions that somebody could have looked at.
type permitted struct {
	stack.Pass
	*Composer
	tool    string  // whose script calls
	grants  []grant // of the saved tools that led to the run, itself the last
	reached *reach  // what the script of a saved tool can call; nil: it is not limited
	// forbidden says why a durable run, or one of a saved tool in it, may not go on; nil if it may.
	forbidden error
}

// row is a stack.Middleware.
func (p *permitted) row(next stack.Handler) stack.Handler {
	p.Pass = stack.Pass{Handler: next}
	return p
}

// Call implements stack.Handler. Scripts cannot catch its error.
func (p *permitted) Call(ctx context.Context, t *stack.Request) stack.Answer {
	if !t.Undoes {
		if t.Refused == nil && !t.Repeats {
			t.Refused = p.mayCall(t)
		}
		if t.Refused != nil && !t.Began {
			return stack.Answer{Err: t.Refused}
		}
	}
	return p.Pass.Call(ctx, t)
}

// Undo implements stack.Handler.
func (p *permitted) Undo(ctx context.Context, t *stack.Request) *abi.CallError {
	if failed := p.permit(t); failed != nil {
		return failed
	}
	return p.Pass.Undo(ctx, t)
}

// mayCall returns the error for a call that the run may not make, nil if it may.
func (p *permitted) mayCall(t *stack.Request) *abi.CallError {
	if p.forbidden != nil {
		return t.Fail(abi.ErrPermission, "the run may not go on: "+p.forbidden.Error())
	}
	return p.permit(t)
}

// grant limits the run of a saved tool to what its script can reach, and to its stored
// permissions and those of the saved tools that led to it. goesOn says that what it did must be
// undone if it may not run.
func (p *permitted) grant(ctx context.Context, def tools.Definition, servers []string, goesOn bool) *Failure {
	found, err := p.Composer.reach(ctx, def.Name, def.Code, servers)
	if err != nil {
		return err.(*Failure)
	}
	p.reached = &found
	own := p.seenAll(grant{def.Name, def.Permissions.Of(def.Code), def.Permissions})
	p.grants = append(p.grants[:len(p.grants):len(p.grants)], own)
	f := p.checkDrift(own)
	if f != nil && goesOn { // its script is run again, so that what it did is undone
		p.forbidden, f = errors.New(f.Message), nil
	}
	return f
}

// narrow limits a run that goes on to what its saved tool may call by now; def is the tool as
// it is now.
func (p *permitted) narrow(def tools.Definition) {
	if def.Permissions != nil {
		p.grants = append(p.grants[:len(p.grants):len(p.grants)], grant{def.Name, false, def.Permissions})
	}
}

// permit returns the error for a call that the run may not make, nil if it may. Scripts
// cannot catch it.
func (p *permitted) permit(t *stack.Request) *abi.CallError {
	if len(p.grants) > 0 && p.reached != nil && !p.reached.covers(t.ToolCall) {
		return p.refusePermission(t, "its script does not use that tool, as far as can be seen before it runs")
	}
	return p.granted(t)
}

// refusePermission returns the error for a call that the run may not make.
func (p *permitted) refusePermission(t *stack.Request, format string, args ...any) *abi.CallError {
	name := display.Clip(t.Server+"."+t.Tool, 200)
	return t.Fail(abi.ErrPermission, fmt.Sprintf("saved tool %q may not call %s: ", p.tool, name)+fmt.Sprintf(format, args...))
}

// granted is permit for a call that may be one of a saved tool that the run has called.
func (p *permitted) granted(t *stack.Request) *abi.CallError {
	for _, g := range p.grants {
		who := "it"
		if g.tool != p.tool {
			who = fmt.Sprintf("saved tool %q, which led to the call,", g.tool)
		}
		switch {
		case !g.Bounded(t.Server, t.Tool) && !(p.cfg.Mocked && namedIn(g.Bounds, t)):
			return p.refusePermission(t, "%s was narrowed to %s when it was saved (save it again with other permissions)", who, p.some(g.Bounds))
		case g.listed && !g.Allows(t.Server, t.Tool) && !(p.cfg.Mocked && namedIn(g.Calls, t)):
			return p.refusePermission(t, "%s could call only %s when it was saved (look at what has changed, and save it again)", who, p.some(g.List()))
		}
		if d := p.drifted(g, t.Server, t.Tool); d != nil && d.mode == pins.Enforce {
			return p.refusePermission(t, "%s", d.text(g))
		} else if d != nil {
			p.warnOfDrift(d, g)
		}
	}
	return nil
}

// narrowedBelow returns why a compensation may not be made that saved tools have registered in
// the run before: none of them may call it by now. It is nil if one may.
func (r *run) narrowedBelow(t *stack.Request) (refused *abi.CallError) {
	may := func(rec *journal.Record) bool {
		for _, u := range rec.Undos {
			if !sameCall(u.Request, t.ToolCall) {
				continue
			}
			now, err := r.cfg.Saved.Get(rec.Definition.Name)
			if err != nil || now.Permissions.Bounded(t.Server, t.Tool) {
				return true
			}
			refused = r.permitted.refusePermission(t, "saved tool %q, which led to the call, was narrowed to %s by now", now.Name, r.some(now.Permissions.Bounds))
		}
		return false
	}
	if r.resumed.rec.Any(may) {
		return nil
	}
	return refused
}

// namedIn reports whether a target has the script name of a tool. Mocks may name tools as
// scripts do.
func namedIn(targets []string, t *stack.Request) bool {
	for _, x := range targets {
		server, tool, _ := strings.Cut(x, ".")
		if abi.Ident(tool) == abi.Ident(t.Tool) && abi.Ident(server) == abi.Ident(t.Server) ||
			tools.Matches(abi.Ident(server)+"."+tool, abi.Ident(t.Server), t.Tool) {
			return true
		}
	}
	return false
}

// some returns targets as text, without those of which clients may not know.
func (c *Composer) some(targets []string) string {
	const most = 10
	if c.cfg.Hides != nil {
		targets = slices.DeleteFunc(slices.Clone(targets), c.cfg.Hides)
	}
	switch n := len(targets); {
	case n == 0:
		return "nothing"
	case n > most:
		return fmt.Sprintf("%s and %d more", display.Line(strings.Join(targets[:most], ", "), 500), n-most)
	}
	return display.Line(strings.Join(targets, ", "), 500)
}
