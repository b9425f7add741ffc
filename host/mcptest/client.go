package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// ClientOptions configure a Client.
type ClientOptions struct {
	// OnRequest answers a request of the server; the zero Reply sends no answer. Each request has a
	// goroutine. If nil, the client answers ping and refuses all other methods.
	OnRequest func(c *Client, m wire.Message) wire.Reply
	// Each and Forget are set in the Log.
	Each   func(Entry)
	Forget bool
	// Header is added to each HTTP request, in place of another header of the same name. An empty
	// value removes the header.
	Header map[string]string
	// Transport makes the HTTP requests; nil is a transport of the Client's own.
	Transport http.RoundTripper
}

// Client is a raw MCP client. The methods are safe for concurrent use. A Client must be closed with
// Close or Disconnect.
type Client struct {
	// Log has all received messages, in order.
	Log *Log

	opts ClientOptions
	link link
	work sync.WaitGroup // goroutines that read or run scripts

	mu      sync.Mutex
	pending map[string][]chan Answer // by key of the id, oldest first
	paused  chan struct{}            // closed at the end of a pause; nil if not paused
	gone    error                    // why nothing more will be received
}

// Answer is the outcome of a request: a response, or the reason why none will
// come.
type Answer struct {
	Entry
	Err error
}

// ErrEnded says that the server ended the connection.
var ErrEnded = errors.New("the server ended the connection")

// ErrUnanswered says that an HTTP request ended without the response.
var ErrUnanswered = errors.New("the stream ended without an answer")

// ErrCancelled says that the client cancelled the request.
var ErrCancelled = errors.New("cancelled")

// link is the client's side of a transport.
type link interface {
	// send writes a message. m is raw parsed, as far as possible. If a request
	// fails later without an answer, fail is called once.
	send(raw []byte, m wire.Message, fail func(error)) error
	// close ends the session as the transport specifies.
	close(ctx context.Context) error
	// drop closes all connections at once.
	drop()
}

func newClient(opts ClientOptions) *Client {
	return &Client{
		Log: &Log{Each: opts.Each, Forget: opts.Forget}, opts: opts, pending: map[string][]chan Answer{},
	}
}

// Send sends any bytes as a message. Over HTTP Send returns before a request has been answered or
// even accepted; if another message is refused, the error is a *StatusError.
func (c *Client) Send(raw []byte) error {
	m, _ := wire.Parse(raw)
	if m.Method == "notifications/cancelled" { // the answer is no longer expected
		id, _ := wire.Get(m.Params, "requestId")
		c.complete(wire.IDKey(id), Answer{Err: ErrCancelled})
	}
	return c.link.send(raw, m, func(error) {})
}

// Start sends a request with a raw id; params may be "". The channel receives one Answer; over
// stdio and SSE the Answer may never come. An answer after a cancellation is only in the Log.
func (c *Client) Start(id, method, params string) <-chan Answer {
	done := make(chan Answer, 1)
	key := wire.IDKey([]byte(id))
	c.mu.Lock()
	if c.gone != nil {
		done <- Answer{Err: c.gone}
		c.mu.Unlock()
		return done
	}
	c.pending[key] = append(c.pending[key], done)
	c.mu.Unlock()
	fail := func(err error) { c.fail(key, done, err) }
	raw := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%s%s}`, id, wire.Quote(method), member(params))
	m, _ := wire.Parse(raw)
	if err := c.link.send(raw, m, fail); err != nil {
		fail(err)
	}
	return done
}

// Request sends a request and waits for the answer.
func (c *Client) Request(ctx context.Context, id, method, params string) (Entry, error) {
	select {
	case a := <-c.Start(id, method, params):
		if a.Err != nil {
			return a.Entry, fmt.Errorf("%s %s: %w", method, id, a.Err)
		}
		return a.Entry, nil
	case <-ctx.Done():
		return Entry{}, fmt.Errorf("%s %s: %w", method, id, context.Cause(ctx))
	}
}

// Notify sends a notification; params may be "".
func (c *Client) Notify(method, params string) error {
	return c.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%s%s}`, wire.Quote(method), member(params)))
}

func member(params string) string {
	if params == "" {
		return ""
	}
	return `,"params":` + params
}

// Initialize opens the session with the id "init" and listens on the GET stream, if the transport
// has one.
func (c *Client) Initialize(ctx context.Context, params string) (Entry, error) {
	e, err := c.Request(ctx, `"init"`, "initialize", params)
	if err != nil {
		return e, err
	}
	if e.Msg.Error != nil {
		return e, fmt.Errorf("initialize: %s", e.Msg.Error)
	}
	if err := c.Notify("notifications/initialized", ""); err != nil {
		return e, err
	}
	if h, ok := c.link.(*httpLink); ok {
		var status *StatusError
		if err := h.listen(); err != nil && (!errors.As(err, &status) || status.Code != 405) {
			return e, err
		}
	}
	return e, nil
}

// Pause stops reading until Resume, so that messages of the server fill the connection's buffers.
func (c *Client) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused == nil {
		c.paused = make(chan struct{})
	}
}

// Resume ends a Pause.
func (c *Client) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused != nil {
		close(c.paused)
		c.paused = nil
	}
}

// Drop closes the connection of an HTTP request without cancelling the request, and returns when
// the client no longer reads the response; over the other transports Drop does nothing. The client
// must not be paused.
func (c *Client) Drop(id string) {
	if h, ok := c.link.(*httpLink); ok {
		h.dropPost(wire.IDKey([]byte(id)))
	}
}

