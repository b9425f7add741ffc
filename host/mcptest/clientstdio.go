package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// NewStdio returns a client that reads lines from in and writes lines to out. The client closes
// both.
func NewStdio(in io.ReadCloser, out io.WriteCloser, opts ClientOptions) *Client {
	c := newClient(opts)
	c.link = &stdioLink{in: in, out: out}
	c.work.Go(func() {
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			c.waitWhilePaused()
			line, err := r.ReadBytes('\n')
			whole := err == nil || errors.Is(err, io.EOF) // else we have stopped reading in the middle
			if line = bytes.TrimSpace(line); len(line) > 0 && whole {
				c.received("stdio", line)
			}
			if err != nil {
				c.end(ErrEnded)
				return
			}
		}
	})
	return c
}

type stdioLink struct {
	in  io.ReadCloser
	out io.WriteCloser
	mu  sync.Mutex // serializes messages
}

func (l *stdioLink) send(raw []byte, _ wire.Message, _ func(error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.out.Write(append(raw[:len(raw):len(raw)], '\n'))
	return err
}

func (l *stdioLink) close(context.Context) error { return l.out.Close() }

func (l *stdioLink) drop() { _ = errors.Join(l.out.Close(), l.in.Close()) }
