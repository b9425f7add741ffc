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
// There is no goroutine that reads: of those that wait for an answer one does,
// so that a call that is alone is not slowed down by handing its answer over.
type lineClient struct {
	in      io.WriteCloser
	cmd     *exec.Cmd // nil in tests
	stderr  bytes.Buffer
	writing sync.Mutex
	reading chan struct{}  // full while somebody reads
	out     *bufio.Scanner // of who reads

	mu      sync.Mutex
	nextID  int
	waiting map[int]chan []byte
}

func newLineClient(in io.WriteCloser, out io.Reader) *lineClient {
	c := &lineClient{in: in, out: bufio.NewScanner(out), reading: make(chan struct{}, 1), waiting: map[int]chan []byte{}}
	c.out.Buffer(nil, maxLine)
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

// read hands out answers until there is one on a channel. What is no answer to a
// request of ours is left out.
func (c *lineClient) read(own chan []byte) ([]byte, error) {
	for {
		select {
		case line := <-own:
			return line, nil
		default:
		}
		if !c.out.Scan() {
			return nil, errors.Join(errors.New("the server hung up"), c.out.Err())
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

// close hangs up and waits for the server to end. No request may be under way.
func (c *lineClient) close() error {
	err := c.in.Close()
	for c.out.Scan() {
		// The server may be writing still.
	}
	if c.cmd == nil {
		return errors.Join(err, c.out.Err())
	}
	if waited := c.cmd.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("%w: %s", waited, &c.stderr))
	}
	return err
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
