package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// StatusError is an HTTP response with a status other than 200, 202 and 204.
type StatusError struct {
	Code   int
	Header http.Header
	Body   []byte
}

func (e *StatusError) Error() string { return fmt.Sprintf("HTTP %d: %.200s", e.Code, e.Body) }

// NewHTTP returns a client of the streamable HTTP transport at url. The first message connects the
// client.
func NewHTTP(url string, opts ClientOptions) *Client {
	c := newClient(opts)
	c.link = newHTTPLink(c, url)
	return c
}

type httpLink struct {
	c      *Client
	url    string
	http   *http.Client
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	session  string
	revision string
	posts    map[string]post // by key of the id
}

// post is a request whose response is being read.
type post struct {
	cancel context.CancelFunc
	over   chan struct{} // closed when the client no longer reads the response
}

func newHTTPLink(c *Client, url string) *httpLink {
	transport := c.opts.Transport
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}
	}
	l := &httpLink{c: c, url: url, posts: map[string]post{}, http: &http.Client{Transport: transport}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

func (l *httpLink) drop() {
	l.cancel()
	l.http.CloseIdleConnections()
}

// close deletes the session, which ends the streams.
func (l *httpLink) close(ctx context.Context) error {
	defer l.drop()
	l.mu.Lock()
	session := l.session
	l.mu.Unlock()
	if session == "" {
		return nil
	}
	resp, err := l.do(ctx, http.MethodDelete, nil, "")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// do makes an HTTP request; the caller closes the body. A response with a status other than 200,
// 202 and 204 is a *StatusError.
func (l *httpLink) do(ctx context.Context, method string, body []byte, lastEvent string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	for name, value := range map[string]string{"Mcp-Session-Id": l.session, "MCP-Protocol-Version": l.revision, "Last-Event-ID": lastEvent} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	l.mu.Unlock()
	req.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Content-Type", "application/json")
		m, _ := wire.Parse(body)
		modernHeaders(req.Header, m)
	}
	for name, value := range l.c.opts.Header {
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return nil, &StatusError{Code: resp.StatusCode, Header: resp.Header, Body: text}
}

func (l *httpLink) send(raw []byte, m wire.Message, fail func(error)) error {
	if !m.IsRequest() {
		return l.post(l.ctx, raw, m)
	}
	key := wire.IDKey(m.ID)
	ctx, cancel := context.WithCancel(l.ctx)
	over := make(chan struct{})
	l.mu.Lock()
	l.posts[key] = post{cancel, over}
	l.mu.Unlock()
	l.c.work.Go(func() {
		defer close(over)
		defer cancel()
		if err := l.post(ctx, raw, m); err != nil {
			fail(err)
		}
	})
	return nil
}

func (l *httpLink) dropPost(key string) {
	l.mu.Lock()
	p, sent := l.posts[key]
	l.mu.Unlock()
	if sent {
		p.cancel()
		<-p.over
	}
}

// post sends a message and reads the response.
func (l *httpLink) post(ctx context.Context, raw []byte, m wire.Message) error {
	resp, err := l.do(ctx, http.MethodPost, raw, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		l.mu.Lock()
		l.session = id
		l.mu.Unlock()
	}
	stream, answered := "post "+string(m.ID), false
	take := func(data []byte) {
		if m.Method == "initialize" {
			l.negotiated(data)
		}
		if ResponseTo(string(m.ID))(l.c.received(stream, data)) {
			answered = true
		}
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "application/json":
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		take(body)
	case "text/event-stream":
		if err := l.follow(ctx, resp, func() bool { return answered }, take); err != nil {
			return err
		}
	}
	if m.IsRequest() && !answered {
		return ErrUnanswered
	}
	return nil
}

// negotiated records the revision from an answer to initialize. Every later request sends the
// revision.
func (l *httpLink) negotiated(raw []byte) {
	if revision, ok := wire.GetString(raw, "result", "protocolVersion"); ok {
		l.mu.Lock()
		l.revision = revision
		l.mu.Unlock()
	}
}

// follow reads a stream of events and resumes a broken stream, until over returns true or the
// stream ends and cannot be resumed.
func (l *httpLink) follow(ctx context.Context, resp *http.Response, over func() bool, take func([]byte)) error {
	var last event
	for resumed := false; ; resumed = true {
		events := 0
		err := readEvents(resp.Body, func(e event) bool {
			last = e
			events++
			if e.data != nil && (e.name == "" || e.name == "message") {
				l.c.waitWhilePaused()
				take(e.data)
			}
			return true
		})
		resp.Body.Close()
		if ctx.Err() != nil || over() || last.id == "" || resumed && events == 0 {
			return err
		}
		timer := time.NewTimer(last.retry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		if resp, err = l.do(ctx, http.MethodGet, nil, last.id); err != nil {
			return fmt.Errorf("resume after event %s: %w", last.id, err)
		}
	}
}

// listen opens the GET stream and returns when the server has accepted the stream.
func (l *httpLink) listen() error {
	resp, err := l.do(l.ctx, http.MethodGet, nil, "")
	if err != nil {
		return err
	}
	l.c.work.Go(func() {
		// Whatever the error, the session or the server is gone.
		_ = l.follow(l.ctx, resp, func() bool { return false }, func(data []byte) { l.c.received("get", data) })
	})
	return nil
}

// event is a server-sent event (WHATWG HTML, server-sent events).
type event struct {
	name  string // "" is a message
	data  []byte
	id    string // the latest id, even if the event has none
	retry time.Duration
}

// readEvents calls f for each event until f returns false or the stream ends, which is not an
// error. Lines may end in CR LF or LF. Events without data set id and retry for the following
// events; f gets them too, with nil data.
func readEvents(r io.Reader, f func(event) bool) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var e event
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil // an unfinished event is dropped
		}
		if err != nil {
			return err
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(line) == 0 {
			if !f(e) {
				return nil
			}
			e = event{id: e.id, retry: e.retry}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.name = string(value)
		case "data":
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		case "id":
			e.id = string(value)
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}
