package catalog

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv/linear"
)

// listed returns a catalog of one server with a list.
func listed(surface wire.Surface, items [][]byte, meta []byte) *Catalog {
	none := func(string) bool { return false }
	c := New([]Source{{Server: "s", Prefix: "s__", Exposes: func(string) bool { return true }, Hides: none}, {Server: "other", Exposes: none, Hides: none}},
		slog.New(slog.NewTextHandler(io.Discard, nil)), func(*Scope, wire.Surface, []byte) {})
	c.SetUpstream("other", surface, nil, []byte(`{"x":1,"name":2}`))
	for range 3 { // the second time, there is something to compare with
		c.SetList("s", List{Surface: surface, Items: items, Meta: meta, Stateless: true})
		items = slices.Clone(items)
	}
	return c
}

// numbered returns items, as many as a list of that size has.
func numbered(size int, item func(i int) string) (items [][]byte) {
	for i := range size / 32 {
		items = append(items, []byte(item(i)))
	}
	return items
}

// entryPoints are the functions that read bytes of servers and clients.
var entryPoints = map[string]func(raw []byte){
	"Union": func(raw []byte) {
		Union(raw, []byte(`{"name":{"name":true}}`))
		Union([]byte(`{"name":{"name":true}}`), raw)
		Union(raw, raw)
	},
	"MergeMeta": func(raw []byte) {
		MergeMeta([]Part{{"a", raw}, {"b", []byte(`{"name":2,"x":1}`)}, {"c", raw}, {"d", slices.Concat([]byte(" "), raw)}})
	},
	"Catalog.SetUpstream": func(raw []byte) {
		for _, s := range wire.Surfaces {
			item := fmt.Appendf(nil, `{%q:"a","inputSchema":%s,"outputSchema":%s}`, s.Key(), raw, raw)
			_, _ = listed(s, [][]byte{item, raw, item}, raw).Page(s, "", 10)
		}
	},
	"Catalog.Instructions": func(raw []byte) { listed(wire.Tools, nil, nil).Instructions("s", raw) },
	"Tokens":               func(raw []byte) { Tokens(raw) },
	"items with one name":  func(raw []byte) { itemsOf(raw, func(int) string { return "same" }) },
	"items with one script name": func(raw []byte) {
		itemsOf(raw, func(i int) string { return strings.NewReplacer("0", "-", "1", ".").Replace(fmt.Sprintf("%012b", i)) })
	},
	"pairs with one script name": func(raw []byte) { itemsOf(raw, func(i int) string { return fmt.Sprintf("t%d%c", i/2, "-."[i%2]) }) },
	"items":                      func(raw []byte) { itemsOf(raw, func(i int) string { return fmt.Sprintf("t%d{x}", i) }) },
	"items with long names": func(raw []byte) {
		for _, s := range wire.Surfaces {
			c := listed(s, [][]byte{fmt.Appendf(nil, `{%q:%s}`, s.Key(), wire.Quote(string(raw)))}, nil)
			useNames(c, string(raw))
		}
	},
	"names": func(raw []byte) { useNames(listed(wire.Tools, [][]byte{[]byte(`{"name":"a"}`)}, nil), string(raw)) },
}

func itemsOf(raw []byte, name func(i int) string) {
	for _, s := range wire.Surfaces {
		c := listed(s, numbered(len(raw), func(i int) string { return fmt.Sprintf(`{%q:%q}`, s.Key(), name(i)) }), nil)
		c.Problems()
		useNames(c, "t1")
		for cursor, more := "", true; more; more = cursor != "" {
			page, err := c.Page(s, cursor, 100)
			if err != nil {
				panic(err)
			}
			cursor = page.Next
		}
	}
}

// useNames looks for a name in every way.
func useNames(c *Catalog, name string) {
	_, _, _ = c.Resolve("s", name, false)
	_, _, _ = c.Resolve(name, "x", true)
	_, _ = c.Page(wire.Tools, name, 1)
	_ = c.PinnedURI("s", name)
	c.Matching(name)
	c.Template(name)
	c.Withheld(wire.Tools, name)
	c.Hides("s", name)
	PublicName("s__", name)
}

// TestLinear checks that no list makes us work out of proportion to its size.
func TestLinear(t *testing.T) {
	for entry, do := range entryPoints {
		shapes := linear.Shapes
		if strings.Contains(entry, "name") || entry == "items" {
			shapes = shapes[:1] // only the size matters
		}
		for _, shape := range shapes {
			t.Run(entry+"/"+shape.Name, func(t *testing.T) {
				linear.Check(t, func(size int) []byte { return shape.Make(size, "name") }, do)
			})
		}
	}
	linear.CheckTable(t, ".", []string{"Union", "Catalog.SetUpstream", "Catalog.Instructions", "Tokens"}, nil)
}
