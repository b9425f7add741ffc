package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestWriterKeepsMessagesWhole checks that messages of several senders are written
// whole, each sender's in order, in all ways of sending.
func TestWriterKeepsMessagesWhole(t *testing.T) {
	pr, pw := io.Pipe()
	w := rpc.NewWriter(pw)
	go w.Run()
	const senders, each = 8, 100
	var sending sync.WaitGroup
	for i := range senders {
		sending.Go(func() {
			for n := range each {
				msg := wire.Marshal(map[string]any{"w": i, "n": n, "s": strings.Repeat("é", n*10)})
				msg = bytes.Replace(msg, []byte(":"), []byte(":\n"), 1)
				f := rpc.Frame{Data: msg}
				switch {
				case n%3 == 0:
					if err := w.Push(f); err != nil {
						t.Error(err)
					}
				case n%3 == 1 && w.TrySend(f):
				default:
					if err := w.Send(t.Context(), f); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	go func() { sending.Wait(); w.Drain() }()
	next := make([]int, senders)
	r := wire.NewReader(pr, 0)
	for {
		msg, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var v struct{ W, N int }
		if err := json.Unmarshal(msg, &v); err != nil {
			t.Fatalf("%v: %.60q", err, msg)
		}
		if v.N != next[v.W] {
			t.Fatalf("sender %d: message %d after %d", v.W, v.N, next[v.W]-1)
		}
		next[v.W]++
	}
	for i, n := range next {
		if n != each {
			t.Errorf("sender %d: %d messages of %d", i, n, each)
		}
	}
	<-w.Done()
	if f := (rpc.Frame{Data: []byte("{}")}); w.TrySend(f) || w.Send(t.Context(), f) == nil {
		t.Error("a message was accepted after the end")
	}
}

// TestWriterWithoutReader checks that the messages of senders are bounded while the peer
// does not read, that a sender can stop waiting, and that Close ends the Writer.
func TestWriterWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		w := rpc.NewWriter(pw)
		go w.Run()
		if !w.TrySend(rpc.Frame{Data: []byte("first")}) {
			t.Fatal("the first message was not accepted")
		}
		synctest.Wait() // Run is writing it
		n := 0
		for w.TrySend(rpc.Frame{Data: fmt.Append(nil, n)}) {
			n++
		}
		if n < 2 || n > 1000 {
			t.Errorf("%d messages are held", n)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		sent := make(chan error, 2)
		send := func(ctx context.Context) { sent <- w.Send(ctx, rpc.Frame{Data: []byte("last")}) }
		go send(ctx)
		synctest.Wait()
		cancel(errors.New("no longer wanted"))
		if err := <-sent; err == nil || err.Error() != "no longer wanted" {
			t.Errorf("a sender that stopped waiting: %v", err)
		}
		go send(t.Context())
		synctest.Wait()
		w.Close()
		if err := <-sent; err == nil {
			t.Error("a message was accepted after Close")
		}
		<-w.Done()
		pr.Close()
	})
}

// TestWriterEndsWithAnError checks that a Writer ends when the peer is gone.
func TestWriterEndsWithAnError(t *testing.T) {
	pr, pw := io.Pipe()
	pr.Close()
	w := rpc.NewWriter(pw)
	go w.Run()
	if err := w.Send(t.Context(), rpc.Frame{Data: []byte("{}")}); err != nil {
		t.Errorf("first: %v", err)
	}
	<-w.Done()
	if err := w.Send(t.Context(), rpc.Frame{Data: []byte("{}")}); err == nil {
		t.Error("a message was accepted after the error")
	}
}
