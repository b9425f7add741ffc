package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Bounds of [flow].
const (
	mostSinkCalls    = 10_000
	mostShadows      = 10_000
	leastFlowTimeout = 100 * time.Millisecond
	mostFlowTimeout  = time.Hour
)

// flowAliases are keys that people may write instead.
var flowAliases = map[string]string{
	"secret": "private", "secrets": "private", "tainted": "untrusted", "sinks": "public", "readonly": "reads", "read": "reads",
	"schemas": "shapes", "after_denial": "again",
}

// newFlow returns [flow] with nothing set.
func newFlow() *flow.Settings {
	return &flow.Settings{
		Action: flow.Deny, Again: flow.AskAgain,
		MaxSinkCalls: flow.DefaultMaxSinkCalls, MaxShadows: flow.DefaultMaxShadows, Timeout: flow.DefaultTimeout,
	}
}

// decodeFlow reads [flow].
func decodeFlow(t *table, c *Config) {
	if t == nil {
		return
	}
	f := newFlow()
	for key, list := range map[string]*[]string{
		"private": &f.Private, "untrusted": &f.Untrusted, "public": &f.Public, "critical": &f.Critical,
		"reads": &f.Reads, "trusted": &f.Trusted,
	} {
		*list = t.strs(key, t.pattern)
	}
	choice(t, "action", &f.Action, flow.Deny, flow.Ask, flow.Report, flow.Shadow)
	choice(t, "again", &f.Again, flow.AskAgain, flow.CompareAgain)
	t.count(t.key("max_sink_calls"), &f.MaxSinkCalls, 1, mostSinkCalls)
	t.count(t.key("max_shadows"), &f.MaxShadows, flow.NumBlank, mostShadows)
	t.duration("timeout", &f.Timeout, leastFlowTimeout, mostFlowTimeout)
	f.Shapes = t.shapes()
	t.close(flowAliases)
	c.Flow = f
}

// shapes reads [flow.shapes]: JSON Schemas by SERVER.TOOL, as tables or as text.
func (t *table) shapes() map[string][]byte {
	sub := t.sub("shapes")
	if sub == nil {
		return nil
	}
	shapes := map[string][]byte{}
	for _, name := range sub.node.keys {
		n := sub.node.fields[name]
		if server, tool, ok := strings.Cut(name, "."); !ok || server == "" || tool == "" {
			sub.problem(name, "is no name of a tool (write SERVER.TOOL in quotes)")
			continue
		}
		if sub.check(name, n, sub.tableType(), kindTable) {
			shapes[name] = sub.raw(name, n, func(key, _ string, n *node) (string, bool) { return sub.expandPublic(key, n) })
		}
	}
	return shapes
}

// flow describes how labels are followed, if that is configured.
func (d *description) flow(f *flow.Settings) {
	if f == nil {
		return
	}
	d.title("flow")
	for _, l := range []struct {
		key  string
		list []string
	}{{"private", f.Private}, {"untrusted", f.Untrusted}, {"public", f.Public}, {"critical", f.Critical}, {"reads", f.Reads}, {"trusted", f.Trusted}} {
		d.line(l.key, d.list("flow."+l.key, l.list, "nothing"))
	}
	d.line("action", fmt.Sprintf("%s; again: %s", f.Action, f.Again))
	d.line(d.c.key("max_sink_calls"), strconv.Itoa(f.MaxSinkCalls))
	d.line(d.c.key("max_shadows"), strconv.Itoa(f.MaxShadows)+", for "+units.FormatDuration(f.Timeout))
	if len(f.Shapes) > 0 {
		d.line("shapes", strings.Join(slices.Sorted(maps.Keys(f.Shapes)), ", "))
	}
}
