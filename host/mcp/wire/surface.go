package wire

import "github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"

// Surface is a kind of list that an MCP server can offer. The value of a Surface is the name of the
// member in list results.
type Surface string

// The surfaces (revision 2025-11-25, server).
const (
	Tools     Surface = "tools"
	Resources Surface = "resources"
	Templates Surface = "resourceTemplates"
	Prompts   Surface = "prompts"
)

// Surfaces lists all surfaces.
var Surfaces = []Surface{Tools, Resources, Templates, Prompts}

// ListMethod returns the method of the list request.
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

// ChangedMethod returns the method of the notification of a change. Templates share the method of
// resources.
func (s Surface) ChangedMethod() string {
	switch s {
	case Tools:
		return protocol.NotificationToolsChanged
	case Prompts:
		return protocol.NotificationPromptsChanged
	}
	return protocol.NotificationResourcesChanged
}

// Capability returns the member for the surface in a server's capabilities.
func (s Surface) Capability() string {
	if s == Templates {
		return string(Resources)
	}
	return string(s)
}

// Key returns the name of the member with the identity of an item of the surface.
func (s Surface) Key() string {
	switch s {
	case Resources:
		return "uri"
	case Templates:
		return "uriTemplate"
	}
	return "name"
}

// Plural returns the name of the items, for messages.
func (s Surface) Plural() string {
	if s == Templates {
		return "resource templates"
	}
	return string(s)
}
