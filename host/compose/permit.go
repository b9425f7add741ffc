package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/permissions"
	"github.com/mcp-metatool/mcp-metatool/host/pins"
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

// grant limits the run of a saved tool to what its script can reach, and to its stored
// permissions and those of the saved tools that led to it. Code that is not saved is not
// limited: it has no permissions that somebody could have looked at.
func (r *run) grant(ctx context.Context, def tools.Definition, callers []grant) *Failure {
	r.grants = callers
	if r.replay != nil {
		return nil // it calls nothing, and recorded refusals are replayed
	}
	found, err := r.Composer.reach(ctx, def.Name, def.Code, r.servers)
	if err != nil {
		return err.(*Failure)
	}
	r.reached = &found
	own := r.seenAll(grant{def.Name, def.Permissions.Of(def.Code), def.Permissions})
	r.grants = append(callers[:len(callers):len(callers)], own)
	f := r.checkDrift(own)
	if f != nil && r.continues() { // its script is run again, so that what it did is undone
		r.forbidden, f = errors.New(f.Message), nil
	}
	return f
}

// narrow limits a run that goes on to what its saved tool may call by now; def is the tool as
// it is now.
func (r *run) narrow(def tools.Definition) {
	if def.Permissions != nil {
		r.grants = append(r.grants[:len(r.grants):len(r.grants)], grant{def.Name, false, def.Permissions})
	}
}

// permit returns the error for a call that the run may not make, nil if it may. Scripts
// cannot catch it.
func (r *run) permit(t *target) *abi.CallError {
	if r.replay == nil && len(r.grants) > 0 && r.reached != nil && !r.reached.covers(t.ToolCall) {
		return r.refusePermission(t, "its script does not use that tool, as far as can be seen before it runs")
	}
	return r.granted(t)
}

// refusePermission returns the error for a call that the run may not make.
func (r *run) refusePermission(t *target, format string, args ...any) *abi.CallError {
	name := display.Clip(t.server+"."+t.tool, 200)
	return t.fail(abi.ErrPermission, fmt.Sprintf("saved tool %q may not call %s: ", r.tool, name)+fmt.Sprintf(format, args...))
}

// granted is permit for a call that may be one of a saved tool that the run has called.
func (r *run) granted(t *target) *abi.CallError {
	if r.replay != nil {
		return nil
	}
	for _, g := range r.grants {
		who := "it"
		if g.tool != r.tool {
			who = fmt.Sprintf("saved tool %q, which led to the call,", g.tool)
		}
		switch {
		case !g.Bounded(t.server, t.tool) && !(r.cfg.Mocked && namedIn(g.Bounds, t)):
			return r.refusePermission(t, "%s was narrowed to %s when it was saved (save it again with other permissions)", who, r.some(g.Bounds))
		case g.listed && !g.Allows(t.server, t.tool) && !(r.cfg.Mocked && namedIn(g.Calls, t)):
			return r.refusePermission(t, "%s could call only %s when it was saved (look at what has changed, and save it again)", who, r.some(g.List()))
		}
		if d := r.drifted(g, t.server, t.tool); d != nil && d.mode == pins.Enforce {
			return r.refusePermission(t, "%s", d.text(g))
		} else if d != nil {
			r.warnOfDrift(d, g)
		}
	}
	return nil
}

// narrowedBelow returns why a compensation may not be made that saved tools have registered in
// the run before: none of them may call it by now. It is nil if one may.
func (r *run) narrowedBelow(t *target) (refused *abi.CallError) {
	may := func(rec *journal.Record) bool {
		for _, u := range rec.Undos {
			if !sameCall(u.Request, t.ToolCall) {
				continue
			}
			now, err := r.cfg.Saved.Get(rec.Definition.Name)
			if err != nil || now.Permissions.Bounded(t.server, t.tool) {
				return true
			}
			refused = r.refusePermission(t, "saved tool %q, which led to the call, was narrowed to %s by now", now.Name, r.some(now.Permissions.Bounds))
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
func namedIn(targets []string, t *target) bool {
	for _, x := range targets {
		server, tool, _ := strings.Cut(x, ".")
		if abi.Ident(tool) == abi.Ident(t.tool) && abi.Ident(server) == abi.Ident(t.server) ||
			tools.Matches(abi.Ident(server)+"."+tool, abi.Ident(t.server), t.tool) {
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
