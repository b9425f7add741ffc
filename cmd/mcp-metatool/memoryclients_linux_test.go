package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// loadClient is a client with a token: without a session one of the stateless era.
type loadClient struct {
	load    *load
	token   string
	session string
	http    *http.Client
}

func (l *load) client(token string) *loadClient {
	return &loadClient{load: l, token: token, http: http.DefaultClient}
}

// slow makes the kernel keep little of what c does not read.
func (c *loadClient) slow() *loadClient {
	c.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
			return errors.Join(raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) }), err)
		}}
		return dialer.DialContext(ctx, network, address)
	}}}
	return c
}

// loadCall returns the members of a request.
func loadCall(name, arguments string) string {
	return fmt.Sprintf(`"method":"tools/call","params":{"name":%q,"arguments":%s}`, name, arguments)
}

// wholeAnswer is how much of an answer is kept, in bytes. The rest is read.
const wholeAnswer = 64 << 10

// post sends a request and reads the answer.
func (c *loadClient) post(ctx context.Context, members string) (status int, text string, err error) {
	r, err := c.send(ctx, members)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	head, err := io.ReadAll(io.LimitReader(r.Body, wholeAnswer))
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	return r.StatusCode, string(head), err
}

// send sends a request.
func (c *loadClient) send(ctx context.Context, members string) (*http.Response, error) {
	method, rest, _ := strings.Cut(strings.TrimPrefix(members, `"method":"`), `"`)
	if c.session == "" && method != "initialize" {
		params := strings.TrimPrefix(rest, `,"params":`)
		members = fmt.Sprintf(`"method":%q,"params":%s`, method, mcptest.Envelope{Capabilities: `{"elicitation":{}}`}.Params(params))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.load.url,
		strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, c.load.id.Add(1), members)))
	if err != nil {
		return nil, err
	}
	c.headers(r)
	switch {
	case c.session == "" && method != "initialize":
		r.Header.Set("MCP-Protocol-Version", mcptest.Modern)
		r.Header.Set("Mcp-Method", method)
		if _, name, ok := strings.Cut(members, `"name":"`); ok {
			name, _, _ = strings.Cut(name, `"`)
			r.Header.Set("Mcp-Name", name)
		}
	case method != "initialize":
		r.Header.Set("MCP-Protocol-Version", "2025-11-25")
	}
	return c.http.Do(r)
}

func (c *loadClient) headers(r *http.Request) {
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
}

// begin begins a session.
func (c *loadClient) begin(ctx context.Context) (status int, text string, err error) {
	r, err := c.send(ctx, `"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"1"}}`)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	c.session = r.Header.Get("Mcp-Session-Id")
	return r.StatusCode, string(body), err
}

// finish ends the session.
func (c *loadClient) finish(ctx context.Context) {
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, c.load.url, nil)
	if err != nil {
		return
	}
	c.headers(r)
	if answer, err := c.http.Do(r); err == nil {
		answer.Body.Close()
	}
}

// begun returns a client with a session, or nil when ctx ends.
func (l *load) begun(token string) *loadClient {
	for l.ctx.Err() == nil {
		c := l.client(token)
		status, text, err := c.begin(l.ctx)
		if err == nil && status == http.StatusOK {
			return c
		}
		l.note(status, text, err)
	}
	return nil
}

// largeRequests sends arguments of 6 MB.
func (l *load) largeRequests(token string) {
	text := strings.Repeat("x", 6<<20)
	c := l.client(token)
	l.until(4, func() { l.note(c.post(l.ctx, loadCall("small__get", `{"x":"`+text+`"}`))) })
}

// unreadAnswers asks for answers of 10 MB and does not read them.
func (l *load) unreadAnswers(token string) {
	c := l.client(token).slow()
	l.hold(12, func(ctx context.Context) (*http.Response, error) {
		return c.send(ctx, loadCall("heavy__get", `{"bytes":10000000}`))
	})
}

// unreadLists asks for lists and does not read them.
func (l *load) unreadLists(token string) {
	c := l.begun(token)
	if c == nil {
		return
	}
	c.slow()
	l.hold(8, func(ctx context.Context) (*http.Response, error) { return c.send(ctx, `"method":"tools/list"`) })
}

// hold makes so many requests at the same time, and does not read the answers, except for
// refusals. It makes each of them again after some seconds.
func (l *load) hold(requests int, send func(ctx context.Context) (*http.Response, error)) {
	l.until(requests, func() {
		ctx, cancel := context.WithTimeout(l.ctx, testenv.Quiet(4*time.Second))
		defer cancel()
		r, err := send(ctx)
		if err != nil {
			return
		}
		defer r.Body.Close()
		head := make([]byte, 4<<10)
		n, _ := io.ReadFull(r.Body, head)
		if text := string(head[:n]); r.StatusCode >= 300 || refusedText(text) != "" {
			l.note(r.StatusCode, text, nil)
			return
		}
		l.large.Add(1)
		<-ctx.Done()
	})
}

// manySessions begins sessions.
func (l *load) manySessions(token string) {
	l.until(2, func() {
		c := l.client(token)
		status, text, err := c.begin(l.ctx)
		if err != nil || status != http.StatusOK {
			l.note(status, text, err)
			return
		}
		l.note(c.post(l.ctx, loadCall("small__get", "{}"))) // so that it counts as used
	})
}

// parkedCalls makes calls in which a server asks a question that no client answers.
func (l *load) parkedCalls(token string) {
	c := l.client(token)
	l.until(4, func() { l.note(c.post(l.ctx, loadCall("heavy__ask", "{}"))) })
}

