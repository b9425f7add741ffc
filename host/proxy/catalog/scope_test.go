package catalog

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestScopes checks what clients with narrowed rights see of a catalog, and that a scope
// never has more than the whole catalog.
func TestScopes(t *testing.T) {
	everything := func(string) bool { return true }
	nothing := func(string) bool { return false }
	told := map[string][]string{}
	names := map[*Scope]string{}
	c := New([]Source{
		{Server: "git-hub", Prefix: "g__", Exposes: func(tool string) bool { return tool != "quiet" }, Hides: func(tool string) bool { return tool == "secret" }},
		{Server: "db", Prefix: "db__", Exposes: everything, Hides: nothing},
		{Server: "same", Prefix: "g__", Exposes: everything, Hides: nothing},
	}, slog.New(slog.DiscardHandler), func(s *Scope, surface wire.Surface, _ []byte) {
		told[names[s]] = append(told[names[s]], string(surface))
	})
	rights := map[string]*bearer.Rights{
		"reader": {Expose: []string{"git-hub.get", "git-hub.greet", "tools.job", "builtin.search", "git-hub.res://open/*"}},
		"no db":  {Hide: []string{"db.*", "builtin.save", "tools.hidden", "git-hub.res://closed"}},
		"own":    {Own: "me"},
		"odd":    {Hide: []string{"git-hub.get"}},
	}
	var all []*bearer.Rights
	for _, r := range rights {
		all = append(all, r)
	}
	if c.For(rights["own"]).Servers() != nil || c.For(bearer.Nothing).Permitted("db", "get", false) == nil {
		t.Error("rights that are unknown to the catalog see something")
	}
	c.Narrow(all)
	names[c.Scope] = "all"
	for name, r := range rights {
		names[c.For(r)] = name
	}
	items := func(server string, surface wire.Surface, list ...string) {
		var raw [][]byte
		for _, one := range list {
			raw = append(raw, []byte(sound(surface, one)))
		}
		c.SetUpstream(server, surface, raw, nil)
	}
	own := func(list ...string) (entries []Entry) {
		for _, name := range list {
			entries = append(entries, Entry{Name: name, Definition: []byte(`{"name":"` + name + `","inputSchema":{"type":"object"}}`)})
		}
		return entries
	}
	c.SetBuiltins(own("save", "search"))
	for _, r := range rights {
		c.SetBuiltinsOf(c.For(r), own("save", "search"))
	}
	c.SetComposites(own("job", "hidden"))
	c.SetCompositesOf("me", own("mine"))
	items("git-hub", wire.Tools, "get", "merge", "quiet", "secret")
	items("db", wire.Tools, "get")
	items("same", wire.Tools, "get", "other")
	items("git-hub", wire.Prompts, "greet", "betray")
	items("git-hub", wire.Resources, "res://open/1", "res://closed")
	items("git-hub", wire.Templates, "res://open/{id}", "res://{id}")
	items("db", wire.Resources, "res://open/db")

	want := map[string]string{
		"all":    "save search hidden job g__get g__merge db__get g__other",
		"reader": "search job g__get",
		"no db":  "search job g__get g__merge g__other",
		"own":    "save search mine g__get g__merge db__get g__other",
		"odd":    "save search hidden job g__merge db__get g__other", // not the tool get of another server in its place
	}
	for s, name := range names {
		if got := strings.Join(s.Visible(wire.Tools), " "); got != want[name] {
			t.Errorf("%s sees %s\nwant %s", name, got, want[name])
		}
		for _, surface := range wire.Surfaces {
			for _, key := range s.Visible(surface) {
				if name != "own" && !slices.Contains(c.Visible(surface), key) {
					t.Errorf("%s alone sees %s", name, key)
				}
			}
		}
	}
	reader, noDB := c.For(rights["reader"]), c.For(rights["no db"])
	if got := strings.Join(reader.Visible(wire.Prompts), " ") + "; " + strings.Join(reader.Visible(wire.Resources), " ") + "; " + strings.Join(reader.Visible(wire.Templates), " "); got != "g__greet; res://open/1; res://open/{id}" {
		t.Errorf("reader sees %s", got)
	}
	if _, _, ok := reader.Prompt("g__betray"); ok {
		t.Error("a prompt that is not exposed is found")
	}
	if got := reader.Matching("res://open/2"); !slices.Equal(got, []string{"git-hub"}) {
		t.Errorf("templates: %v", got)
	}
	// Scripts can call what is not exposed, but not what is hidden.
	for _, call := range []struct {
		scope        *Scope
		server, tool string
		want         string // part of the error
	}{
		{reader, "git_hub", "merge", ""}, {reader, "git_hub", "quiet", ""}, {reader, "git_hub", "secret", "the configuration hides it)"},
		{reader, "db", "get", ""}, {noDB, "db", "get", "from clients with this token"}, {noDB, "db", "no_such_tool", "from clients with this token"},
		{c.For(rights["odd"]), "git_hub", "get", "from clients with this token"}, {noDB, "git_hub", "get", ""}, {noDB, "d", "get", `unknown server "d"`},
	} {
		_, _, err := call.scope.Resolve(call.server, call.tool, false)
		if (err == nil) != (call.want == "") || err != nil && !strings.Contains(err.Error(), call.want) {
			t.Errorf("%s: %s.%s: %v", names[call.scope], call.server, call.tool, err)
		}
		if err != nil && strings.Contains(err.Error(), "mean db") {
			t.Errorf("a hidden server is suggested: %v", err)
		}
	}
	for name, agent := range map[string]bool{"merge": true, "get": false} {
		if err := reader.Permitted("git-hub", name, true); (err != nil) != agent {
			t.Errorf("an agent calls %s: %v", name, err)
		}
	}
	if err := noDB.Permitted("db", "get", false); err == nil {
		t.Error("a call of a hidden server is permitted")
	}
	if got := noDB.Servers(); !slices.Equal(got, []string{"git_hub", "same"}) || noDB.HasServer("db") || !noDB.HasServer("same") {
		t.Errorf("servers: %v", got)
	}
	if noDB.PermittedResource("db", "res://open/db") == nil || noDB.PermittedResource("git-hub", "res://CLOSED") == nil || noDB.PermittedResource("git-hub", "res://open") != nil || noDB.PermittedPrompt("db", "x") == nil || c.PermittedPrompt("db", "x") != nil {
		t.Error("resources and prompts")
	}

	clear(told)
	c.SetList("db", List{Surface: wire.Tools, Items: [][]byte{[]byte(`{"name":"new","inputSchema":{"type":"object"}}`)}, Announced: true})
	for name, want := range map[string]int{"all": 1, "own": 1, "no db": 0, "reader": 1} { // reader is told since it was announced
		if got := told[name]; len(got) != want {
			t.Errorf("%s is told of %v", name, got)
		}
	}
	clear(told)
	items("db", wire.Resources)
	if told["no db"] != nil || told["reader"] != nil || told["all"] == nil {
		t.Errorf("told of resources: %v", told)
	}
	c.SetCompositesOf("me", own("mine", "more"))
	if told["own"] == nil || len(told["all"]) != 1 {
		t.Errorf("told of own tools: %v", told)
	}
	c.Keep(nil)
	if len(c.For(rights["own"]).Visible(wire.Tools)) > 0 {
		t.Error("a scope that was not kept has tools")
	}
}
