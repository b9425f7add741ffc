package serve

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
)

func TestListen(t *testing.T) {
	// The page with metrics has the same rule.
	cfg := &config.Config{Telemetry: config.Telemetry{Listen: "0.0.0.0:0"}}
	if w, err := startTelemetry(t.Context(), cfg, cfg.NewMasker(), slog.New(slog.DiscardHandler), host.ManyClients); err == nil || !strings.Contains(err.Error(), "set tokens in [telemetry]") {
		t.Errorf("[telemetry] listen without tokens: %v", err)
		if w != nil {
			w.pages.Close()
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		address string
		guarded bool
		want    string // in the error
		code    int    // of the exit
	}{
		{"127.0.0.1:0", false, "", 0},
		{"localhost:0", false, "", 0},
		{"0.0.0.0:0", true, "", 0},
		{":0", true, "", 0},
		{"0.0.0.0:0", false, "other machines could connect", cli.ExitUsage},
		{":0", false, "other machines could connect", cli.ExitUsage},
		{"[::]:0", false, "other machines could connect", cli.ExitUsage},
		{"192.0.2.1:0", false, "other machines could connect", cli.ExitUsage},
		{taken.Addr().String(), false, "--http " + taken.Addr().String() + ": cannot listen there: ", 0},
	} {
		ln, err := listen(t.Context(), "--http", tt.address, tt.guarded, "set tokens")
		if err == nil {
			ln.Close()
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, guarded %t: %v", tt.address, tt.guarded, err)
		}
		var exit *cli.ExitError
		if errors.As(err, &exit) != (tt.code != 0) || exit != nil && exit.Code != tt.code {
			t.Errorf("%s: %v, want exit code %d", tt.address, err, tt.code)
		}
	}
}

func TestHTTPFlag(t *testing.T) {
	for text, want := range map[string]httpFlag{
		"true": {on: true}, "8080": {true, "127.0.0.1:8080"}, "localhost:1": {true, "localhost:1"}, ":1": {true, ":1"},
		"": {}, "nowhere": {}, "false": {},
	} {
		var f httpFlag
		if err := f.Set(text); f != want || (err == nil) != want.on {
			t.Errorf("%q: %+v, %v", text, f, err)
		}
	}
}
