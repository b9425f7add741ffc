package mcptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// ClientOptions of a Client.
type ClientOptions struct {
	// Script answers a request of the server; the zero Reply is no answer. It
	// runs in a goroutine for each. Nil: ping is answered, all else refused.
	Script func(c *Client, m wire.Message) wire.Reply
	// Each and Forget are those of the Log.
	Each   func(Entry)
	Forget bool
	// Header goes with each HTTP request.
	Header map[string]string
}

// Client is a raw MCP client. Its methods are safe for concurrent use. It must
// be closed, with Close or Vanish.
type Client struct {
	// Log is everything it received, in order.
	Log *Log

	opts ClientOptions
	link link
	work sync.WaitGroup // everything that reads, and scripts

	mu      sync.Mutex
	pending map[string][]chan Answer // by key of the id, oldest first
	paused  chan struct{}            // closed at the end of a pause; nil without
	gone    error                    // why nothing more will be received
}

// Answer is the outcome of a request: a response, or the reason why there will
// be none.
type Answer struct {
	Entry
	Err error
}

// ErrEnded says that the server ended the connection.
var ErrEnded = errors.New("the server ended the connection")

// ErrUnanswered says that an HTTP request ended without the response in it.
var ErrUnanswered = errors.New("the stream ended without an answer")

// ErrCancelled says that the client took the request back.
var ErrCancelled = errors.New("cancelled")

// link is the client's end of a transport.
type link interface {
	// send writes a message; m is raw parsed, as far as it could be. A request
	// may fail later, without an answer: then fail is called, once.
	send(raw []byte, m wire.Message, fail func(error)) error
	// hangUp says goodbye as the transport wants it.
	hangUp(ctx context.Context) error
	// drop closes everything at once.
	drop()
}

func newClient(opts ClientOptions) *Client {
	return &Client{
		Log: &Log{Each: opts.Each, Forget: opts.Forget}, opts: opts, pending: map[string][]chan Answer{},
	}
}

// Send sends bytes as one message, whatever they are. Over HTTP it returns
// before a request has been answered or even accepted; the error of another
// message that was refused is a *StatusError.
func (c *Client) Send(raw []byte) error {
	m, _ := wire.Parse(raw)
	if m.Method == "notifications/cancelled" { // nobody waits any longer
		id, _ := wire.Get(m.Params, "requestId")
		c.settle(wire.IDKey(id), Answer{Err: ErrCancelled})
	}
	return c.link.send(raw, m, func(error) {})
}

// Start sends a request with a raw id; params may be "". The channel gets one
// Answer, which may never come over stdio and SSE. An answer that comes after a
// cancellation is in the Log only.
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

// Initialize opens the session with the id "init" and listens on the GET stream,
// where there is one.
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

// Pause stops reading, so that what the server writes piles up on the way, until
// Resume.
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

// Drop closes the connection of one HTTP request without a word; over the other
// transports it does nothing.
func (c *Client) Drop(id string) {
	if h, ok := c.link.(*httpLink); ok {
		h.dropPost(wire.IDKey([]byte(id)))
	}
}

// Close ends the session as the transport wants it and reads what is still to
// come.
func (c *Client) Close(ctx context.Context) error {
	c.Resume()
	err := c.link.hangUp(ctx)
	stop := context.AfterFunc(ctx, c.link.drop)
	defer stop()
	c.work.Wait()
	c.end(ErrEnded)
	return err
}

// Vanish breaks all connections and says nothing.
func (c *Client) Vanish() {
	c.link.drop()
	c.Resume()
	c.work.Wait()
	c.end(ErrEnded)
}

// attend waits while the client does not read.
func (c *Client) attend() {
	c.mu.Lock()
	paused := c.paused
	c.mu.Unlock()
	if paused != nil {
		<-paused
	}
}

// received takes a message; it keeps raw.
func (c *Client) received(stream string, raw []byte) Entry {
	e := c.Log.add(stream, raw, nil)
	switch m := e.Msg; {
	case m.IsRequest():
		c.work.Go(func() { c.answer(m) })
	case m.ID != nil && m.IsResponse():
		c.settle(wire.IDKey(m.ID), Answer{Entry: e})
	}
	return e
}

// settle gives the oldest request with the id its outcome.
func (c *Client) settle(key string, a Answer) {
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

// fail gives one request its outcome, if it has none.
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
	case c.opts.Script != nil:
		reply = c.opts.Script(c, m)
	case m.Method == "ping":
		reply = result(`{}`)
	default:
		reply = rpcError(wire.CodeMethodNotFound, "raw client: no "+m.Method)
	}
	if reply.Result != nil || reply.Error != nil {
		_ = c.Send(wire.Response(m.ID, reply)) // a server that is gone shows in the Log
	}
}

// end fails all requests that have no answer, and those to come.
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
