package catalog

import (
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// sound returns an item with a key that all clients accept.
func sound(surface wire.Surface, key string) string {
	if surface == wire.Tools || surface == wire.Prompts {
		return `{"name":"` + key + `","inputSchema":{"type":"object"}}`
	}
	return `{"name":"n","` + surface.Key() + `":"` + key + `"}`
}

func raws(items ...string) (raw [][]byte) {
	for _, i := range items {
		raw = append(raw, []byte(i))
	}
	return raw
}

// twoUpstreams returns a catalog of "a", which has a prefix, and "b", which has none, and
// the surfaces for which onChange was called.
func twoUpstreams() (*Catalog, *[]wire.Surface) {
	var told []wire.Surface
	all := func(string) bool { return true }
	none := func(string) bool { return false }
	c := New([]Source{
		{Server: "a", Prefix: "a__", Exposes: all, Hides: none},
		{Server: "b", Exposes: all, Hides: none},
	}, slog.New(slog.DiscardHandler), func(_ *Scope, s wire.Surface, _ []byte) { told = append(told, s) })
	return c, &told
}

func page(t *testing.T, c *Catalog, s wire.Surface) string {
	t.Helper()
	p, err := c.Page(s, "", 100)
	if err != nil || p.Next != "" {
		t.Fatalf("%s: next %q, %v", s, p.Next, err)
	}
	var all []string
	for _, raw := range p.Items {
		all = append(all, string(raw))
	}
	return strings.Join(all, "\n")
}

func TestPrompts(t *testing.T) {
	c, _ := twoUpstreams()
	c.SetUpstream("a", wire.Prompts, raws(`{"x":1e30,"name":"x"}`, `{"name":"odd name"}`, `{"title":"no name"}`), nil)
	c.SetUpstream("b", wire.Prompts, raws(`{"name":"a__x"}`, `{"name":"y"}`, `{"name":"y"}`), nil)
	odd := PublicName("a__", "odd name")
	want := strings.Join([]string{`{"name":"` + odd + `"}`, `{"x":1e30,"name":"a__x"}`, `{"name":"y"}`}, "\n")
	if got := page(t, c, wire.Prompts); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if server, own, ok := c.Prompt(odd); server != "a" || own != "odd name" || !ok {
		t.Errorf("Prompt(%s) = %s, %s, %v", odd, server, own, ok)
	}
	if _, _, ok := c.Prompt("x"); ok {
		t.Error("found by the upstream's own name")
	}
	wantProblems := []Problem{
		{Text: `upstream "a" lists 1 prompts that have no name; they are left out`, Remedy: "report it to the authors of the server"},
		{Text: `upstream "b" lists prompt "y" twice; the first is used`, Remedy: "report it to the authors of the server"},
		{Text: `prompt name "a__x": prompt "x" of upstream "a" hides prompt "a__x" of upstream "b"`, Remedy: "give one of the upstreams another prefix"},
	}
	if got := c.Problems(); !reflect.DeepEqual(got, wantProblems) {
		t.Errorf("problems %q", got)
	}
}

func TestNames(t *testing.T) {
	c, _ := twoUpstreams()
	c.SetBuiltins([]Entry{{Name: "own", Definition: []byte(`{"name":"own"}`)}})
	c.SetUpstream("a", wire.Tools, raws(`{"name":"x.y","inputSchema":{"type":"object"}}`, `{"name":"z","inputSchema":{"type":"object"}}`), nil)
	c.SetUpstream("b", wire.Prompts, raws(`{"name":"p"}`), nil)
	want := []Name{
		{wire.Tools, PublicName("a__", "x.y"), "a", "x.y", true},
		{wire.Tools, "a__z", "a", "z", false},
		{wire.Prompts, "p", "b", "p", false},
	}
	if got := c.Names(); !reflect.DeepEqual(got, want) {
		t.Errorf("names %+v\nwant  %+v", got, want)
	}
	if c.Prefix("a") != "a__" || c.Prefix("b") != "" || !slices.Equal(c.Upstreams(), []string{"a", "b"}) {
		t.Errorf("upstreams %q with prefixes %q, %q", c.Upstreams(), c.Prefix("a"), c.Prefix("b"))
	}
}

func TestResources(t *testing.T) {
	c, _ := twoUpstreams()
	c.SetUpstream("b", wire.Resources, raws(`{"uri":"file:///1","name":"b's"}`, `{"uri":"file:///2","name":"2"}`), nil)
	if owner, _ := c.Resource("file:///1"); owner != "b" {
		t.Errorf("the only owner is %q", owner)
	}
	c.SetUpstream("a", wire.Resources, raws(`{"uri":"file:///1", "name":"a's"}`), nil)
	if got, want := page(t, c, wire.Resources), `{"uri":"file:///1", "name":"a's"}`+"\n"+`{"uri":"file:///2","name":"2"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for uri, want := range map[string]string{"file:///1": "a", "file:///2": "b", "file:///3": ""} {
		if owner, ok := c.Resource(uri); owner != want || ok != (want != "") {
			t.Errorf("%s belongs to %q, %v", uri, owner, ok)
		}
	}
	if got, want := c.Problems(), []Problem{{
		Text:   `resource "file:///1": that of upstream "a" hides that of upstream "b", which is configured later`,
		Remedy: "disable one of the two servers if the other one is needed: URIs have no prefix",
	}}; !slices.Equal(got, want) {
		t.Errorf("problems %q", got)
	}
}

func TestTemplatesOfUpstreams(t *testing.T) {
	c, _ := twoUpstreams()
	c.SetUpstream("a", wire.Templates, raws(`{"name":"n","uriTemplate":"{+any}"}`, `{"name":"n","uriTemplate":"x://{"}`), nil)
	c.SetUpstream("b", wire.Templates, raws(`{"name":"n","uriTemplate":"file:///{name}"}`, `{"name":"n","uriTemplate":"{+any}"}`), nil)
	for uri, want := range map[string][]string{"file:///f": {"b", "a"}, "file:///d/f": {"a"}, strings.Repeat("x", maxURI+1): nil} {
		if got := c.Matching(uri); !slices.Equal(got, want) {
			t.Errorf("%.20s: %q, want %q", uri, got, want)
		}
	}
	for text, want := range map[string]string{"{+any}": "a", "file:///{name}": "b", "x://{": "a", "y": ""} {
		if owner, ok := c.Template(text); owner != want || ok != (want != "") {
			t.Errorf("template %s belongs to %q, %v", text, owner, ok)
		}
	}
	if got := len(c.Problems()); got != 2 { // the same template twice; one that is odd
		t.Errorf("problems %q", c.Problems())
	}
}

func TestOnChangeTellsTheSurface(t *testing.T) {
	c, told := twoUpstreams()
	for _, surface := range wire.Surfaces {
		c.SetUpstream("a", surface, raws(sound(surface, "x:")), nil)
		c.SetUpstream("a", surface, raws(sound(surface, "x:")), nil)               // no change
		c.SetUpstream("b", surface, nil, nil)                                      // no news
		c.SetUpstream("missing", surface, raws(sound(surface, "y:")), nil)         // not configured
		c.SetUpstream("a", surface, raws(sound(surface, "x:")), []byte(`{"k":1}`)) // agents see this
	}
	var want []wire.Surface
	for _, surface := range wire.Surfaces {
		want = append(want, surface, surface)
	}
	if !slices.Equal(*told, want) {
		t.Errorf("told of %q, want %q", *told, want)
	}
}

// TestAnnouncedAgain checks that clients are told once of a change that an upstream has
// announced, also if the list is as before.
func TestAnnouncedAgain(t *testing.T) {
	c, told := twoUpstreams()
	for _, surface := range wire.Surfaces {
		items := raws(sound(surface, "x:"))
		c.SetList("a", List{Surface: surface, Items: items, Announced: true})
		c.SetList("a", List{Surface: surface, Items: items, Announced: true})
		c.SetList("a", List{Surface: surface, Items: items}) // the server has started again
		c.SetList("a", List{Surface: surface, Items: items[:0], Remembered: true})
	}
	// A change of templates is announced as one of resources.
	want := []wire.Surface{wire.Tools, wire.Tools, wire.Prompts, wire.Prompts, wire.Resources, wire.Resources, wire.Templates}
	slices.Sort(want)
	if slices.Sort(*told); !slices.Equal(*told, want) {
		t.Errorf("told of %q, want %q", *told, want)
	}
}

// TestHints checks that the hints of a list are those of all upstreams, and that they
// change with the list.
func TestHints(t *testing.T) {
	c, told := twoUpstreams()
	fresh := func(ttl int64, scope string) envelope.Freshness {
		return envelope.Freshness{Hints: &envelope.Hints{TTL: ttl, Scope: scope}, Live: true}
	}
	c.SetList("a", List{Surface: wire.Prompts, Items: raws(`{"name":"p"}`), Fresh: fresh(1000, "public")})
	if got := c.Hints(wire.Prompts); got != (envelope.Hints{TTL: 0, Scope: "private"}) {
		t.Errorf("while one has not listed: %+v", got)
	}
	c.SetList("b", List{Surface: wire.Prompts, Fresh: fresh(500, "public")})
	if got := c.Hints(wire.Prompts); got != (envelope.Hints{TTL: 500, Scope: "public"}) {
		t.Errorf("of two: %+v", got)
	}
	c.SetList("b", List{Surface: wire.Prompts, Fresh: fresh(700, "private")})
	if got := c.Hints(wire.Prompts); got != (envelope.Hints{TTL: 700, Scope: "private"}) {
		t.Errorf("of two: %+v", got)
	}
	if !slices.Equal(*told, []wire.Surface{wire.Prompts}) {
		t.Errorf("told of %q", *told)
	}
	c.SetSources([]Source{{Server: "a", Exposes: func(string) bool { return true }}})
	if got := c.Hints(wire.Prompts); got != (envelope.Hints{TTL: 1000, Scope: "public"}) {
		t.Errorf("of the one that is left: %+v", got)
	}
}

// TestDefinitionsForTheHandshakeEra checks that clients of that era get definitions of
// tools that they can read, also under another prefix.
func TestDefinitionsForTheHandshakeEra(t *testing.T) {
	c, _ := twoUpstreams()
	items := raws(`{"name":"x","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`, `{"name":"y","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`)
	c.SetList("a", List{Surface: wire.Tools, Items: items, Stateless: true})
	c.SetList("b", List{Surface: wire.Tools, Items: items})
	check := func(prefix string) {
		t.Helper()
		p, _ := c.Page(wire.Tools, "", 10)
		array, object := `","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`, `","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`
		want := []string{`{"name":"` + prefix + `x` + array, `{"name":"` + prefix + `y` + object, `{"name":"x` + array, `{"name":"y` + object}
		for i, item := range p.Items {
			if string(item) != want[i] {
				t.Errorf("%s, want %s", item, want[i])
			}
		}
		want[0] = `{"name":"` + prefix + `x","inputSchema":{"type":"object"}}`
		want[2] = `{"name":"x","inputSchema":{"type":"object"}}`
		for i, item := range p.Handshake {
			if string(item) != want[i] {
				t.Errorf("handshake era: %s, want %s", item, want[i])
			}
		}
		if len(p.Items) != 4 || len(p.Handshake) != 4 {
			t.Errorf("%s, %s", p.Items, p.Handshake)
		}
	}
	check("a__")
	all, none := func(string) bool { return true }, func(string) bool { return false }
	c.SetSources([]Source{{Server: "a", Prefix: "z__", Exposes: all, Hides: none}, {Server: "b", Exposes: all, Hides: none}})
	check("z__")
}

func TestListMeta(t *testing.T) {
	c, _ := twoUpstreams()
	c.SetUpstream("a", wire.Resources, nil, []byte(`{"same":[1, 2],"differs":1,"mine":true}`))
	if p, _ := c.Page(wire.Resources, "", 1); string(p.Meta) != `{"same":[1, 2],"differs":1,"mine":true}` {
		t.Errorf("of one: %s", p.Meta)
	}
	c.SetUpstream("b", wire.Resources, nil, []byte(`{"same":[1,2],"differs":2}`))
	want := `{"same":[1, 2],"mine":true,"io.github.mcp-metatool/upstreams":{"a":{"differs":1},"b":{"differs":2}}}`
	if p, _ := c.Page(wire.Resources, "", 1); string(p.Meta) != want {
		t.Errorf("of two: %s", p.Meta)
	}
	if p, _ := c.Page(wire.Tools, "", 1); p.Meta != nil {
		t.Errorf("tools: %s", p.Meta)
	}
}
