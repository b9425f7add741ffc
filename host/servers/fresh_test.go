package servers

import (
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestFreshness checks what is known about how long lists are current, and that a list is
// read again when it must not be kept any longer, but only if the server does not announce
// changes.
func TestFreshness(t *testing.T) {
	t.Parallel()
	hints := func(ttl int64, scope string) *envelope.Hints { return &envelope.Hints{TTL: ttl, Scope: scope} }
	const silent, loud = `{"tools":{}}`, `{"tools":{"listChanged":true}}`
	for name, test := range map[string]struct {
		server mcptest.ServerOptions
		hints  *envelope.Hints
		live   bool
		reread bool
	}{
		"announces changes":           {mcptest.ServerOptions{Eras: "modern", Capabilities: loud, Hints: `"ttlMs":0,"cacheScope":"public",`}, hints(0, "public"), true, false},
		"announces none":              {mcptest.ServerOptions{Eras: "modern", Capabilities: silent, Hints: `"ttlMs":0,"cacheScope":"public",`}, hints(0, "public"), false, true},
		"announces none, for an hour": {mcptest.ServerOptions{Eras: "modern", Capabilities: silent, Hints: `"ttlMs":3600000,"cacheScope":"private",`}, hints(3600000, "private"), false, false},
		"says nothing valid":          {mcptest.ServerOptions{Eras: "modern", Capabilities: silent, Hints: `"ttlMs":-5,"cacheScope":"PUBLIC",`}, hints(0, "private"), false, true},
		"legacy":                      {mcptest.ServerOptions{Capabilities: silent}, nil, false, false},
		"legacy, announces changes":   {mcptest.ServerOptions{Capabilities: loud}, nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newWebPeer(t, test.server)
			lists := make(chan List, 10)
			f := launchWith(t, Spec{Name: "web", URL: p.url}, Options{OnList: func(l List) {
				switch {
				case l.Surface == wire.Tools:
					lists <- l
				case !l.Fresh.Nothing:
					t.Errorf("%s: %+v", l.Surface, l.Fresh)
				}
			}}, fastTimings)
			l := <-lists
			if l.Announced || l.Fresh.Live != test.live || l.Fresh.Nothing || (l.Fresh.Hints == nil) != (test.hints == nil) || test.hints != nil && *l.Fresh.Hints != *test.hints {
				t.Fatalf("%+v, hints %+v", l.Fresh, l.Fresh.Hints)
			}
			if err := f.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.AwaitLists(t.Context(), time.Hour, wire.Tools)
			if again := len(lists) == 1; again != test.reread {
				t.Fatalf("read again: %v", again)
			}
			if test.reread && (<-lists).Announced {
				t.Error("the list is said to have changed")
			}
			if test.live && test.hints != nil {
				p.Publish("notifications/tools/list_changed", `{"x":1.0}`)
				if l := <-lists; !l.Announced || string(l.Notice) != `{"x":1.0}` {
					t.Errorf("announced %v, %s", l.Announced, l.Notice)
				}
			}
		})
	}
}
