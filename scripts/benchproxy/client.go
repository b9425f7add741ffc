package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// client makes requests in a session. The methods are safe for concurrent use.
type client interface {
	// request returns the raw answer. params are raw JSON.
	request(method, params string) ([]byte, error)
	// notify sends a notification without params.
	notify(method string) error
	// close ends the session and releases the client's resources.
	close() error
}

func initialize(c client) error {
	_, err := c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	if err == nil {
		err = c.notify("notifications/initialized")
	}
	return err
}

// call calls a tool, and returns an error unless the answer contains want.
func call(c client, params, want string) error {
	answer, err := c.request("tools/call", params)
	if err != nil {
		return err
	}
	// Decoding would cost more than the measured call.
	if !bytes.Contains(answer, []byte(want)) || bytes.Contains(answer, []byte(`"isError":true`)) {
		return fmt.Errorf("answer to %s: %s", params, answer)
	}
	return nil
}

// needTool returns an error unless a tool is listed.
func needTool(c client, name string) error {
	answer, err := c.request("tools/list", "{}")
	if err != nil {
		return err
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return err
	}
	if !bytes.Contains(answer, quoted) {
		return fmt.Errorf("tools/list has no %s: %.300s", name, answer)
	}
	return nil
}

// lineClient exchanges lines with a process, or in tests with any reader and writer. No goroutine
// reads for the callers: one of the callers waiting for an answer does. So a single call does not
// pay for passing the answer to another goroutine.
type lineClient struct {
	in      io.WriteCloser
	cmd     *exec.Cmd // nil in tests
	stderr  bytes.Buffer
	writing sync.Mutex
	reading chan struct{}  // full while a caller reads
	out     *bufio.Scanner // used only by the caller that reads

	mu      sync.Mutex
	nextID  int
	waiting map[int]chan []byte
}

func newLineClient(in io.WriteCloser, out io.Reader) *lineClient {
	c := &lineClient{in: in, out: bufio.NewScanner(out), reading: make(chan struct{}, 1), waiting: map[int]chan []byte{}}
	c.out.Buffer(nil, maxLine)
	return c
}

// start starts a server, and returns the time until the server answered initialize.
func start(ctx context.Context, env []string, command string, args ...string) (*lineClient, time.Duration, error) {
	began := time.Now()
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Env = append(os.Environ(), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	c := newLineClient(in, out)
	c.cmd, cmd.Stderr = cmd, &c.stderr
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	if err := initialize(c); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("%s: %w", command, err), c.close())
	}
	return c, time.Since(began), nil
}

func (c *lineClient) request(method, params string) ([]byte, error) {
	answer := make(chan []byte, 1)
	c.mu.Lock()
	c.nextID++
	id := c.nextID
	c.waiting[id] = answer
	c.mu.Unlock()
	if err := c.write(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
		return nil, err
	}
	select {
	case line := <-answer:
		return line, nil
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
		return c.read(answer)
	}
}

// read delivers answers to their callers until own has an answer, and ignores all other messages.
func (c *lineClient) read(own chan []byte) ([]byte, error) {
	for {
		select {
		case line := <-own:
			return line, nil
		default:
		}
		if !c.out.Scan() {
			return nil, errors.Join(errors.New("the server closed its output"), c.out.Err())
		}
		id, ok := idOf(c.out.Bytes())
		if !ok {
			continue
		}
		c.mu.Lock()
		answer := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if answer != nil {
			answer <- bytes.Clone(c.out.Bytes())
		}
	}
}

func (c *lineClient) notify(method string) error {
	return c.write(`{"jsonrpc":"2.0","method":%q}`+"\n", method)
}

func (c *lineClient) write(format string, args ...any) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := fmt.Fprintf(c.in, format, args...)
	return err
}

// close closes the input of the server and waits for the end of the process. No request may be
// pending.
func (c *lineClient) close() error {
	err := c.in.Close()
	for c.out.Scan() {
		// The server may still be writing.
	}
	if c.cmd == nil {
		return errors.Join(err, c.out.Err())
	}
	if waited := c.cmd.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("%w: %s", waited, &c.stderr))
	}
	return err
}

// idOf finds the id of a message without decoding: the first member "id" with a number. The
// measured answers have no other such member.
func idOf(line []byte) (int, bool) {
	for found := true; found; {
		if _, line, found = bytes.Cut(line, []byte(`"id":`)); !found {
			break
		}
		digits := 0
		for digits < len(line) && '0' <= line[digits] && line[digits] <= '9' {
			digits++
		}
		if id, err := strconv.Atoi(string(line[:digits])); err == nil {
			return id, true
		}
	}
	return 0, false
}

