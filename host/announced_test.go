package host

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestListAfterAnnouncedChange checks that a list that is requested after a change was
// announced has the change, that a new name can be called, and that the client gets the
// notification with its _meta.
func TestListAfterAnnouncedChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		surface  wire.Surface
		announce string // the notification
	}{
		{wire.Tools, "notifications/tools/list_changed"},
		{wire.Templates, "notifications/resources/list_changed"},
		{wire.Prompts, "notifications/prompts/list_changed"},
	} {
		t.Run(string(tt.surface), func(t *testing.T) {
			// It answers later requests for the list slowly, but not the first one.
			up := startRaw(t, config.Stdio, mcptest.ServerOptions{PageSize: 1000, Faults: map[string]mcptest.Fault{
				tt.surface.ListMethod(): {Kind: mcptest.Slow, Size: 1000, Pause: 2, Skip: 1},
			}})
			w := serveProxy(t, combination{config.Stdio, config.Stdio}, up.received, testConfig(t, up.config))
			p := pair(t, w.dial(t, mcptest.ClientOptions{}), up.received)
			list := func() string {
				t.Helper()
				e, err := p.Client.Request(bounded(t), `"list"`, tt.surface.ListMethod(), "")
				if err != nil {
					t.Fatal(err)
				}
				return string(e.Msg.Result)
			}
			var params string
			for round := 0; round < 2 && params == ""; round++ {
				// The first announcement can be that of the start, or one with it.
				before, from := list(), p.Client.Log.Len()
				callRaw(t, p, "change", `{"list":"`+string(tt.surface)+`"}`)
				after := list()
				if len(after) <= len(before) {
					t.Errorf("the list is the old one, of %d bytes", len(after))
				}
				e, _, err := p.Client.Log.Find(bounded(t), "the announcement", from, mcptest.Method(tt.announce))
				if err != nil {
					t.Fatal(err)
				}
				params = string(e.Msg.Params)
			}
			if params != `{"_meta":{"n":9007199254740993}}` {
				t.Errorf("announced with %s", params)
			}
		})
	}
}

// TestAnnouncedToolIsCalled checks that a tool can be called as soon as it has been
// announced.
func TestAnnouncedToolIsCalled(t *testing.T) {
	t.Parallel()
	up := startRaw(t, config.Stdio, mcptest.ServerOptions{PageSize: 1000, Faults: map[string]mcptest.Fault{
		"tools/list": {Kind: mcptest.Slow, Size: 1000, Pause: 2, Skip: 1},
	}})
	w := serveProxy(t, combination{config.Stdio, config.Stdio}, up.received, testConfig(t, up.config))
	p := pair(t, w.dial(t, mcptest.ClientOptions{}), up.received)
	callRaw(t, p, "echo", `{}`)
	callRaw(t, p, "change", `{"list":"tools"}`)
	callRaw(t, p, "added-1", `{}`)
	for _, e := range up.received.All() {
		if name, _ := wire.GetString(e.Msg.Params, "name"); name == "added-1" {
			return
		}
	}
	t.Error("the call did not reach the server")
}
