package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/signal"
	"syscall"
)

// maxLine limits the length of a message in bytes.
const maxLine = 1 << 20

// serveEcho runs an MCP server with the only tool "echo" over stdio.
func serveEcho(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		answer, err := echo(lines.Bytes())
		if err != nil {
			return err
		}
		if answer == nil {
			continue
		}
		if _, err := out.Write(append(answer, '\n')); err != nil {
			return err
		}
	}
	return lines.Err()
}

// echo returns the answer to a message; nil for a notification.
func echo(message []byte) ([]byte, error) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			ProtocolVersion json.RawMessage `json:"protocolVersion"`
			Arguments       struct {
				Message json.RawMessage `json:"message"`
			} `json:"arguments"`
		} `json:"params"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return nil, fmt.Errorf("message from the client: %w", err)
	}
	if m.ID == nil {
		return nil, nil
	}
	result := "{}"
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":` + string(m.Params.ProtocolVersion) + `,"capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"message":{"type":"string"}}}}]}`
	case "tools/call":
		result = `{"content":[{"type":"text","text":` + string(m.Params.Arguments.Message) + `}]}`
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result), nil
}

// serveEchoHTTP runs the same server over streamable HTTP until SIGTERM, with answers as JSON and
// without sessions. The URL goes to log.
func serveEchoHTTP(log io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var at net.ListenConfig
	ln, err := at.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(echoHTTP)}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	fmt.Fprintf(log, "serving MCP on http://%s/mcp\n", ln.Addr())
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func echoHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
	case http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	message, err := io.ReadAll(io.LimitReader(r.Body, maxLine))
	if err != nil {
		return // the client has gone
	}
	answer, err := echo(message)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case answer == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	}
}
