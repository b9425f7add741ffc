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
