//go:build unix

package host

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"syscall"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
)

// TestStalledClient checks a client that does not read while an upstream sends it a
// flood of messages: neither the session nor the upstream's process outlives the
// shutdown.
func TestStalledClient(t *testing.T) {
	t.Parallel()
	h, err := New(testConfig(t, inOwnProcess(upstreamOf("raw", "raw"))), Options{Version: "test", Log: slog.New(slog.DiscardHandler), CacheDir: guestCache})
	if err != nil {
		t.Fatal(err)
	}
	h.shutdownTime = maxWait // a busy machine may take long to end the process
	pid := h.Upstreams(t.Context())[0].Pid
	<-h.sandbox.Ready()

	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- h.Serve(t.Context(), inR, outW) }()
	fmt.Fprintln(inW, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	if _, err := outR.Read(make([]byte, 1<<16)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(inW, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"raw__count","arguments":{"times":100000},"_meta":{"progressToken":1}}}`)
	if _, err := outR.Read(make([]byte, 1)); err != nil { // the flood has begun
		t.Fatal(err)
	}
	inW.Close()
	if err := <-served; !errors.Is(err, clients.ErrStalled) {
		t.Errorf("Serve: %v", err)
	}
	if err := h.Close(); err != nil { // nothing from the upstream waits for the client
		t.Errorf("Close: %v", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the upstream's process is still there: %v", err)
	}
	outR.Close() // lets the goroutine end that was left behind
	if err := h.upstreams.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
