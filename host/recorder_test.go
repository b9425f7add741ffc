package host

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// TestDenied checks that the arguments of a call that was denied are recorded as those of
// others are, without secrets.
func TestDenied(t *testing.T) {
	for proxied, want := range map[config.Proxied]string{
		config.ProxiedFull: `{"name":"t","arguments":{"key":"****"}}`, config.ProxiedSummary: "",
	} {
		cfg := &config.Config{
			Store:   config.Store{Dir: t.TempDir()},
			Journal: config.Journal{Enabled: true, Proxied: proxied, Sync: config.SyncNever},
			Secrets: []string{"ghp_0123456789"},
		}
		r := newRecorder(cfg, recorderOptions{Log: slog.New(slog.DiscardHandler)})
		r.Observe(route.ObservedCall{
			Origin: benchSession{}, Kind: policy.KindTool, Server: "s", Tool: "t", Start: time.Now(),
			Params: []byte(`{"name":"t","arguments":{"key":"ghp_0123456789"}}`), Unsent: true,
			Reply:    wire.Reply{Result: route.ErrorResult("no"), Denied: errors.New("no")},
			Decision: policy.Decision{Action: policy.Deny, Rule: "never"},
		})
		r.Close()
		seen := 0
		for p, err := range journal.ScanProxied(t.Context(), cfg.JournalDir(), journal.Filter{}) {
			if seen++; err != nil || string(p.Params) != want || p.Redacted != (want != "") || p.Sent != 0 ||
				p.Outcome != journal.ProxiedDenied || p.Decision == nil || p.Decision.Rule != "never" {
				t.Errorf("%s: %+v, %v", proxied, p, err)
			}
		}
		if seen != 1 {
			t.Errorf("%s: %d calls are recorded", proxied, seen)
		}
	}
}

// BenchmarkObserve measures the additional cost of recording a proxied call.
func BenchmarkObserve(b *testing.B) {
	for _, proxied := range []config.Proxied{config.ProxiedSummary, config.ProxiedFull} {
		b.Run(string(proxied), func(b *testing.B) {
			cfg := &config.Config{
				Store:   config.Store{Dir: b.TempDir()},
				Journal: config.Journal{Enabled: true, Proxied: proxied, Sync: config.SyncNever},
				Secrets: []string{"ghp_0123456789"},
			}
			r := newRecorder(cfg, recorderOptions{Log: slog.New(slog.DiscardHandler)})
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
