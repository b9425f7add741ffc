package supervise

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// TestSpecDetectsTransport checks that a server with only HTTP with SSE is reached if the
// configuration names no transport, and not if the configuration names the other transport
// (revision 2025-11-25, basic/transports, backwards compatibility).
func TestSpecDetectsTransport(t *testing.T) {
	t.Parallel()
	old := httptest.NewServer(mcptest.NewServer(mcptest.ServerOptions{}).SSE())
	defer old.Close()
	for file, want := range map[string]string{
		"url = %q": "", "url = %q\ntransport = \"sse\"": "", "url = %q\ntransport = \"http\"\nrestart = \"never\"": "HTTP status 404",
	} {
		text := fmt.Sprintf("[upstream.a]\n"+file+"\n", old.URL+"/mcp")
		cfg, _, err := config.Parse(config.LoadOptions{}, "config.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		u := servers.Start(Spec(cfg, &cfg.Upstreams[0]), servers.Options{ClientName: "test", ClientVersion: "1"})
		err = u.Ready(t.Context())
		if got := u.Status().Err; (err == nil) != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %v, %q", file, err, got)
		}
		u.Close(t.Context())
	}
}
