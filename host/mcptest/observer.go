package mcptest

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"sync"
)

// Observer records the messages that servers in other processes receive. Each process is a stream
// of the Log, "process 1" and so on. The first entry of a stream is "started"; "ended" is added
// once the process has ended.
type Observer struct {
	Log Log

	listener net.Listener
	work     sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

// NewObserver listens on a local port. The caller must Close the Observer.
func NewObserver() (*Observer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &Observer{listener: l}
	o.work.Go(o.accept)
	return o, nil
}

// Addr returns the address for ServerOptions.Observer.
func (o *Observer) Addr() string { return o.listener.Addr().String() }

// Close stops listening and waits for the Observer's goroutines, but not for the processes.
func (o *Observer) Close() {
	_ = o.listener.Close()
	o.mu.Lock()
	for _, c := range o.conns {
		_ = c.Close()
	}
	o.mu.Unlock()
	o.work.Wait()
}

func (o *Observer) accept() {
	for n := 1; ; n++ {
		conn, err := o.listener.Accept()
		if err != nil {
			return
		}
		o.mu.Lock()
		o.conns = append(o.conns, conn)
		o.mu.Unlock()
		name := fmt.Sprintf("process %d", n)
		o.Log.add(name, []byte("started"), nil)
		o.work.Go(func() {
			lines(bufio.NewReader(conn), func(line []byte) {
				o.Log.add(name, line, nil)
				_, _ = conn.Write([]byte{0}) // the server waits for this byte
			})
			o.Log.add(name, []byte("ended"), nil)
			_ = conn.Close()
		})
	}
}

// lines calls f with each line that is not blank, without surrounding space. f may keep the line.
func lines(r *bufio.Reader, f func([]byte)) {
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			f(line)
		}
		if err != nil {
			return
		}
	}
}
