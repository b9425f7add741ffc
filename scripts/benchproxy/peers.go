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
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// peers has sessions with the servers and with the binary.
type peers struct {
	echo, echoHTTP   client // with the Go server
	node             client // with server-everything; nil if not measured
	proxy, proxyHTTP client // with the binary in front of the servers

	closers []func() error
}

// open starts all processes and sessions. The peers must be closed even after an
// error.
func (b *bench) open(ctx context.Context) (*peers, error) {
	p := &peers{}
	server, err := listen(ctx, nil, b.self, httpServerVerb)
	if err != nil {
		return p, err
	}
	p.closers = append(p.closers, server.close)
	config, err := b.configure(server.url)
	if err != nil {
		return p, err
	}
	front, err := listen(ctx, b.env("calls"), b.binary, "serve", "--http", "127.0.0.1:0", "--config", config)
	if err != nil {
		return p, err
	}
	p.closers = append(p.closers, front.close)
	if p.echo, err = p.start(ctx, b, b.self, serverVerb); err != nil {
		return p, err
	}
	if p.proxy, err = p.start(ctx, b, b.binary, "serve", "--config", config); err != nil {
		return p, err
	}
	if b.everything != "" {
		if p.node, err = p.start(ctx, b, "node", b.everything); err != nil {
			return p, err
		}
	}
	if p.echoHTTP, err = p.connect(server.url); err != nil {
		return p, err
	}
	if p.proxyHTTP, err = p.connect(front.url); err != nil {
		return p, err
	}
	return p, errors.Join(needTool(p.proxy, "echo__echo"), needTool(p.proxyHTTP, "echo__echo"), needTool(p.proxyHTTP, "remote__echo"))
}

func (p *peers) start(ctx context.Context, b *bench, command string, args ...string) (client, error) {
	c, _, err := start(ctx, b.env("calls"), command, args...)
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, c.close)
	return c, nil
}

func (p *peers) connect(url string) (client, error) {
	c, err := openHTTP(url)
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, c.close)
	return c, nil
}

// close closes the newest first, so that sessions end before their processes.
func (p *peers) close() (err error) {
	for i := len(p.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, p.closers[i]())
	}
	return err
}

// env returns an environment in which the binary caches in a directory of the run.
func (b *bench) env(cache string) []string {
	dir := filepath.Join(b.dir, cache)
	return []string{"XDG_CACHE_HOME=" + dir, "LocalAppData=" + dir, "HOME=" + dir}
}

// configure writes a configuration and returns the path. The configuration has the Go server as
// "echo", and as "remote" if url is not empty, and server-everything.
func (b *bench) configure(url string) (string, error) {
	text := fmt.Sprintf("[store]\ndir = %q\n[upstream.echo]\ncommand = %q\nargs = [%q]\n",
		filepath.Join(b.dir, "store"), b.self, serverVerb)
	if b.everything != "" {
		text += fmt.Sprintf("[upstream.everything]\ncommand = \"node\"\nargs = [%q]\n", b.everything)
	}
	name := "local.toml"
	if url != "" {
		text += fmt.Sprintf("[upstream.remote]\nurl = %q\n", url)
		name = "all.toml"
	}
	path := filepath.Join(b.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

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
