package doctor

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// PublicName is the name of a tool for agents.
type PublicName struct {
	Server, Own, Public string
	Changed             bool // the name is not simply prefix and own name
}

// claudePrefix is Claude Code's prefix for the names of tools if the proxy is registered as
// mcp-metatool; a name may then have 64 characters
// (github.com/mims-harvard/ToolUniverse/issues/65).
const claudePrefix = "mcp__mcp-metatool__"

// maxName is the limit of Claude Code, Claude Desktop and OpenAI's API for the name of a
// tool, in characters.
const maxName = 64

// names looks at the names of tools.
func (e *examination) names() {
	for _, u := range e.enabled() {
		changed, long := affected{}, affected{}
		for _, n := range e.Names {
			if n.Server != u.Name {
				continue
			}
			if n.Changed {
				changed.add(n.Own, "now %s", n.Public)
			}
			if len(claudePrefix)+len(n.Public) > maxName {
				long.add(n.Own, "%d characters: %s%s", len(claudePrefix)+len(n.Public), claudePrefix, n.Public)
			}
		}
		changed.report(e, idNameChanged, u.Name, "nothing has to be done; a shorter prefix may keep the names", "tools have other names for agents")
		long.report(e, idNameLong, u.Name, shorten(u, long), fmt.Sprintf("names of more than %d characters in Claude Code", maxName))
	}
	for _, p := range e.Collisions {
		switch {
		case p.Drifted != "":
			e.find(idPinsDrift, p.Drifted, p.Remedy, "%s", p.Text)
		case p.Odd != "":
			e.find(idItemOdd, upstreamObject(p.Odd), p.Remedy, "%s", p.Text)
		default:
			e.find(idNameCollision, "", p.Remedy, "%s", p.Text)
		}
	}
}

// shorten returns how the names of tools of a server become short enough.
func shorten(u *config.Upstream, long affected) string {
	longest := 0
	for _, own := range long.tools {
		longest = max(longest, len(own))
	}
	if room := maxName - len(claudePrefix) - longest; room >= 0 {
		return fmt.Sprintf("set prefix in [upstream.%s] to one of at most %d characters (now %q)", u.Name, room, u.Prefix)
	}
	// Scripts cannot call tools that hide names.
	return fmt.Sprintf("no prefix is short enough: set expose in [upstream.%s] to the other tools, and save tools with shorter names that call these", u.Name)
}
