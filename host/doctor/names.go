package doctor

import "fmt"

// PublicName is the name of a tool for agents.
type PublicName struct {
	Server, Own, Public string
	Changed             bool // it is not simply prefix and own name
}

// claudePrefix is what Claude Code puts before the names of our tools if we are
// registered as mcp-metatool; a name may then have 64 characters
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
				long.add(n.Public, "%d characters", len(claudePrefix)+len(n.Public))
			}
		}
		changed.report(e, idNameChanged, u.Name, "nothing has to be done; a shorter prefix may keep the names", "tools have other names for agents")
		long.report(e, idNameLong, u.Name, fmt.Sprintf("give the server a shorter prefix (now %q), or register us under a shorter name than mcp-metatool", u.Prefix),
			fmt.Sprintf("names of more than %d characters in Claude Code", maxName))
	}
	for _, text := range e.Collisions {
		e.find(idNameCollision, "", "give one of the servers another prefix, or hide one of the two", "%s", text)
	}
}