// Close ends the session as the transport specifies, and reads until the server
// closes the connection or ctx ends.
func (c *Client) Close(ctx context.Context) error {
	c.Resume()
	err := c.link.close(ctx)
	stop := context.AfterFunc(ctx, c.link.drop)
	defer stop()
	c.work.Wait()
	c.end(ErrEnded)
	return err
}

// Disconnect closes all connections without ending the session.
func (c *Client) Disconnect() {
	c.link.drop()
	c.Resume()
	c.work.Wait()
	c.end(ErrEnded)
}

// waitWhilePaused waits while the client is paused.
func (c *Client) waitWhilePaused() {
	c.mu.Lock()
	paused := c.paused
	c.mu.Unlock()
	if paused != nil {
		<-paused
	}
}

// received logs and dispatches a message, and keeps raw.
func (c *Client) received(stream string, raw []byte) Entry {
	e := c.Log.add(stream, raw, nil)
	switch m := e.Msg; {
	case m.IsRequest():
		c.work.Go(func() { c.answer(m) })
	case m.ID != nil && m.IsResponse():
		c.complete(wire.IDKey(m.ID), Answer{Entry: e})
	}
	return e
}

// complete completes the oldest request with the id.
func (c *Client) complete(key string, a Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.pending[key]
	if len(waiting) == 0 {
		return
	}
	waiting[0] <- a
	if c.pending[key] = waiting[1:]; len(waiting) == 1 {
		delete(c.pending, key)
	}
}

// fail completes a pending request with an error.
func (c *Client) fail(key string, done chan Answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.pending[key]
	if i := slices.Index(waiting, done); i >= 0 {
		done <- Answer{Err: err}
		if c.pending[key] = slices.Delete(waiting, i, i+1); len(waiting) == 1 {
			delete(c.pending, key)
		}
	}
}

func (c *Client) answer(m wire.Message) {
	var reply wire.Reply
	switch {
	case c.opts.OnRequest != nil:
		reply = c.opts.OnRequest(c, m)
	case m.Method == "ping":
		reply = result(`{}`)
	default:
		reply = rpcError(wire.CodeMethodNotFound, "raw client: no "+m.Method)
	}
	if reply.Result != nil || reply.Error != nil {
		_ = c.Send(wire.Response(m.ID, reply)) // if the server is gone, the Log shows it
	}
}

// end fails all pending and all later requests.
func (c *Client) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone == nil {
		c.gone = why
	}
	for key, waiting := range c.pending {
		for _, done := range waiting {
			done <- Answer{Err: c.gone}
		}
		delete(c.pending, key)
	}
}

// NewStdio returns a client that reads lines from in and writes lines to out. The client closes
// both.
func NewStdio(in io.ReadCloser, out io.WriteCloser, opts ClientOptions) *Client {
	c := newClient(opts)
	c.link = &stdioLink{in: in, out: out}
	c.work.Go(func() {
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			c.waitWhilePaused()
			line, err := r.ReadBytes('\n')
			whole := err == nil || errors.Is(err, io.EOF) // else we have stopped reading in the middle
			if line = bytes.TrimSpace(line); len(line) > 0 && whole {
				c.received("stdio", line)
			}
			if err != nil {
				c.end(ErrEnded)
				return
			}
		}
	})
	return c
}

type stdioLink struct {
	in  io.ReadCloser
	out io.WriteCloser
	mu  sync.Mutex // serializes messages
}

func (l *stdioLink) send(raw []byte, _ wire.Message, _ func(error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.out.Write(append(raw[:len(raw):len(raw)], '\n'))
	return err
}

func (l *stdioLink) close(context.Context) error { return l.out.Close() }

func (l *stdioLink) drop() { _ = errors.Join(l.out.Close(), l.in.Close()) }

// NewSSE connects a client of the HTTP+SSE transport (revision 2024-11-05) to
// address.
func NewSSE(address string, opts ClientOptions) (*Client, error) {
	c := newClient(opts)
	l := newHTTPLink(c, address)
	c.link = &sseLink{l}
	resp, err := l.do(l.ctx, http.MethodGet, nil, "")
	if err != nil {
		l.drop()
		return nil, err
	}
	endpoint := make(chan string, 1)
	c.work.Go(func() {
		defer resp.Body.Close()
		known := false
		_ = readEvents(resp.Body, func(e event) bool {
			switch e.name {
			case "endpoint":
				if !known {
					endpoint <- string(e.data)
				}
				known = true
			case "message":
				c.waitWhilePaused()
				c.received("sse", e.data)
			}
			return true
		})
		close(endpoint)
		c.end(ErrEnded)
	})
	path, ok := <-endpoint
	base, err := url.Parse(address)
	if !ok || err != nil {
		l.drop()
		return nil, ErrEnded
	}
	target, err := base.Parse(path)
	if err != nil {
		l.drop()
		return nil, err
	}
	l.url = target.String()
	return c, nil
}

type sseLink struct{ l *httpLink }

func (s *sseLink) send(raw []byte, _ wire.Message, _ func(error)) error {
	resp, err := s.l.do(s.l.ctx, http.MethodPost, raw, "")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (s *sseLink) close(context.Context) error {
	s.l.drop()
	return nil
}

func (s *sseLink) drop() { s.l.drop() }
