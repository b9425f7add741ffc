package envelope

import "github.com/mcp-metatool/mcp-metatool/host/mcp/wire"

// ListMember is the member of a filter of subscriptions/listen for changes of a list.
type ListMember struct {
	Name    string
	Surface wire.Surface
}

// ListMembers are all of them (revision 2026-07-28, schema, SubscriptionFilter). Templates
// have none of their own: they change with resources.
var ListMembers = []ListMember{
	{"toolsListChanged", wire.Tools}, {"promptsListChanged", wire.Prompts}, {"resourcesListChanged", wire.Resources},
}
