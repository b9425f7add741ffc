package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

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
