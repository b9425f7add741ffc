package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// converseHTTP runs a command that serves MCP over HTTP. When that has printed its
// address, converseHTTP exchanges messages with it, according to a file:
//
//	# comment
//	header NAME: VALUE  send this header with all later requests; without a value,
//	                    stop sending the header
//	> JSON              POST a message and read the answer; send the session and its
//	                    revision if they are known
//	start JSON          the same without waiting for the answer
//	get PATH            GET a path, and read only the status of the answer
//	delete              DELETE the session
//	status CODE         the last answer must have this status
//	answer NAME: TEXT   the last answer must have this header, which contains TEXT
//	< JSON              a message of the last answer must contain all of this
//	file NAME, signal NAME, exit CODE   as for converse
func converseHTTP(args []string) int {
	script, err := os.ReadFile(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Deadline(time.Minute))
	defer cancel()
	c := &httpConversation{ctx: ctx, cmd: exec.CommandContext(ctx, args[1], args[2:]...), header: http.Header{}}
	c.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // its certificate is of our making
	if err := c.start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for i, line := range strings.Split(string(script)+"\nexit 0", "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := c.step(line); err != nil {
			fmt.Fprintf(os.Stderr, "%s:%d: %s\n%v\n", args[0], i+1, line, err)
			_ = c.cmd.Process.Kill()
			_ = c.wait()
			return 1
		}
	}
	return 0
}

type httpConversation struct {
	ctx    context.Context
	cmd    *exec.Cmd
	url    string
	client http.Client
	header http.Header
	ended  bool

	background sync.WaitGroup // the command's stderr, and what start has started

	status   int
	answer   http.Header
	messages []any
}

var servingOn = regexp.MustCompile(`serving MCP on (\S+)`)

// start runs the command until it prints its address.
func (c *httpConversation) start() error {
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	where := make(chan string, 1)
	c.background.Go(func() {
		defer close(where)
		lines := bufio.NewScanner(stderr)
		for found := false; lines.Scan(); {
			fmt.Fprintln(os.Stderr, lines.Text())
			if match := servingOn.FindStringSubmatch(lines.Text()); match != nil && !found {
				found = true
				where <- match[1]
			}
		}
	})
	if c.url = <-where; c.url == "" {
		return fmt.Errorf("it does not serve: %w", c.wait())
	}
	return nil
}

func (c *httpConversation) wait() error {
	c.background.Wait()
	return c.cmd.Wait()
}

func (c *httpConversation) step(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case ">":
		return c.request(http.MethodPost, c.url, rest, true)
	case "start":
		return c.request(http.MethodPost, c.url, rest, false)
	case "get":
		address, err := url.Parse(c.url)
		if err != nil {
			return err
		}
		return c.request(http.MethodGet, address.ResolveReference(&url.URL{Path: rest}).String(), "", true)
	case "delete":
		return c.request(http.MethodDelete, c.url, "", true)
	case "header":
		name, value, _ := strings.Cut(rest, ":")
		if c.header.Del(name); strings.TrimSpace(value) != "" {
			c.header.Set(name, strings.TrimSpace(value))
		}
		return nil
	case "status":
		if rest != strconv.Itoa(c.status) {
			return fmt.Errorf("status %d, %v, %v", c.status, c.answer, c.messages)
		}
		return nil
	case "answer":
		name, value, _ := strings.Cut(rest, ":")
		if got := c.answer.Get(name); !strings.Contains(got, strings.TrimSpace(value)) || got == "" {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	case "<":
		return c.expect(rest)
	case "file":
		return awaitFile(rest)
	case "signal":
		return c.cmd.Process.Signal(map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT}[rest])
	case "exit":
		return c.exit(rest)
	}
	return errors.New("not understood")
}

// request makes a request, and reads the answer now or in the background.
func (c *httpConversation) request(method, address, body string, now bool) error {
	request, err := http.NewRequestWithContext(c.ctx, method, address, strings.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range c.header {
		request.Header[name] = values
		if name == "Host" {
			request.Host = values[0]
		}
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
	}
	if !now {
		c.background.Go(func() {
			if response, err := c.client.Do(request); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
		return nil
	}
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	c.status, c.answer, c.messages = response.StatusCode, response.Header, nil
	if id := response.Header.Get("Mcp-Session-Id"); id != "" {
		c.header.Set("Mcp-Session-Id", id)
		c.header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	if method == http.MethodGet {
		return nil
	}
	return c.read(response)
}

// read returns the messages of an answer: one, or one for each event.
func (c *httpConversation) read(response *http.Response) error {
	events := strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream")
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		text, isData := strings.CutPrefix(lines.Text(), "data:")
		if events && !isData || strings.TrimSpace(text) == "" {
			continue
		}
		msg, err := parse(text)
		switch {
		case err == nil:
			c.messages = append(c.messages, msg)
		case response.StatusCode < 300:
			return fmt.Errorf("the server wrote %q: %w", text, err)
		}
	}
	return lines.Err()
}

func (c *httpConversation) expect(text string) error {
	want, err := parse(text)
	if err != nil {
		return err
	}
	for _, got := range c.messages {
		if matches(want, got) {
			return nil
		}
	}
	return fmt.Errorf("it did not come; status %d, all there was:\n%v", c.status, c.messages)
}

// exit waits for the end of the command.
func (c *httpConversation) exit(code string) error {
	if c.ended {
		return nil
	}
	c.ended = true
	_ = c.wait()
	if got := strconv.Itoa(c.cmd.ProcessState.ExitCode()); got != code {
		return fmt.Errorf("exit code %s", got)
	}
	return nil
}
