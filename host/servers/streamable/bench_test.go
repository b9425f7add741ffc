package streamable

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

// BenchmarkHTTP measures one echo call, or 64 at a time, over streamable HTTP. The
// figures include those of the server. "bare" is a plain client of net/http that sends
// the same request, for comparison.
func BenchmarkHTTP(b *testing.B) {
	const result = `{"content":[{"type":"text","text":"hello"}]}`
	params := []byte(`{"name":"echo","arguments":{"message":"hello"}}`)
	serve := func(events bool) (*Link, string) {
		s := linktest.NewHTTPServer(b, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
			if !events {
				linktest.Answer(w, m, result)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+`,"result":`+result+"}\n\n")
		})
		return dial(b, s.ClientConfig(), linktest.NewRecorder()), s.URL
	}
	one := func(b *testing.B, l *Link) {
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
