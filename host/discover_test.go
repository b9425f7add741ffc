package host

import (
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestFirstDiscover checks that the first answer to server/discover has the instructions of a
// server of either era, and that the server is told what the only client can do, not more.
func TestFirstDiscover(t *testing.T) {
	t.Parallel()
	for _, eras := range []string{mcptest.EraLegacy, mcptest.EraModern, mcptest.EraBoth} {
		for _, over := range []config.Transport{config.Stdio, config.StreamableHTTP} {
			t.Run(eras+" over "+string(over), func(t *testing.T) {
				t.Parallel()
				w := startProxy(t, combination{over, config.Stdio}, mcptest.ServerOptions{Eras: eras})
				c := w.dial(t, mcptest.ClientOptions{})
				defer c.Close(bounded(t))
				e, err := c.Request(bounded(t), "1", "server/discover", mcptest.Envelope{Capabilities: `{"sampling":{}}`}.Params(""))
				if instructions, _ := wire.GetString(e.Msg.Result, "instructions"); err != nil || !strings.Contains(instructions, mcptest.Instructions) {
					t.Errorf("%s, %v", e.Raw, err)
				}
				if over != config.Stdio {
					return
				}
				e, _, err = w.received.Find(bounded(t), "initialize", 0, mcptest.Method("initialize"))
				if capabilities, _ := wire.Get(e.Msg.Params, "capabilities"); err != nil || string(capabilities) != `{"sampling":{}}` {
					t.Errorf("the server was told %s, %v", e.Raw, err)
				}
			})
		}
	}
}
