//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestIdleConnections has a process that may open 256 files, and opens more connections than that,
// which stay idle after a request. Each of them is served, and so is a session after them.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	if err := home(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "ulimit -n 256 && exec mcp-metatool serve --http 127.0.0.1:0")
	cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+t.TempDir())
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log mcptest.Buffer
	url, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		for lines := bufio.NewScanner(io.TeeReader(said, &log)); lines.Scan(); {
			if m := servingOn.FindStringSubmatch(lines.Text()); m != nil {
				url <- m[1]
			}
		}
		ended <- cmd.Wait()
	}()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := mcptest.Receive(t, "the end", ended); err != nil {
			t.Errorf("%v\n%s", err, log.String())
		}
	}()
	at := mcptest.Receive(t, "the address", url)
	host, _, _ := strings.Cut(strings.TrimPrefix(at, "http://"), "/")
	patience, _ := mcptest.Bounded(t).Deadline()
	for i := range 250 {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer c.Close()
		_ = c.SetDeadline(patience)
		if _, err := fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("connection %d: %v %v\n%s", i, answer, err, log.String())
		}
	}
	request, err := http.NewRequestWithContext(mcptest.Bounded(t), http.MethodPost, at, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK || strings.Contains(log.String(), "too many open files") {
		t.Errorf("%s\n%s", answer.Status, log.String())
	}
}
