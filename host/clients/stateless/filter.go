package stateless

import (
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// maxURIs bounds the resources of a subscription, and maxTasks the tasks.
const (
	maxURIs  = 1024
	maxTasks = 256
)

// filter says which notifications a client wants (revision 2026-07-28,
// basic/patterns/subscriptions, "Filter").
type filter struct {
	lists map[wire.Surface]bool
	uris  []string
	tasks []string // ids of tasks of the extension
}

// parseFilter reads the params of subscriptions/listen. Unknown types are left out, since the
// acknowledgement lists the supported types.
func parseFilter(params []byte) (filter, *wire.RPCError) {
	f := filter{lists: map[wire.Surface]bool{}}
	raw, ok := wire.Get(params, "notifications")
	if !ok || !wire.IsObject(raw) {
		return f, wrongFilter("notifications must be an object")
	}
	for _, m := range envelope.ListMembers {
		value, ok := wire.Get(raw, m.Name)
		switch {
		case !ok || string(value) == "false":
		case string(value) == "true":
			f.lists[m.Surface] = true
		default:
			return f, wrongFilter("notifications.%s must be true or false", m.Name)
		}
	}
	var bad *wire.RPCError
	if f.uris, bad = texts(raw, "resourceSubscriptions", maxURIs); bad == nil {
		f.tasks, bad = texts(raw, "taskIds", maxTasks)
	}
	return f, bad
}

// texts returns the distinct strings in an array that is a member of a filter.
func texts(raw []byte, name string, most int) (all []string, bad *wire.RPCError) {
	array, ok := wire.Get(raw, name)
	if !ok {
		return nil, nil
	}
	items, err := wire.Elements(array)
	if err != nil || len(items) > most {
		return nil, wrongFilter("notifications.%s must be an array of at most %d strings", name, most)
	}
	for _, item := range items {
		text, ok := wire.Text(item)
		if !ok {
			return nil, wrongFilter("notifications.%s must have strings only", name)
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all, nil
}

func wrongFilter(format string, args ...any) *wire.RPCError {
	return wire.Errorf(wire.CodeInvalidParams, protocol.MethodListen+": params."+format, args...)
}

// supported leaves out the types that the server does not have, according to capabilities.
func (f *filter) supported(capabilities []byte) {
	for surface := range f.lists {
		if !has(capabilities, surface.Capability(), "listChanged") {
			delete(f.lists, surface)
		}
	}
	if !has(capabilities, "resources", "subscribe") {
		f.uris = nil
	}
	if !has(capabilities, "extensions", protocol.ExtensionTasks) {
		f.tasks = nil
	}
}

func has(capabilities []byte, path ...string) bool {
	value, ok := wire.Get(capabilities, path...)
	return ok && string(value) != "null" && string(value) != "false"
}

// bytes returns the filter in the form of the acknowledgement.
func (f filter) bytes() []byte {
	var o wire.Object
	for _, m := range envelope.ListMembers {
		if f.lists[m.Surface] {
			o.Bool(m.Name, true)
		}
	}
	o.Texts("resourceSubscriptions", f.uris)
	o.Texts("taskIds", f.tasks)
	return o.Bytes()
}

// wants reports whether the filter has a resource or a resource above, with the rules of route for
// subscriptions of the handshake era.
func (f filter) wants(uri string) bool {
	return slices.ContainsFunc(f.uris, func(above string) bool {
		rest, below := strings.CutPrefix(uri, above)
		return below && above != "" && (rest == "" || strings.HasSuffix(above, "/") || strings.IndexByte("/?#", rest[0]) >= 0)
	})
}

// watches reports whether the filter has a task.
func (f filter) watches(id string) bool { return slices.Contains(f.tasks, id) }
