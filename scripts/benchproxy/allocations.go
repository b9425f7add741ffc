package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// size is the allocations of a call in the process of the proxy.
type size struct {
	name         string
	bytes, count float64
}

// measureAllocations measures proxies in this process, with servers in other processes and with
// clients without allocations.
func (b *bench) measureAllocations(ctx context.Context) (sizes []size, err error) {
	server, err := listen(ctx, nil, b.self, httpServerVerb)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	path, err := b.configure(server.url)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(config.LoadOptions{Flag: path})
	if err != nil {
		return nil, err
	}
	err = b.withHost(ctx, cfg, host.OneClient, func(ctx context.Context, h *host.Host) error {
		sizes, err = b.sizesOverLines(ctx, h)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = b.withHost(ctx, cfg, host.ManyClients, func(ctx context.Context, h *host.Host) error {
		more, err := b.sizesOverHTTP(ctx, h, cfg.HTTP.Path)
		sizes = append(sizes, more...)
		return err
	})
	return sizes, err
}

func (b *bench) withHost(ctx context.Context, cfg *config.Config, clients host.Clients, f func(context.Context, *host.Host) error) error {
	h, err := host.New(cfg, host.Options{
		Version: "bench", Clients: clients, Log: slog.New(slog.DiscardHandler), CacheDir: filepath.Join(b.dir, "wasm"),
	})
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, h), h.Close())
}

func (b *bench) sizesOverLines(ctx context.Context, h *host.Host) (sizes []size, err error) {
	fromClient, toHost := io.Pipe()
	fromHost, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- h.Serve(ctx, fromClient, toClient) }()
	defer func() { err = errors.Join(err, toHost.Close(), <-served) }()
	lines := bufio.NewReaderSize(fromHost, maxLine)
	c := &quietClient{write: toHost.Write, read: func() ([]byte, error) { return lines.ReadSlice('\n') }}
	one, err := b.size(c, "stdio->stdio", "echo__echo")
	return []size{one}, err
}

func (b *bench) sizesOverHTTP(ctx context.Context, h *host.Host, path string) (sizes []size, err error) {
	ctx, stop := context.WithCancel(ctx)
	var listening net.ListenConfig
	ln, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		stop()
		return nil, err
	}
	served := make(chan error, 1)
	go func() { served <- h.ServeHTTPOn(ctx, ln) }()
	defer func() {
		stop()
		if over := <-served; !errors.Is(over, context.Canceled) {
			err = errors.Join(err, over)
		}
	}()
	session, err := openHTTP((&url.URL{Scheme: "http", Host: ln.Addr().String(), Path: path}).String())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.close()) }()
	c, err := dialQuietly(ln.Addr().String(), path, session.session)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, way := range [][2]string{{"HTTP->stdio", "echo__echo"}, {"HTTP->HTTP", "remote__echo"}} {
		one, err := b.size(c, way[0], way[1])
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, one)
	}
	return sizes, nil
}

// size measures consecutive calls.
func (b *bench) size(c *quietClient, name, tool string) (size, error) {
	k := echoing(nil, tool)
	if c.session == "" {
		if err := c.hello(); err != nil {
			return size{}, err
		}
	}
	// Work in the background must have ended before: here the guest has run.
	run := `{"name":"eval_starlark","arguments":{"code":"return 'it runs'"}}`
	if err := c.call(run, "it runs"); err != nil {
		return size{}, err
	}
	var before, after runtime.MemStats
	for round := range 2 { // the first round warms up
		if round == 1 {
			runtime.ReadMemStats(&before)
		}
		for range b.calls {
			if err := c.call(k.params, k.want); err != nil {
				return size{}, err
			}
		}
	}
	runtime.ReadMemStats(&after)
	n := float64(b.calls)
	return size{name, float64(after.TotalAlloc-before.TotalAlloc) / n, float64(after.Mallocs-before.Mallocs) / n}, nil
}

// quietClient makes one call at a time, and does not allocate once its buffer has grown. A
// quietClient is not safe for concurrent use.
type quietClient struct {
	write   func([]byte) (int, error)
	read    func() ([]byte, error) // a message, valid until the next call
	header  string                 // HTTP header up to Content-Length
	session string                 // "" over lines
	nextID  int
	message []byte
	request []byte
	close   func() error // nil over lines
}

func (c *quietClient) hello() error {
	const params = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`
	if _, err := c.exchange("initialize", params); err != nil {
		return err
	}
	_, err := c.write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
	return err
}

func (c *quietClient) call(params, want string) error {
	answer, err := c.exchange("tools/call", params)
	if err != nil {
		return err
	}
	if !bytes.Contains(answer, []byte(want)) {
		return fmt.Errorf("answer to %s: %s", params, answer)
	}
	return nil
}

func (c *quietClient) exchange(method, params string) ([]byte, error) {
	if _, err := c.write(c.build(method, params)); err != nil {
		return nil, err
	}
	for {
		answer, err := c.read()
		if id, ok := idOf(answer); err != nil || ok && id == c.nextID {
			return answer, err
		}
	}
}

// build returns a request with the next id, valid until the next call.
func (c *quietClient) build(method, params string) []byte {
	c.nextID++
	m := strconv.AppendInt(append(c.message[:0], `{"jsonrpc":"2.0","id":`...), int64(c.nextID), 10)
	m = append(append(append(append(m, `,"method":"`...), method...), `","params":`...), params...)
	c.message = append(m, "}\n"...)
	if c.session == "" {
		return c.message
	}
	c.request = strconv.AppendInt(append(c.request[:0], c.header...), int64(len(c.message)), 10)
	c.request = append(append(c.request, "\r\n\r\n"...), c.message...)
	return c.request
}

// dialQuietly returns a client for an existing session.
func dialQuietly(address, path, session string) (*quietClient, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	header := strings.Join([]string{
		"POST " + path + " HTTP/1.1", "Host: " + address, "Content-Type: application/json",
		"Accept: application/json, text/event-stream", "Mcp-Session-Id: " + session,
		"MCP-Protocol-Version: 2025-11-25", "Content-Length: ",
	}, "\r\n")
	body := &bodyReader{r: bufio.NewReaderSize(conn, maxLine)}
	return &quietClient{write: conn.Write, read: body.next, header: header, session: session, nextID: 1000, close: conn.Close}, nil
}

func sizeTable(out io.Writer, sizes []size) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "allocated by the proxy for one call\tbytes\tobjects\t\n")
	for _, s := range sizes {
		fmt.Fprintf(w, "%s\t%.0f\t%.1f\t\n", s.name, s.bytes, s.count)
	}
	w.Flush()
	fmt.Fprintln(out)
}
