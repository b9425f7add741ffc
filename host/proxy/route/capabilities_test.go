package route

import (
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestAdvertisedIsAnswered crosses each capability advertised to clients of either era with a
// request of the capability: an advertised request is answered, and any other is refused.
func TestAdvertisedIsAnswered(t *testing.T) {
	const all = `{"capabilities":{"tools":{},"resources":{"subscribe":true},"prompts":{},"logging":{},"completions":{},"tasks":{"list":{},"cancel":{}},` +
		`"experimental":{"e":{}},"extensions":{"x/y":{"s":1.0},"x/z":{}},"later":{"n":1.0}}}`
	for _, test := range []struct {
		path           []string
		method, params string
		legacy         bool // of the handshake era only
	}{
		{[]string{"tools"}, "tools/list", `{}`, false},
		{[]string{"resources"}, "resources/list", `{}`, false},
		{[]string{"resources"}, "resources/templates/list", `{}`, false},
		{[]string{"resources", "subscribe"}, "resources/subscribe", `{"uri":"u:1"}`, true},
		{[]string{"prompts"}, "prompts/list", `{}`, false},
		{[]string{"logging"}, "logging/setLevel", `{"level":"info"}`, true},
		{[]string{"completions"}, "completion/complete", `{"ref":{"type":"ref/prompt","name":"a__p"},"argument":{"name":"n","value":"v"}}`, false},
		{[]string{"tasks", "list"}, "tasks/list", `{}`, true},
		{[]string{"extensions", "x/y"}, "y/do", `{"n":1.0}`, false},
		{[]string{"extensions", "x/z"}, "z/do", `{}`, false},
		{[]string{"experimental", "e"}, "e/do", `{}`, false},
		{[]string{"later"}, "later/do", `{}`, false},
	} {
		for _, servers := range []string{"a", "a b"} {
			for _, first := range []string{all, `{"capabilities":{}}`} {
				for _, revision := range []string{"2025-11-25", stateless} {
					if test.legacy && revision == stateless {
						continue
					}
					g := newRig(t, strings.Fields(servers)...)
					g.lists("a", wire.Prompts, "p")
					g.lists("a", wire.Resources, "u:1")
					g.ups["a"].server = first
					if up := g.ups["b"]; up != nil {
						up.server = strings.Replace(all, `"s":1.0`, `"s":2`, 1)
					}
					s := &fakeSession{name: "s", params: `{"capabilities":{}}`, old: revision}
					told, err := g.router.BeginSession(t.Context(), s)
					if err != nil {
						t.Fatal(err)
					}
					if revision == stateless {
						told = g.router.Discover(s)
					}
					reply := g.router.Handle(t.Context(), Call{Method: test.method, Origin: s, Params: []byte(test.params)})
					refused := reply.Error != nil && wire.ParseError(reply.Error).Code == wire.CodeMethodNotFound
					if has(told.Capabilities, test.path...) == refused && !(servers == "a" && first != all && !refused) {
						t.Errorf("%s of %s, %s: told %s, and %s is answered %s %s", test.path, servers, revision, told.Capabilities, test.method, reply.Result, reply.Error)
					}
				}
			}
		}
	}
}

// TestOddCapabilities checks that a client can connect although strict clients refuse some
// capabilities of a server.
func TestOddCapabilities(t *testing.T) {
	for theirs, want := range map[string]string{
		`{"tools":{"listChanged":true,"x":1.0},"later":{"n":1.0}}`:                   `{"tools":{"listChanged":true,"x":1.0},"later":{"n":1.0}}`,
		`{"tools":true,"logging":[],"prompts":null,"completions":false}`:             `{"tools":{},"logging":{}}`,
		`{"resources":{"subscribe":1,"listChanged":null},"tools":{"listChanged":0}}`: `{"tools":{},"resources":{}}`,
		`{"tasks":{"list":true,"cancel":{},"requests":{"tools":{"call":true}}}}`:     `{"tasks":{"cancel":{}}}`,
		`{"tasks":{"requests":{"tools":{"call":{}}}}}`:                               `{"tasks":{"requests":{"tools":{"call":{}}}}}`,
		`{"extensions":{"a":{"b":1.0},"c":null,"d":true},"experimental":[]}`:         `{"extensions":{"a":{"b":1.0}}}`,
		`{"extensions":{"c":null},"experimental":{"a":{}}}`:                          `{"experimental":{"a":{}}}`,
		`[]`: `{}`, `null`: `{}`, ``: `{}`,
	} {
		if got := string(advertised([]byte(theirs), true)); got != want {
			t.Errorf("%s: %s, want %s", theirs, got, want)
		}
	}
	for theirs, want := range map[string]string{
		`{"tools":{},"later":{},"experimental":{"a":{}},"extensions":{"a":{},"io.modelcontextprotocol/tasks":{"n":1.0}}}`: `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{"n":1.0}}}`,
		`{"extensions":{"io.modelcontextprotocol/tasks":true}}`:                                                           `{}`,
	} {
		if got := string(advertised([]byte(theirs), false)); got != want {
			t.Errorf("of several: %s: %s, want %s", theirs, got, want)
		}
	}
}

// TestLevelIsPromised checks that the log level can be set although a server that declares logging
// does not know the method: scripts also log.
func TestLevelIsPromised(t *testing.T) {
	g := newRig(t, "a")
	g.ups["a"].on("logging/setLevel", `{"code":-32601,"message":"no"}`)
	if got := g.ask(g.session("s", `{}`), "logging/setLevel", `{"level":"debug"}`); got != `{}` {
		t.Errorf("refused: %s", got)
	}
}
