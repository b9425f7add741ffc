package smoke

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// needed reports whether a check of the file may need an upstream. A configuration can have many
// upstreams without a use for the file, and they are not started, except for the coverage of their
// tools.
func (l *live) needed(u *config.Upstream) bool {
	if l.opts.Coverage != nil {
		return true
	}
	for _, c := range l.file.Checks {
		if c.Mock == nil && l.mayUse(c, u) || c.Mock != nil && l.opts.Record && l.mayUse(c, u) {
			return true
		}
	}
	return false
}

func (l *live) mayUse(c *Check, u *config.Upstream) bool {
	switch {
	case config.HasReferences(c.Server + c.Call):
		return true
	case c.Server != "":
		return c.Server == u.Name
	case c.Code.none() && l.owner(c.Call) != "":
		return strings.HasPrefix(c.Call, u.Prefix)
	}
	name := c.toolName()
	if def, err := c.definition(l.scripts.savedTools); err == nil {
		name = def.Name
	}
	return l.scripts.mentions(name, abi.Ident(u.Name))
}
