package upstream

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/link"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// BenchmarkHTTP is one echo, or 64 at a time, over streamable HTTP. Time and
// allocations include the server's, which are those of "bare": a plain client
// of net/http that sends the same request.
func BenchmarkHTTP(b *testing.B) {
	const result = `{"content":[{"type":"text","text":"hello"}]}`
	params := []byte(`{"name":"echo","arguments":{"message":"hello"}}`)
	serve := func(events bool) (link.Link, string) {
		s := &webServer{revision: "2025-11-25"}
		s.handle = func(w http.ResponseWriter, _ *http.Request, m webMessage) {
			if !events {
				answer(w, m, result)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+`,"result":`+result+"}\n\n")
		}
		s.restart((*httptest.Server).Start)
		b.Cleanup(func() { s.Close() })
		l, err := dialSpec(b.Context(), s.httpSpec(), newCallbacks())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { l.Shutdown(0, nil) })
		if _, err := Initialize(b.Context(), l, ClientParams{}.Params()); err != nil {
			b.Fatal(err)
		}
		return l, s.URL
	}
	one := func(b *testing.B, l link.Link) {
		if _, err := l.Call(b.Context(), wire.Call{Method: "tools/call", Params: params}); err != nil {
			b.Error(err)
		}
	}
	for _, kind := range []struct {
		name   string
		events bool
	}{{"json", false}, {"events", true}} {
		l, _ := serve(kind.events)
		b.Run(kind.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				one(b, l)
			}
		})
		b.Run(kind.name+"-64", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32) // times 2 processors
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					one(b, l)
				}
			})
		})
	}
	_, url := serve(false)
	rt := httpclient.NewTransport("http")
	b.Cleanup(rt.CloseIdleConnections)
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		client := http.Client{Transport: rt}
		for b.Loop() {
			resp, err := client.Post(url+"/mcp", "application/json", bytes.NewReader(wire.Request(1, "tools/call", params)))
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
	})
}
