package rpc_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// ignore is a Handler for a peer that makes no requests.
type ignore struct{}

func (ignore) Request(r *rpc.Request)    { r.Reply(wire.Reply{Result: []byte("{}")}) }
func (ignore) Notification(wire.Inbound) {}

// BenchmarkCall measures one echo call over OS pipes, without and with a progress
// notification, made with Call (call) and with Submit (submit).
func BenchmarkCall(b *testing.B) {
	for name, progress := range map[string]func([]byte){"plain": nil, "progress": func([]byte) {}} {
		call := rpc.Call{Call: wire.Call{
			Method: "tools/call", Progress: progress,
			Params: []byte(`{"name":"echo","arguments":{"text":"hello"},"_meta":{"trace":"x"}}`),
		}}
		b.Run("call/"+name, func(b *testing.B) {
			c := overPipes(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Call(b.Context(), call); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("submit/"+name, func(b *testing.B) {
			c := overPipes(b)
			done := make(chan error, 64)
			complete := func(_ wire.Reply, next wire.Continuation) {
				if next == nil {
					done <- nil
					return
				}
				_, err := next(context.Background())
				done <- err
			}
			b.ReportAllocs()
			inFlight := 0
			for b.Loop() {
				if _, err := c.Submit(call, complete); err != nil {
					b.Fatal(err)
				}
				if inFlight++; inFlight == 32 {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
					inFlight--
				}
			}
			for range inFlight {
				<-done
			}
		})
	}
}

// overPipes returns a connection with a server that echoes params. If the request has a
// progress token, the server sends one progress notification first.
func overPipes(b *testing.B) *rpc.Conn {
	r1, w1, err1 := os.Pipe()
	r2, w2, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	served := make(chan struct{})
	go func() { defer close(served); echoLines(r1, w2) }()
	out := rpc.NewWriter(w1)
	c := rpc.New(context.Background(), rpc.Options{Peer: rpc.Server, Main: out, Handler: ignore{}})
	done := make(chan struct{}, 2)
	go func() { out.Run(); done <- struct{}{} }()
	go func() { c.End(c.ReadLines(r2, 0, nil)); done <- struct{}{} }()
	b.Cleanup(func() {
		out.Close()
		<-served
		w2.Close()
		<-done
		<-done
		c.Close(io.EOF)
		r1.Close()
		r2.Close()
	})
	return c
}

func echoLines(r io.Reader, w io.Writer) {
	in, out := wire.NewReader(r, 0), mcptest.NewLineWriter(w)
	for {
		raw, err := in.Read()
		if err != nil {
			return
		}
		m, _ := wire.Parse(raw)
		if bytes.Contains(raw, []byte("progressToken")) {
			token, _ := wire.Get(m.Params, "_meta", "progressToken")
			_ = out.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(token) + `,"progress":1}}`))
		}
		_ = out.Write(wire.Response(m.ID, wire.Reply{Result: m.Params}))
	}
}
