package host

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry/telemetrytest"
)

// BenchmarkTelemetry measures a proxied call and a composite one, with telemetry off and on.
func BenchmarkTelemetry(b *testing.B) {
	for _, on := range []bool{false, true} {
		var t *telemetry.Telemetry
		if on {
			collector := telemetrytest.New()
			defer collector.Close()
			var err error
			t, err = telemetry.New(b.Context(), config.Telemetry{OTLP: true, Endpoint: collector.URL(), Traces: true, Metrics: true},
				telemetry.Options{Name: Name, Version: "test", Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
		}
		h, _ := startHostOf(b, testConfig(b, upstreamOf("raw", "raw")), Options{Clients: OneClient, Telemetry: t})
		c := dial(b, h)
		c.call("raw__text", `{"text":"warm"}`)
		c.call("eval_starlark", `{"code":"return raw.text(text='1')"}`)
		b.Run(fmt.Sprintf("echo/on=%t", on), func(b *testing.B) {
			for b.Loop() {
				c.call("raw__text", `{"text":"x"}`)
			}
		})
		b.Run(fmt.Sprintf("composite/on=%t", on), func(b *testing.B) {
			for b.Loop() {
				c.call("eval_starlark", `{"code":"return raw.text(text='1')"}`)
			}
		})
		if err := t.Close(b.Context()); err != nil {
			b.Error(err)
		}
	}
}
