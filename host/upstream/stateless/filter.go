package stateless

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// listMembers are the members of a filter that ask for changes of lists, by the surface
// they are about (revision 2026-07-28, schema, SubscriptionFilter). Templates have none of
// their own.
var listMembers = []struct {
	surface wire.Surface
	member  string
}{
	{wire.Tools, "toolsListChanged"}, {wire.Prompts, "promptsListChanged"}, {wire.Resources, "resourcesListChanged"},
}

// filter is what is listened to.
type filter struct {
	surfaces []wire.Surface
	uris     []string // resources; sorted
	tasks    []string // ids of tasks of the extension; sorted
}

func (f filter) isEmpty() bool { return len(f.surfaces)+len(f.uris)+len(f.tasks) == 0 }

// params returns the params of subscriptions/listen.
func (f filter) params() []byte {
	var members, params wire.Object
	for _, l := range listMembers {
		if slices.Contains(f.surfaces, l.surface) {
			members.Bool(l.member, true)
		}
	}
	addTexts(&members, "resourceSubscriptions", f.uris)
	addTexts(&members, "taskIds", f.tasks)
	params.Raw("notifications", members.Bytes())
	return params.Bytes()
}

// addTexts adds an array of strings, unless it is empty.
func addTexts(o *wire.Object, name string, all []string) {
	if len(all) == 0 {
		return
	}
	quoted := make([][]byte, len(all))
	for i, text := range all {
		quoted[i] = wire.Quote(text)
	}
	o.Raw(name, wire.Array(quoted))
}

// honoured reads what an acknowledgement says the server will send. What was not asked for
// is ignored.
func (f filter) honoured(params []byte) filter {
	var got filter
	for _, l := range listMembers {
		if raw, _ := wire.Get(params, "notifications", l.member); string(raw) == "true" && slices.Contains(f.surfaces, l.surface) {
			got.surfaces = append(got.surfaces, l.surface)
		}
	}
	got.uris = among(params, "resourceSubscriptions", f.uris)
	got.tasks = among(params, "taskIds", f.tasks)
	return got
}

// among returns the strings in an array of an acknowledgement that are in asked, sorted.
func among(params []byte, name string, asked []string) (got []string) {
	raw, _ := wire.Get(params, "notifications", name)
	items, _ := wire.Elements(raw)
	for _, item := range items {
		if text, ok := wire.Text(item); ok && slices.Contains(asked, text) && !slices.Contains(got, text) {
			got = append(got, text)
		}
	}
	slices.Sort(got)
	return got
}

// announcedBy returns the filter of the lists whose changes a server can announce, as its
// capabilities say.
func announcedBy(capabilities []byte) []wire.Surface {
	var surfaces []wire.Surface
	for _, l := range listMembers {
		if raw, _ := wire.Get(capabilities, l.surface.Capability(), "listChanged"); string(raw) == "true" {
			surfaces = append(surfaces, l.surface)
		}
	}
	return surfaces
}
