package streamable

import (
	"flag"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // parallel tests wait most of the time
	goleak.VerifyTestMain(m)
}

var silent = slog.New(slog.DiscardHandler)

// options are the options of sessions with the backend b.
func options(b clients.Backend) clients.Options {
	return clients.Options{Backend: b, Name: "test", Version: "1.2.3", MaxMessage: 64 << 10, Log: silent}
}
