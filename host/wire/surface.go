package wire

import "github.com/mcp-metatool/mcp-metatool/host/protocol"

// Surface is one of the lists that an MCP server can have, by the name of its
// member in list results.
type Surface string

// The surfaces (revision 2025-11-25, server).
const (
	Tools     Surface = "tools"
	Resources Surface = "resources"
	Templates Surface = "resourceTemplates"
	Prompts   Surface = "prompts"
)

// Surfaces are all of them.
var Surfaces = []Surface{Tools, Resources, Templates, Prompts}

// ListMethod is the request that lists the surface.
func (s Surface) ListMethod() string {
	switch s {
	case Tools:
		return protocol.MethodToolsList
	case Resources:
		return protocol.MethodResourcesList
	case Templates:
		return protocol.MethodResourceTemplatesList
	}
	return protocol.MethodPromptsList
}

// ChangedMethod is the notification of a change. Templates have none of their
// own: they change with the resources.
func (s Surface) ChangedMethod() string {
	switch s {
	case Tools:
		return protocol.NotificationToolsChanged
	case Prompts:
		return protocol.NotificationPromptsChanged
	}
	return protocol.NotificationResourcesChanged
}

// Capability is the member of a server's capabilities that says it has the
// surface.
func (s Surface) Capability() string {
	if s == Templates {
		return string(Resources)
	}
	return string(s)
}

// Key is the member that tells the items of the surface apart.
func (s Surface) Key() string {
	switch s {
	case Resources:
		return "uri"
	case Templates:
		return "uriTemplate"
	}
	return "name"
}
