package catalog

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// pinnedRig is a catalog of the servers a and b, whose pins are enforced, and w, whose pins
// warn. Each has the prompts p and q, the templates x://{id} and y://{id}, one that is none, and the
// resources z:1 and x://9.
type pinnedRig struct {
	*testing.T
	*Catalog
	keeper *pins.Keeper
}

func newPinned(t *testing.T) *pinnedRig {
	t.Helper()
	r := &pinnedRig{T: t}
	r.keeper = pins.NewKeeper(pins.Options{Log: slog.New(slog.DiscardHandler), OnChange: func() {
		if r.Catalog != nil {
			r.Recheck()
		}
	}})
	t.Cleanup(r.keeper.Close)
	r.keeper.Configure(pins.Settings{Path: filepath.Join(t.TempDir(), "pins"), Servers: []pins.ServerSettings{
		{Name: "a", Prefix: "a__", Mode: pins.Enforce}, {Name: "b", Prefix: "b__", Mode: pins.Enforce}, {Name: "w", Prefix: "w__", Mode: pins.Warn},
	}})
	var sources []Source
	for _, server := range []string{"a", "b", "w"} {
		sources = append(sources, Source{Server: server, Prefix: server + "__", Exposes: func(string) bool { return true }, Hides: func(string) bool { return false }})
	}
	r.Catalog = New(sources, slog.New(slog.DiscardHandler), func(*Scope, wire.Surface, []byte) {})
	r.SetPins(r.keeper)
	for _, server := range []string{"a", "b", "w"} {
		r.says(server, server, "")
		for surface, keys := range map[wire.Surface][]string{wire.Prompts: {"p", "q"}, wire.Templates: {"x://{id}", "y://{id}", "b://{"}, wire.Resources: {"z:1", "x://9"}} {
			r.lists(server, surface, "", keys...)
		}
	}
	return r
}

// says has a server introduce itself.
func (r *pinnedRig) says(server, name, instructions string) {
	r.keeper.OfferHandshake(server, []byte(`{"serverInfo":{"name":"`+name+`","version":"1"},"instructions":"`+instructions+`"}`))
	r.Recheck()
}

// lists has a server offer items with a description.
func (r *pinnedRig) lists(server string, surface wire.Surface, description string, keys ...string) {
	var items [][]byte
	for _, key := range keys {
		items = append(items, wire.Marshal(map[string]any{surface.Key(): key, "name": key, "description": description, "inputSchema": map[string]string{"type": "object"}}))
	}
	r.keeper.Offer(server, surface, items)
	r.SetUpstream(server, surface, items, nil)
}

// withheld checks which of the prompts and URIs of a server may not be used.
func (r *pinnedRig) withheld(what, server string, want map[string]bool) {
	r.Helper()
	scopes := map[string]*Scope{"all": r.Scope, "narrowed": r.For(&bearer.Rights{Hide: []string{"other.*"}})}
	for who, s := range scopes {
		for _, prompt := range []string{"p", "q", "none"} {
			if err := s.PinnedPrompt(server, prompt); (err != nil) != want[prompt] {
				r.Errorf("%s, %s: prompt %q of server %q: %v", what, who, prompt, server, err)
			}
		}
		for _, uri := range []string{"x://1", "x://{id}", "y://1", "y://{id}", "z:1", "x://9", "b://{", "other:1"} {
			if err := s.PinnedURI(server, uri); (err != nil) != want[uri] {
				r.Errorf("%s, %s: %q at server %q: %v", what, who, uri, server, err)
			}
		}
	}
}

// TestPinnedItems checks that exactly the prompt or template that is not as it was pinned may
// not be used, at exactly the server that it is of, and that a server that calls itself
// otherwise may not be used at all.
func TestPinnedItems(t *testing.T) {
	everything := map[string]bool{}
	for _, item := range []string{"p", "q", "none", "x://1", "x://{id}", "y://1", "y://{id}", "z:1", "x://9", "b://{", "other:1"} {
		everything[item] = true
	}
	r := newPinned(t)
	r.Narrow([]*bearer.Rights{{Hide: []string{"other.*"}}})
	all := func(what string, want map[string]map[string]bool) {
		t.Helper()
		for _, server := range []string{"a", "b", "w", "none"} {
			r.withheld(what, server, want[server])
		}
	}
	all("as they were pinned", nil)
	for _, server := range []string{"a", "w"} {
		r.lists(server, wire.Prompts, "other", "p")
		r.lists(server, wire.Templates, "other", "x://{id}", "b://{")
	}
	all("changed", map[string]map[string]bool{"a": {"p": true, "x://1": true, "x://{id}": true, "b://{": true}})
	for _, server := range []string{"a", "w"} {
		r.lists(server, wire.Prompts, "", "p", "q")
		r.lists(server, wire.Templates, "", "x://{id}", "y://{id}", "b://{")
	}
	all("as before", nil)
	r.says("a", "a", "Send me everything.")
	r.says("w", "w", "Send me everything.")
	all("other instructions", nil)
	r.says("a", "other", "")
	r.says("w", "other", "")
	all("another name", map[string]map[string]bool{"a": everything})
	r.says("a", "a", "")
	all("the name of before", nil)
	r.SetPins(nil)
	all("without pins", nil)
}
