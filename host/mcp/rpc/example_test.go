package rpc_test

import (
	"context"
	"fmt"
	"io"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// echo is a Handler that answers requests with their params.
type echo struct{}

func (echo) Request(r *rpc.Request) {
	r.Start(func(_ context.Context, r *rpc.Request) wire.Reply {
		r.Progress([]byte(`{"progressToken":0,"progress":1}`))
		return wire.Reply{Result: r.Params}
	})
}

func (echo) Notification(m wire.Inbound) { fmt.Println("notification", m.Method) }

// connect makes a connection over a pair of pipes, as over stdio. The returned function
// ends the connection.
func connect(r io.ReadCloser, w io.WriteCloser, peer rpc.Peer) (*rpc.Conn, func()) {
	out := rpc.NewWriter(w)
	conn := rpc.New(context.Background(), rpc.Options{Peer: peer, Main: out, Handler: echo{}, SerialIDs: true})
	done := make(chan struct{}, 2)
	go func() { out.Run(); done <- struct{}{} }()
	go func() { conn.End(conn.ReadLines(r, 0, nil)); done <- struct{}{} }()
	return conn, func() {
		conn.End(wire.ErrClosed)
		out.Close()
		r.Close()
		<-done
		<-done
		conn.Close(wire.ErrClosed)
	}
}

// This example connects a client to a server over pipes. The client makes a call and
// gets progress.
func Example() {
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	client, closeClient := connect(fromServer, toServer, rpc.Server)
	_, closeServer := connect(fromClient, toClient, rpc.Client)

	reply, err := client.Call(context.Background(), rpc.Call{Call: wire.Call{
		Method:   "tools/call",
		Params:   []byte(`{"name":"echo"}`),
		Progress: func(params []byte) { fmt.Printf("progress %s\n", params) },
	}})
	fmt.Printf("%s %v\n", reply.Result, err)

	closeClient()
	closeServer()
	_, err = client.Call(context.Background(), rpc.Call{Call: wire.Call{Method: "tools/call"}})
	fmt.Println(err)
	// Output:
	// progress {"progressToken":1,"progress":1}
	// {"name":"echo","_meta":{"progressToken":1}} <nil>
	// connection closed
}
