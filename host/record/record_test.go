package record

import (
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/host/bearer"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// BenchmarkObserve measures the additional cost of recording a proxied call.
func BenchmarkObserve(b *testing.B) {
	for _, proxied := range []config.Proxied{config.ProxiedSummary, config.ProxiedFull} {
		b.Run(string(proxied), func(b *testing.B) {
			cfg := &config.Config{
				Store:   config.Store{Dir: b.TempDir()},
				Journal: config.Journal{Enabled: true, Proxied: proxied, Sync: config.SyncNever},
				Secrets: []string{"ghp_0123456789"},
			}
			r := New(cfg, Options{Log: slog.New(slog.DiscardHandler)})
			defer r.Close()
			call := route.ObservedCall{
				Origin: benchSession{}, Server: "s", Tool: "t", Params: []byte(`{"name":"s__t","arguments":{"text":"hello"}}`),
				Reply: wire.Reply{Result: fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, strings.Repeat("x", 1000))}, Start: time.Now(),
			}
			b.ReportAllocs()
			for b.Loop() {
				if r.Observes() {
					r.Observe(call)
				}
			}
		})
	}
}

// benchSession is a session with just the data that a record contains.
type benchSession struct{ route.Origin }

func (benchSession) LogLevel() string            { return "" }
func (benchSession) Principal() string           { return "" }
func (benchSession) Revision() protocol.Revision { return protocol.Revision{} }

func (benchSession) Rights() *bearer.Rights { return nil }
func (benchSession) TokenName() string      { return "ci" }

func (benchSession) Changed(wire.Surface, []byte) {}

func (s benchSession) Session() route.Session { return s }

func (benchSession) ID() string { return "s1" }

func (benchSession) Client() []byte {
	return []byte(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}`)
}
