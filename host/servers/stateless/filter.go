package stateless

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// filter is the set of objects to listen to.
type filter struct {
	surfaces []wire.Surface
	uris     []string // resources; sorted
	tasks    []string // ids of tasks of the extension; sorted
}

func (f filter) isEmpty() bool { return len(f.surfaces)+len(f.uris)+len(f.tasks) == 0 }

func (f filter) equal(other filter) bool {
	return slices.Equal(f.surfaces, other.surfaces) && slices.Equal(f.uris, other.uris) && slices.Equal(f.tasks, other.tasks)
}

// params returns the params of subscriptions/listen.
func (f filter) params() []byte {
	var members, params wire.Object
	for _, l := range envelope.ListMembers {
		if slices.Contains(f.surfaces, l.Surface) {
			members.Bool(l.Name, true)
		}
	}
	members.Texts("resourceSubscriptions", f.uris)
	members.Texts("taskIds", f.tasks)
	params.Raw("notifications", members.Bytes())
	return params.Bytes()
}

// honoured reads from an acknowledgement which notifications the server will send. Objects that we
// did not ask for are ignored.
func (f filter) honoured(params []byte) filter {
	var got filter
	for _, l := range envelope.ListMembers {
		if raw, _ := wire.Get(params, "notifications", l.Name); string(raw) == "true" && slices.Contains(f.surfaces, l.Surface) {
			got.surfaces = append(got.surfaces, l.Surface)
		}
	}
	got.uris = among(params, "resourceSubscriptions", f.uris)
	got.tasks = among(params, "taskIds", f.tasks)
	return got
}

// among returns the strings in an array of an acknowledgement that are in asked, sorted. asked is
// sorted.
func among(params []byte, name string, asked []string) (got []string) {
	raw, _ := wire.Get(params, "notifications", name)
	items, _ := wire.Elements(raw)
	for _, item := range items {
		text, _ := wire.Text(item)
		if _, ok := slices.BinarySearch(asked, text); ok { // the array can be long
			got = append(got, text)
		}
	}
	slices.Sort(got)
	return slices.Compact(got)
}

// announcedBy returns the surfaces with changes that a server announces, according to the server's
// capabilities.
func announcedBy(capabilities []byte) []wire.Surface {
	var surfaces []wire.Surface
	for _, l := range envelope.ListMembers {
		if raw, _ := wire.Get(capabilities, l.Surface.Capability(), "listChanged"); string(raw) == "true" {
			surfaces = append(surfaces, l.Surface)
		}
	}
	return surfaces
}
