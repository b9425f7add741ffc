package route

import (
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// maxCapabilities bounds the unknown capabilities that are passed on, in bytes.
const maxCapabilities = 64 << 10

// capability is a known capability of servers, with the members that clients read.
type capability struct {
	name    string
	flags   []string // true or false
	objects []string
}

var capabilities = []capability{
	{name: "tools", flags: []string{"listChanged"}},
	{name: "resources", flags: []string{"subscribe", "listChanged"}},
	{name: "prompts", flags: []string{"listChanged"}},
	{name: "logging"},
	{name: "completions"},
	{name: "tasks", objects: []string{"list", "cancel", "requests"}},
}

// advertised returns the capabilities of an upstream for clients: those that clients can use
// through us, in the form that strict clients accept. alone reports that no other upstream exists,
// so that requests with unknown methods reach this upstream.
func advertised(theirs []byte, alone bool) []byte {
	var out wire.Object
	known := map[string]bool{"extensions": true, "experimental": true}
	for _, c := range capabilities {
		known[c.name] = true
		if has(theirs, c.name) {
			value, _ := wire.Get(theirs, c.name)
			out.Raw(c.name, c.sound(value))
		}
	}
	extensions, _ := wire.Get(theirs, "extensions")
	tasks, _ := wire.Get(extensions, protocol.ExtensionTasks)
	alone = alone && len(theirs) <= maxCapabilities
	switch {
	case alone:
		for _, name := range []string{"extensions", "experimental"} {
			value, _ := wire.Get(theirs, name)
			if all := objects(value); all != nil {
				out.Raw(name, all)
			}
		}
		members, _ := wire.Members(theirs)
		for _, m := range members {
			if !known[m.Name] {
				out.Raw(m.Name, m.Value)
			}
		}
	case wire.IsObject(tasks): // the only extension that we route ourselves
		var only wire.Object
		only.Raw(protocol.ExtensionTasks, tasks)
		out.Raw("extensions", only.Bytes())
	}
	return out.Bytes()
}

// sound returns the value of a capability without the members that strict clients refuse.
func (c capability) sound(value []byte) []byte {
	if !wire.IsObject(value) {
		return []byte("{}") // true, or an empty list
	}
	var drop []string
	for _, name := range c.flags {
		if raw, ok := wire.Get(value, name); ok && string(raw) != "true" && string(raw) != "false" {
			drop = append(drop, name)
		}
	}
	for _, name := range c.objects {
		if raw, ok := wire.Get(value, name); ok && !wire.IsObject(raw) {
			drop = append(drop, name)
		}
	}
	if tools, ok := wire.Get(value, "requests", "tools"); ok {
		if call, ok := wire.Get(tools, "call"); !wire.IsObject(tools) || ok && !wire.IsObject(call) {
			drop = append(drop, "requests")
		}
	}
	rest, _ := wire.Without(value, drop...) // value is an object
	return rest
}

// objects returns an object with only the members that are objects; nil for none.
func objects(value []byte) []byte {
	all, _ := wire.Members(value)
	var drop []string
	for _, m := range all {
		if !wire.IsObject(m.Value) {
			drop = append(drop, m.Name)
		}
	}
	if len(drop) == len(all) {
		return nil
	}
	rest, _ := wire.Without(value, drop...)
	return rest
}
