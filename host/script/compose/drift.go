package compose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// drift is a tool whose definition has changed since a saved tool was saved.
type drift struct {
	target string
	mode   pins.Mode // the reaction to the change
	now    string    // the digest of the current definition
}

// comparesDefinitions reports whether definitions are compared with the definitions for which the
// tool of a grant was saved.
func (p *permitted) comparesDefinitions(g grant) bool {
	return g.listed && p.cfg.Definitions != nil && !p.cfg.Mocked
}

// seen returns the permissions of a grant after looking at the definitions of a server's tools that
// have not been looked at since the tool was imported. The current definitions are trusted, and
// written down. The permissions are the old ones if the server has not started yet.
func (p *permitted) seen(g grant, server string) *tools.Permissions {
	if p.cfg.See == nil || p.cfg.Catalog.Remembered(server) {
		return g.Permissions
	}
	seen, err := p.cfg.See(g.tool, g.Permissions, server)
	if err != nil {
		if p.reaches.first(g.tool + " " + server + " unwritten") {
			p.cfg.Log.Warn("the definitions that an imported tool may call cannot be written down, so that nobody will notice when they change", "tool", g.tool, "server", server, "error", err)
		}
		return g.Permissions
	}
	return seen
}

// seenAll returns the grant after seen for all servers that have started.
func (p *permitted) seenAll(g grant) grant {
	if !p.comparesDefinitions(g) {
		return g
	}
	for _, server := range g.UnseenServers() {
		if p.pinMode(g, server) != pins.Off {
			g.Permissions = p.seen(g, server)
		}
	}
	return g
}

// drifted returns how a tool differs from the definition at the time when the tool of the grant was
// saved; nil for no difference, or if changes are ignored.
func (p *permitted) drifted(g grant, server, tool string) *drift {
	if !p.comparesDefinitions(g) {
		return nil
	}
	mode := p.pinMode(g, server)
	if mode == pins.Off {
		return nil
	}
	if g.IsUnseen(server, tool) {
		if g.Permissions = p.seen(g, server); g.IsUnseen(server, tool) {
			return nil
		}
	}
	d := &drift{target: tools.Target(server, tool), mode: mode}
	if server == tools.SavedServer {
		def, err := p.cfg.Saved.Get(tool)
		if err != nil {
			return nil // the call fails
		}
		d.now = def.Hash()
	} else {
		now, ok := p.cfg.Definitions.Digest(server, tool)
		if !ok {
			return nil // the call fails, or waits for the server
		}
		d.now = now
	}
	if g.Definitions[d.target] == d.now {
		return nil
	}
	return d
}

// pinMode returns the reaction to changes of a server's tools. For saved tools the result is the
// strictest mode of the servers in the permissions of the grant's tool.
func (p *permitted) pinMode(g grant, server string) pins.Mode {
	if server != tools.SavedServer {
		return p.cfg.Definitions.PinMode(server)
	}
	mode := pins.Off
	for _, t := range g.Calls {
		of, _, _ := strings.Cut(t, ".")
		switch p.cfg.Definitions.PinMode(of) {
		case pins.Enforce:
			return pins.Enforce
		case pins.Warn:
			mode = pins.Warn
		}
	}
	return mode
}

// text describes the change and the remedy.
func (d *drift) text(g grant) string {
	what := "has changed since"
	if _, known := g.Definitions[d.target]; !known {
		what = "was not known when"
	}
	return fmt.Sprintf("the definition of %s %s saved tool %q was saved (look at it, and save the tool again)", display.Line(d.target, 200), what, g.tool)
}

// checkDrift returns why the run may not begin, because of changed definitions. Servers before
// their start are looked at when they are called.
func (p *permitted) checkDrift(g grant) *Failure {
	if !p.comparesDefinitions(g) {
		return nil
	}
	for _, target := range slices.Sorted(maps.Keys(g.Definitions)) {
		if p.cfg.Hides != nil && p.cfg.Hides(target) {
			continue // the tool cannot be called
		}
		server, tool, _ := strings.Cut(target, ".")
		d := p.drifted(g, server, tools.Literal(tool))
		switch {
		case d == nil:
		case d.mode == pins.Enforce:
			return &Failure{Type: abi.ErrPermission, Message: d.text(g)}
		default:
			p.warnOfDrift(d, g)
		}
	}
	return nil
}

// warnOfDrift logs a change once.
func (p *permitted) warnOfDrift(d *drift, g grant) {
	if p.reaches.first(g.tool + " " + d.target + " " + d.now) {
		p.cfg.Log.Warn("a saved tool was saved for another definition of a tool that it calls", "tool", g.tool, "call", d.target, "what", d.text(g))
	}
}

// maxWarned bounds the remembered warnings.
const maxWarned = 1000

// first reports whether a warning is new.
func (r *Reaches) first(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.warned, key) {
		return false
	}
	if len(r.warned) >= maxWarned {
		r.warned = append([]string(nil), r.warned[maxWarned/2:]...)
	}
	r.warned = append(r.warned, key)
	return true
}
