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
	"time"
)

// client has one request in flight at a time. It is not safe for concurrent use.
type client struct {
	in     io.WriteCloser
	out    *bufio.Scanner
	nextID int
	cmd    *exec.Cmd // nil in tests
	stderr *bytes.Buffer
}

func newClient(in io.WriteCloser, out io.Reader) *client {
	c := &client{in: in, out: bufio.NewScanner(out)}
	c.out.Buffer(nil, maxLine)
	return c
}

// start starts a server and gives the time until it has answered initialize.
func start(ctx context.Context, env []string, command string, args ...string) (*client, time.Duration, error) {
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
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	c := newClient(in, out)
	c.cmd, c.stderr = cmd, &stderr
	if err := c.initialize(); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("%s: %w", command, err), c.close())
	}
	return c, time.Since(began), nil
}

func (c *client) initialize() error {
	_, err := c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	if err == nil {
		_, err = io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	return err
}

// request gives the raw answer, which is valid until the next request. params
// are raw JSON.
func (c *client) request(method, params string) ([]byte, error) {
	c.nextID++
	id := fmt.Sprintf(`%d`, c.nextID)
	_, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, method, params)
	if err != nil {
		return nil, err
	}
	for c.out.Scan() {
		line := c.out.Bytes()
		// Decoding would cost more than what is measured, and nothing but the
		// response has this id.
		if bytes.Contains(line, []byte(`"id":`+id+`,`)) || bytes.Contains(line, []byte(`"id":`+id+`}`)) {
			return line, nil
		}
	}
	return nil, errors.Join(errors.New("the server hung up"), c.out.Err())
}

// call calls a tool and fails unless the answer holds want.
func (c *client) call(params, want string) error {
	line, err := c.request("tools/call", params)
	if err != nil {
		return err
	}
	if !bytes.Contains(line, []byte(want)) || bytes.Contains(line, []byte(`"isError":true`)) {
		return fmt.Errorf("answer to %s: %s", params, line)
	}
	return nil
}

// waitForTool lists tools until one is there.
func (c *client) waitForTool(name string) error {
	line, err := c.request("tools/list", "{}")
	if err != nil {
		return err
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return err
	}
	if !bytes.Contains(line, quoted) {
		return fmt.Errorf("tools/list has no %s: %.300s", name, line)
	}
	return nil
}

// close hangs up and waits for the server to end.
func (c *client) close() error {
	err := c.in.Close()
	for c.out.Scan() {
		// The server may be writing still.
	}
	if c.cmd == nil {
		return errors.Join(err, c.out.Err())
	}
	if waited := c.cmd.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("%w: %s", waited, c.stderr))
	}
	return err
}
