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

// A grant is the set of calls permitted to a saved tool in a chain of calls.
type grant struct {
	tool   string
	listed bool // permissions are the permissions of the tool's script; otherwise only their bounds count
	*tools.Permissions
}

// Permissions derives the permissions of a saved tool; see permissions.Source.Derive. Permissions
// waits a little for servers with unknown tools. The error is a *Failure.
func (c *Composer) Permissions(ctx context.Context, def tools.Definition) (*tools.Permissions, []tools.Violation, error) {
	waiting, cancel := context.WithTimeout(ctx, lintWait)
	defer cancel()
	from := c.permissionSource()
	from.Await = func(server string) {
		_ = c.cfg.Upstreams.Ready(waiting, nil, server) // otherwise the tools of the server stay unknown
	}
	return from.Derive(ctx, def)
}

// permissionSource returns the source of derived permissions, without waiting for servers.
func (c *Composer) permissionSource() permissions.Source {
	return permissions.Source{
		Reach: func(ctx context.Context, name, code string) ([]abi.Reached, error) {
			found, err := c.reach(ctx, name, code, c.names(code))
			return found.tools, err
		},
		Resolve: c.cfg.Catalog.Resolve, Servers: c.cfg.Definitions, Saved: c.cfg.Saved, Hides: c.cfg.Hides,
	}
}

// permitted returns a saved tool with permissions of the script. A tool written by an earlier
// program, or edited by hand, may lack permissions.
func (c *Composer) permitted(ctx context.Context, def tools.Definition) tools.Definition {
	if def.Permissions.Of(def.Code) {
		return def
	}
	from := c.permissionSource()
	from.Servers = nil
	derived, wrong, err := from.Derive(ctx, def)
	if err != nil || wrong != nil { // then the run limits the tool to its bounds, or fails
		return def
	}
	derived.Definitions = nil // current digests are no evidence
	def.Permissions = derived
	return def
}

// permitted is the row that refuses forbidden calls of a saved tool. Unsaved code may make all
// calls: no person could have looked at permissions of unsaved code.
type permitted struct {
	stack.Pass
	*Composer
	tool    string  // the tool of the calling script
	grants  []grant // of the saved tools that led to the run, with the run's own tool last
	reached *reach  // the calls open to the script of a saved tool; nil is no limit
	// forbidden is the reason why a durable run, or the run of a saved tool below, may not go on;
	// nil if the run may go on.
	forbidden error
}

// row is a stack.Middleware.
func (p *permitted) row(next stack.Handler) stack.Handler {
	p.Pass = stack.Pass{Handler: next}
	return p
}

// Call implements stack.Handler. Scripts cannot catch the error.
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

// mayCall returns the error for a call that the run may not make, nil for a permitted call.
func (p *permitted) mayCall(t *stack.Request) *abi.CallError {
	if p.forbidden != nil {
		return t.Fail(abi.ErrPermission, "the run may not go on: "+p.forbidden.Error())
	}
	return p.permit(t)
}

// grant limits the run of a saved tool to the calls in the script, and to the stored permissions of
// the tool and of the saved tools that led to the tool. goesOn reports that the calls of the run
// must be undone if the run may not go on.
func (p *permitted) grant(ctx context.Context, def tools.Definition, servers []string, goesOn bool) *Failure {
	found, err := p.Composer.reach(ctx, def.Name, def.Code, servers)
	if err != nil {
		return err.(*Failure)
	}
	p.reached = &found
	own := p.seenAll(grant{def.Name, def.Permissions.Of(def.Code), def.Permissions})
	p.grants = append(p.grants[:len(p.grants):len(p.grants)], own)
	f := p.checkDrift(own)
	if f != nil && goesOn { // the script is run again, so that the calls are undone
		p.forbidden, f = errors.New(f.Message), nil
	}
	return f
}

// narrow limits a continued run to the current permissions of the saved tool; def is the current
// tool.
func (p *permitted) narrow(def tools.Definition) {
	if def.Permissions != nil {
		p.grants = append(p.grants[:len(p.grants):len(p.grants)], grant{def.Name, false, def.Permissions})
	}
}

// permit returns the error for a call that the run may not make, nil for a permitted call. Scripts
// cannot catch the error.
func (p *permitted) permit(t *stack.Request) *abi.CallError {
	if len(p.grants) > 0 && p.reached != nil && !p.reached.covers(t.ToolCall) {
		return p.refusePermission(t, "its script does not use that tool, as far as can be seen before it runs")
	}
	return p.granted(t)
}

// refusePermission returns the error for a forbidden call.
func (p *permitted) refusePermission(t *stack.Request, format string, args ...any) *abi.CallError {
	name := display.Clip(t.Server+"."+t.Tool, 200)
	return t.Fail(abi.ErrPermission, fmt.Sprintf("saved tool %q may not call %s: ", p.tool, name)+fmt.Sprintf(format, args...))
}

// granted is permit for a call that may come from a saved tool called by the run.
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

// narrowedBelow returns why a compensation may not be made that saved tools have registered in the
// run before: none of these tools may now make the call. The result is nil if a tool may.
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

// some returns targets as text, without the targets hidden from clients.
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
