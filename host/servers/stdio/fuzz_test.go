package stdio

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// FuzzConn gives a connection with calls in flight any input. It must not panic,
// each call must end, and the connection must end when the input does.
func FuzzConn(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26"}}` + "\n" + `[{"jsonrpc":"2.0","id":2,"result":1},[]]`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}` + "\n" + `{"jsonrpc":"2.0","id":1,"error":5}`,
		`{"jsonrpc":"2.0","id":"x","method":"ping"}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 600) + `"}` + "\n\n" + `{"result":"` + strings.Repeat("y", 600) + `","id":2}`,
		`{"jsonrpc":"2.0","id":2,"result":{"task":{"taskId":"t"}}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2}}` +
			"\n" + `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t","status":"failed"}}`,
		"\x00\xff{\n[[[[", `{"id":1`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		progress := 0
		c := NewConn(io.NopCloser(bytes.NewReader(stream)), discard{io.Discard}, complete(link.Options{
			MaxMessage: 500,
			Handler: link.Callbacks{
				OnNotification: func(m wire.Inbound) { _, _ = m.Method[0], m.Owners() },
				OnRequest: func(_ context.Context, m wire.Inbound) wire.Reply {
					return wire.Reply{Result: m.Params}
				},
			},
			Garbage: func(_ string, raw []byte) {
				if len(raw) > rpc.MaxExcerpt {
					t.Errorf("%d bytes of garbage", len(raw))
				}
			},
		}))
		first := call(t.Context(), c, "initialize", "", nil)
		second := call(t.Context(), c, "m", `{"task":{}}`, func([]byte) { progress++ })
		for _, done := range []<-chan outcome{first, second} {
			if a := <-done; a.err == nil && a.reply.Result == nil && a.reply.Error == nil {
				t.Error("neither answer nor error")
			}
		}
		<-c.Done()
		if c.Err() == nil {
			t.Error("ended without a reason")
		}
		c.Close()
	})
}

// BenchmarkCall measures one echo call over OS pipes, through a Conn and with plain
// writes and reads of the same bytes.
func BenchmarkCall(b *testing.B) {
	const params = `{"name":"echo","arguments":{"text":"hello"},"_meta":{"trace":"x"}}`
	echo := func(r io.Reader, w io.Writer) {
		in, out := wire.NewReader(r, 0), mcptest.NewLineWriter(w)
		for {
			raw, err := in.Read()
			if err != nil {
				return
			}
			m, _ := wire.Parse(raw)
			_ = out.Write(wire.Response(m.ID, wire.Reply{Result: m.Params}))
		}
	}
	pipes := func(b *testing.B) (r, w *os.File) {
		r1, w1, err1 := os.Pipe()
		r2, w2, err2 := os.Pipe()
		if err1 != nil || err2 != nil {
			b.Fatal(err1, err2)
		}
		done := make(chan struct{})
		go func() { defer close(done); echo(r1, w2) }()
		b.Cleanup(func() { w1.Close(); <-done; r1.Close(); r2.Close(); w2.Close() })
		return r2, w1
	}
	b.Run("conn", func(b *testing.B) {
		c := overPipes(b, pipes)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Call(b.Context(), wire.Call{Method: "tools/call", Params: []byte(params)}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("conn 64 at once", func(b *testing.B) {
		c := overPipes(b, pipes)
		b.SetParallelism(32)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := c.Call(b.Context(), wire.Call{Method: "tools/call", Params: []byte(params)}); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("raw", func(b *testing.B) {
		r, w := pipes(b)
		in, out := wire.NewReader(r, 0), mcptest.NewLineWriter(w)
		b.ReportAllocs()
		for b.Loop() {
			if err := out.Write(wire.Request(1, "tools/call", []byte(params))); err != nil {
				b.Fatal(err)
			}
			if _, err := in.Read(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func overPipes(b *testing.B, pipes func(*testing.B) (r, w *os.File)) *Conn {
	r, w := pipes(b)
	c := NewConn(r, w, complete(link.Options{}))
	b.Cleanup(func() { c.Close() })
	return c
}