// largeParkedCalls makes such calls whose requests are large, and goes away when it is refused.
func (l *load) largeParkedCalls(token string) {
	text := strings.Repeat("x", 5<<20)
	c := l.client(token)
	l.until(2, func() {
		for _, params := range []string{
			`{"name":"heavy__ask","arguments":{"x":"` + text + `"}}`,
			`{"name":"heavy__ask","arguments":{},"_meta":{"x":"` + text + `"}}`,
			`{"name":"heavy__ask","arguments":{},"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"` + text + `"}}}`,
		} {
			ctx, cancel := context.WithTimeout(l.ctx, testenv.Quiet(5*time.Second))
			l.note(c.post(ctx, `"method":"tools/call","params":`+params))
			cancel()
		}
	})
}

// plans makes plans with large writes.
func (l *load) plans(token string) {
	c := l.client(token)
	l.until(1, func() {
		l.note(c.post(l.ctx, loadCall("plan_tool", `{"code":"small.progress(x=\"x\" * 2000000)"}`)))
	})
}

// scripts runs scripts with large answers in parallel, some of which keep them.
func (l *load) scripts(token string) {
	c := l.client(token)
	l.until(3, func() {
		l.note(c.post(l.ctx, loadCall("eval_starlark", `{"code":"kept = []\nfor i in range(8):\n  kept.append(parallel([lambda: heavy.get(bytes=2000000) for _ in range(4)]))\nreturn len(kept)"}`)))
	})
}

// savedTools saves tools with large schemas, calls them, and lists them.
func (l *load) savedTools(token string) {
	c, large := l.client(token), strings.Repeat("d", 1_000_000)
	l.until(1, func() {
		name := fmt.Sprintf("t%s%d", token[:5], l.id.Add(1))
		many := new(strings.Builder)
		for i := range 2000 {
			fmt.Fprintf(many, `"p%d":{},`, i)
		}
		for _, schema := range []string{`{"type":"object","description":"` + large + `"}`, `{"type":"object","properties":{` + many.String() + `"last":{}}}`} {
			l.note(c.post(l.ctx, loadCall("save_tool", fmt.Sprintf(`{"name":%q,"description":"d","inputSchema":%s,"code":"return 1"}`, name, schema))))
			l.note(c.post(l.ctx, loadCall(name, "{}")))
		}
		l.note(c.post(l.ctx, loadCall("list_saved_tools", "{}")))
	})
}

// record makes runs with large answers, which the attack journal reads.
func (l *load) record(t *testing.T, token string, runs int) {
	t.Helper()
	c := l.client(token)
	if status, text, err := c.begin(t.Context()); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v", status, text, err)
	}
	for range runs {
		status, text, err := c.post(t.Context(), loadCall("eval_starlark", `{"code":"for i in range(5): heavy.get(bytes=3000000)\nfail('no')"}`))
		if err != nil || !strings.Contains(text, "no") {
			t.Fatalf("%d %s %v", status, text, err)
		}
	}
	l.recorded[token] = c
}

// journal reads runs with large answers.
func (l *load) journal(token string) {
	c := l.recorded[token]
	l.until(4, func() {
		l.note(c.post(l.ctx, loadCall("list_runs", `{"outcome":"ok","limit":100}`)))
		l.note(c.post(l.ctx, loadCall("list_runs", `{"outcome":"failed","limit":100}`)))
	})
}

// brokenStreams reads the beginning of streams and resumes them.
func (l *load) brokenStreams(token string) {
	c := l.begun(token)
	if c == nil {
		return
	}
	l.until(4, func() {
		ctx, cancel := context.WithTimeout(l.ctx, testenv.Quiet(10*time.Second))
		defer cancel()
		r, err := c.send(ctx, loadCall("heavy__progress", `{"bytes":500000}`))
		if err != nil {
			return
		}
		lines := bufio.NewReader(io.LimitReader(r.Body, wholeAnswer))
		line, _ := lines.ReadString('\n')
		r.Body.Close()
		id, ok := strings.CutPrefix(strings.TrimSpace(line), "id: ")
		if !ok {
			l.note(r.StatusCode, line, nil)
			return
		}
		again, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url, nil)
		if err != nil {
			return
		}
		c.headers(again)
		again.Header.Set("Last-Event-ID", id)
		if r, err = c.http.Do(again); err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 2<<20))
		r.Body.Close()
		l.large.Add(1)
	})
}

// halfRequests opens connections and sends the beginning of a request on each.
func (l *load) halfRequests(token string) {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	address := strings.TrimPrefix(l.url, "http://")
	address, _, _ = strings.Cut(address, "/")
	head := "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\nX: " + strings.Repeat("x", 50<<10)
	for range 60 {
		c, err := net.DialTimeout("tcp", address, testenv.Quiet(5*time.Second))
		if err != nil {
			return
		}
		open = append(open, c)
		_ = c.SetDeadline(time.Now().Add(testenv.Quiet(5 * time.Second)))
		if _, err := io.WriteString(c, head); err != nil {
			return
		}
	}
	<-l.ctx.Done()
}

// largeFromPipe gets large answers of a server on stdio.
func (l *load) largeFromPipe(token string) {
	c := l.client(token)
	var all sync.WaitGroup
	all.Go(func() { l.until(3, func() { l.note(c.post(l.ctx, loadCall("pipe__get", `{"bytes":9000000}`))) }) })
	all.Go(func() { l.until(1, func() { l.note(c.post(l.ctx, loadCall("pipe__get", `{"bytes":60000000}`))) }) })
	all.Wait()
}
