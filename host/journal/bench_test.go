package journal_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/guestcache"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// answers stands in for upstreams that answer at once, with about a kilobyte.
type answers struct{ result []byte }

func (answers) Ready(context.Context, route.Origin, string) error { return nil }

func (a answers) CallUpstream(context.Context, route.Origin, route.ScriptCall) wire.Reply {
	return wire.Reply{Result: a.result}
}

// BenchmarkFiveCalls runs a saved tool that makes five calls one after the other, with
// and without a journal.
func BenchmarkFiveCalls(b *testing.B) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	guest := sandbox.New(sandbox.Options{CacheDir: guestcache.Dir(), Log: quiet})
	defer guest.Close()
	<-guest.Ready()
	names := catalog.New([]catalog.Source{{
		Server: "s", Exposes: func(string) bool { return true }, Hides: func(string) bool { return false },
	}}, quiet, func(*catalog.Scope, wire.Surface, []byte) {})
	names.SetUpstream("s", wire.Tools, [][]byte{[]byte(`{"name":"t"}`)}, nil)
	items := strings.Repeat(`{"id":123,"title":"something went wrong"},`, 20)
	text := `{"items":[` + strings.TrimSuffix(items, ",") + `]}`
	def := tools.Definition{
		Name: "five", InputSchema: []byte(`{"type":"object"}`),
		Code: "total = 0\nfor i in range(5):\n    total += len(s.t(n=i)[\"items\"])\nreturn total\n",
	}
	call := route.Call{Params: []byte(`{"name":"five","arguments":{}}`)}
	var secrets []string
	for i := range 5 {
		secrets = append(secrets, fmt.Sprintf("ghp_%032d", i))
	}
	redactor := config.NewRedactor((&config.Config{Secrets: secrets}).NewMasker(), nil)

	measure := func(name string, log *journal.Log) {
		composer := compose.New(compose.Options{
			Sandbox: guest, Catalog: names, Log: quiet, Journal: log.Open,
			Upstreams: answers{fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, wire.Quote(text))},
		})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				reply := composer.CallSaved(b.Context(), def, call)
				if v, _ := wire.Get(reply.Result, "structuredContent", "result"); string(v) != "100" {
					b.Fatalf("%s", reply.Result)
				}
			}
		})
		if err := log.Close(); err != nil {
			b.Fatal(err)
		}
	}
	measure("off", nil)
	measure("on", journal.OpenLog(b.TempDir(), journal.LogOptions{Log: quiet}))
	measure("on, 5 secrets", journal.OpenLog(b.TempDir(), journal.LogOptions{Log: quiet, Redactor: redactor}))
	measure("sync run", journal.OpenLog(b.TempDir(), journal.LogOptions{Log: quiet, Redactor: redactor, Sync: journal.SyncRun}))
	measure("sync always", journal.OpenLog(b.TempDir(), journal.LogOptions{Log: quiet, Redactor: redactor, Sync: journal.SyncAlways}))
}

// BenchmarkRun measures only the journal's part of such a run.
func BenchmarkRun(b *testing.B) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	begin := journal.Begin{
		Definition: tools.Definition{Name: "five", Code: strings.Repeat("x = 1\n", 50), InputSchema: []byte(`{"type":"object"}`)},
		Params:     []byte(`{"a":1}`),
	}
	request := abi.ToolCall{Server: "s", Tool: "t", Arguments: []byte(`{"n":1}`)}
	answer := journal.Answer{Result: fmt.Appendf(nil, `{"content":[],"structuredContent":{"text":%q}}`, strings.Repeat("x", 1000))}
	answer.Value, _ = wire.Get(answer.Result, "structuredContent")
	for name, log := range map[string]*journal.Log{"memory": nil, "disk": journal.OpenLog(b.TempDir(), journal.LogOptions{Log: quiet})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := log.Open(begin)
				if err != nil {
					b.Fatal(err)
				}
				for range 5 {
					r.OpenCall(request, "s", "t").Close(answer)
				}
				r.Close(journal.Outcome{Result: []byte("1")})
			}
		})
		if err := log.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkScan lists the last runs of a day with very many runs.
func BenchmarkScan(b *testing.B) {
	dir := b.TempDir()
	log := journal.OpenLog(dir, journal.LogOptions{Log: slog.New(slog.DiscardHandler)})
	answer := journal.Answer{Result: fmt.Appendf(nil, `{"content":[],"structuredContent":{"text":%q}}`, strings.Repeat("x", 1000))}
	for range 20_000 {
		r, err := log.Open(journal.Begin{Definition: tools.Definition{Name: "many"}})
		if err != nil {
			b.Fatal(err)
		}
		for range 3 {
			r.OpenCall(abi.ToolCall{}, "s", "t").Close(answer)
		}
		r.Close(journal.Outcome{Result: []byte("1")})
	}
	if err := log.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range journal.Scan(b.Context(), dir, journal.Filter{Limit: 20}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 20 {
			b.Fatal(n)
		}
	}
}
