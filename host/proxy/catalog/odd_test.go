package catalog

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestOddItems checks that one item that strict clients refuse is neither listed nor keeps any
// other from being listed, that scripts can use it, and that there is one warning for a server.
func TestOddItems(t *testing.T) {
	var log bytes.Buffer
	all, none := func(string) bool { return true }, func(string) bool { return false }
	hidden := func(tool string) bool { return tool == "hidden" }
	c := New([]Source{{Server: "a", Prefix: "a__", Exposes: all, Hides: hidden}, {Server: "b", Exposes: all, Hides: none}},
		slog.New(slog.NewTextHandler(&log, nil)), func(*Scope, wire.Surface, []byte) {})
	c.SetComposites([]Entry{
		{Name: "mine", Definition: []byte(sound(wire.Tools, "mine"))},
		{Name: "odd", Definition: []byte(`{"name":"odd","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"result":{"pattern":"(?P<x>a)"}}}}`)},
		{Name: "wrong", Definition: []byte(`{"name":"wrong","inputSchema":{"type":"object","required":true}}`)},
	})
	c.SetUpstream("b", wire.Tools, raws(sound(wire.Tools, "fine")), nil)
	for _, remembered := range []bool{true, false} {
		for surface, items := range map[wire.Surface][][]byte{
			wire.Tools: raws(`{"name":"none"}`, `{"title":null,"name":"null","inputSchema":{"type":"object"}, "x":1.0}`, `{"name":"hidden"}`,
				`{"name":"output","inputSchema":{"type":"object"},"outputSchema":{"type":"object","$ref":"#/$defs/X"}}`),
			wire.Prompts:   raws(`{"name":"p","arguments":{"a":1}}`, `{"name":"q","arguments":null}`),
			wire.Resources: raws(`{"uri":"r:1","name":"r","mimeType":null}`, `{"uri":"r:2"}`),
			wire.Templates: raws(`{"uriTemplate":"t:{x}","name":null}`),
		} {
			c.SetList("a", List{Surface: surface, Items: items, Remembered: remembered})
		}
		want := map[wire.Surface]string{
			wire.Tools: sound(wire.Tools, "mine") + ` {"name":"odd","inputSchema":{"type":"object"}} {"name":"a__null","inputSchema":{"type":"object"}, "x":1.0}` +
				` {"name":"a__output","inputSchema":{"type":"object"}} ` + sound(wire.Tools, "fine"),
			wire.Prompts: `{"name":"a__q"}`, wire.Resources: `{"uri":"r:1","name":"r"}`, wire.Templates: "",
		}
		for surface, want := range want {
			p, _ := c.Page(surface, "", 100)
			if got := string(bytes.Join(p.Handshake, []byte(" "))); got != want {
				t.Errorf("%s:\n got  %s\n want %s", surface, got, want)
			}
		}
		stateless, _ := c.Page(wire.Tools, "", 100)
		if !bytes.Contains(bytes.Join(stateless.Items, nil), []byte(`"$defs/X`)) && !bytes.Contains(bytes.Join(stateless.Items, nil), []byte(`#/$defs/X`)) {
			t.Errorf("clients of the stateless era get %s", stateless.Items)
		}
	}
	if _, ok := c.Tool("a__none"); ok {
		t.Error("clients see a tool without an input schema")
	}
	if server, tool, err := c.Resolve("a", "none", true); err != nil || server != "a" || tool != "none" {
		t.Errorf("scripts: %s %s %v", server, tool, err)
	}
	if server, ok := c.Resource("r:2"); !ok || server != "a" || !slices.Equal(c.Matching("t:1"), []string{"a"}) {
		t.Error("a resource that is not listed cannot be read")
	}
	if names := c.All(); !slices.ContainsFunc(names, func(e Entry) bool { return e.Tool == "none" }) {
		t.Errorf("searches find %v", names)
	}
	if got := strings.Count(log.String(), `strict clients refuse, with all lists`); got != 1 {
		t.Errorf("%d warnings:\n%s", got, log.String())
	}
	odd := strings.Join(c.Odd("a"), "\n")
	for _, want := range []string{
		`tool "none" is left out: inputSchema is missing`, `tool "null" is shown without title`, `tool "output" is shown without outputSchema (outputSchema has a $ref to a missing place`,
		`prompt "p" is left out: arguments is an object`, `prompt "q" is shown without arguments`, `resource "r:1" is shown without mimeType`,
		`resource "r:2" is left out: name is missing`, `resource template "t:{x}" is left out: name is null`,
	} {
		if !strings.Contains(odd, want) {
			t.Errorf("nothing says %s:\n%s", want, odd)
		}
	}
	if strings.Contains(odd, "hidden") || len(c.Odd("b")) > 0 {
		t.Errorf("said of others: %s, %s", odd, c.Odd("b"))
	}
	problems := map[string]int{}
	for _, p := range c.Problems() {
		problems[p.Odd]++
	}
	if problems["a"] != 1 || problems[""] != 2 { // those of the two saved tools
		t.Errorf("problems %v", c.Problems())
	}
}
