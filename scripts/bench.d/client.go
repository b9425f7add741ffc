package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// client is what calls are made with. Its methods are safe for concurrent use.
type client interface {
	// request gives the raw answer. params are raw JSON.
	request(method, params string) ([]byte, error)
	// notify sends a notification without params.
	notify(method string) error
	// close ends the session, and what belongs to the client.
	close() error
}

func initialize(c client) error {
	_, err := c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	if err == nil {
		err = c.notify("notifications/initialized")
	}
	return err
}

// call calls a tool and fails unless the answer holds want.
func call(c client, params, want string) error {
	answer, err := c.request("tools/call", params)
	if err != nil {
		return err
	}
	// Decoding would cost more than what is measured.
	if !bytes.Contains(answer, []byte(want)) || bytes.Contains(answer, []byte(`"isError":true`)) {
		return fmt.Errorf("answer to %s: %s", params, answer)
	}
	return nil
}

// needTool fails unless a tool is listed.
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

// lineClient speaks lines with a process or, in tests, with whatever there is.
type lineClient struct {
	in     io.WriteCloser
	cmd    *exec.Cmd // nil in tests
	stderr bytes.Buffer
	read   chan struct{} // closed when the server has hung up

	writing sync.Mutex // not mu: a server may not read before its answers are read

	mu      sync.Mutex
	nextID  int
	waiting map[int]chan []byte // nil when the server has hung up
	err     error               // why it has
}

func newLineClient(in io.WriteCloser, out io.Reader) *lineClient {
	c := &lineClient{in: in, read: make(chan struct{}), waiting: map[int]chan []byte{}}
	go c.receive(out)
	return c
}

// start starts a server and gives the time until it has answered initialize.
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
	c := &lineClient{in: in, cmd: cmd, read: make(chan struct{}), waiting: map[int]chan []byte{}}
	cmd.Stderr = &c.stderr
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	go c.receive(out)
	if err := initialize(c); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("%s: %w", command, err), c.close())
	}
	return c, time.Since(began), nil
}

// receive hands out answers until there are no more. What is no answer to a
// request of ours is left out.
func (c *lineClient) receive(out io.Reader) {
	defer close(c.read)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := lines.Bytes()
		id, ok := idOf(line)
		if !ok {
			continue
		}
		c.mu.Lock()
		answer := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if answer != nil {
			answer <- bytes.Clone(line)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = errors.Join(errors.New("the server hung up"), lines.Err())
	for _, answer := range c.waiting {
		close(answer)
	}
	c.waiting = nil
}

// idOf finds the id of a message without decoding it: the first member of that
// name that is a number. The answers measured here have no other.
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

func (c *lineClient) request(method, params string) ([]byte, error) {
	answer := make(chan []byte, 1)
	c.mu.Lock()
	if c.waiting == nil {
		defer c.mu.Unlock()
		return nil, c.err
	}
	c.nextID++
	id := c.nextID
	c.waiting[id] = answer
	c.mu.Unlock()
	if err := c.write(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
		return nil, err
	}
	if line, ok := <-answer; ok {
		return line, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return nil, c.err
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

// close hangs up and waits for the server to end.
func (c *lineClient) close() error {
	err := c.in.Close()
	<-c.read
	if c.cmd == nil {
		return err
	}
	if waited := c.cmd.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("%w: %s", waited, &c.stderr))
	}
	return err
}