// bodyReader reads the bodies of HTTP/1.1 responses without allocating.
type bodyReader struct {
	r    *bufio.Reader
	body []byte
}

// next returns the body of the next response, valid until the next call.
func (b *bodyReader) next() ([]byte, error) {
	status, length, err := b.header()
	if err != nil {
		return nil, err
	}
	b.body = b.body[:0]
	for chunked := length < 0; ; {
		if chunked {
			line, err := b.r.ReadSlice('\n')
			if err != nil {
				return nil, err
			}
			n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
			if err != nil {
				return nil, err
			}
			length = int(n)
		}
		if err := b.take(length); err != nil {
			return nil, err
		}
		if chunked {
			if _, err := b.r.Discard(len("\r\n")); err != nil {
				return nil, err
			}
		}
		if !chunked || length == 0 {
			break
		}
	}
	if status != 200 {
		return nil, fmt.Errorf("status %d: %s", status, b.body)
	}
	return b.body, nil
}

// header returns the status and the length of the body; -1 for a chunked body.
func (b *bodyReader) header() (status, length int, err error) {
	length = -1
	for {
		line, err := b.r.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return status, length, nil
		}
		if status == 0 {
			_, rest, _ := bytes.Cut(line, []byte(" "))
			status = number(rest)
		} else if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			length = number(bytes.TrimSpace(value))
		}
	}
}

func (b *bodyReader) take(n int) error {
	for n > 0 {
		part, err := b.r.Peek(min(n, b.r.Size()))
		if err != nil {
			return err
		}
		b.body = append(b.body, part...)
		n -= len(part)
		if _, err := b.r.Discard(len(part)); err != nil {
			return err
		}
	}
	return nil
}

// number returns the number at the start of a text.
func number(text []byte) int {
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// httpClient is a session over streamable HTTP, without a GET stream.
type httpClient struct {
	url     string
	first   sync.Once // the first response has the session id
	session string    // "" if the server has no sessions
	nextID  atomic.Int64
	http    http.Client
}

// openHTTP starts a session at an endpoint.
func openHTTP(url string) (*httpClient, error) {
	c := &httpClient{url: url}
	c.http.Transport = &http.Transport{MaxIdleConnsPerHost: concurrency, DisableCompression: true}
	c.http.Timeout = time.Minute
	return c, initialize(c)
}

func (c *httpClient) request(method, params string) ([]byte, error) {
	return c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.nextID.Add(1), method, params))
}

func (c *httpClient) notify(method string) error {
	_, err := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method))
	return err
}

// post returns the body of the response: JSON, or a stream of events that ends with the answer.
func (c *httpClient) post(message string) ([]byte, error) {
	req, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	answer, body, err := c.do(req)
	if err == nil {
		c.first.Do(func() { c.session = answer.Header.Get("Mcp-Session-Id") })
	}
	return body, err
}

func (c *httpClient) do(req *http.Request) (*http.Response, []byte, error) {
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxLine))
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s: %s", req.Method, answer.Status, body)
	}
	return answer, body, err
}

func (c *httpClient) close() error {
	defer c.http.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodDelete, c.url, nil)
	if err == nil {
		_, _, err = c.do(req)
	}
	return err
}

// listener is a process that serves HTTP.
type listener struct {
	cmd  *exec.Cmd
	url  string
	read chan struct{} // closed at the end of stderr
}

var serving = regexp.MustCompile(`serving MCP on (http:\S+)`)

// listen starts a process and waits until the process writes its URL to stderr.
func listen(ctx context.Context, env []string, command string, args ...string) (*listener, error) {
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Env = append(os.Environ(), env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	l := &listener{cmd: cmd, read: make(chan struct{})}
	lines := bufio.NewScanner(stderr)
	var said []string
	for l.url == "" && lines.Scan() {
		said = append(said, lines.Text())
		if found := serving.FindStringSubmatch(lines.Text()); found != nil {
			l.url = found[1]
		}
	}
	go func() {
		defer close(l.read)
		for lines.Scan() {
			// Read on, so that the process does not block on a full pipe.
		}
	}()
	if l.url == "" {
		return nil, errors.Join(fmt.Errorf("%s does not serve: %s", command, strings.Join(said, "\n")), l.close())
	}
	return l, nil
}

func (l *listener) close() error {
	err := l.cmd.Process.Signal(syscall.SIGTERM)
	<-l.read
	return errors.Join(err, l.cmd.Wait())
}
