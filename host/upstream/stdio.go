package upstream

import (
	"context"
	"sync"
	"time"
)

// stdioLink is the link to a process of ours.
type stdioLink struct {
	*Conn
	process *process

	wg   sync.WaitGroup
	done chan struct{}
	err  error // set before done is closed
}

func dialStdio(spec Spec, opts linkOptions) (link, error) {
	p, err := startProcess(spec, opts.log, opts.lines)
	if err != nil {
		return nil, err
	}
	l := &stdioLink{process: p, done: make(chan struct{})}
	l.Conn = newConn(&output{file: p.stdout}, p.stdin, ConnOptions{
		Name:           spec.Name,
		MaxMessage:     spec.MaxMessage,
		Budget:         opts.budget,
		OnNotification: opts.onNotification,
		OnRequest:      opts.onRequest,
		OnGarbage:      opts.onGarbage,
		allowance:      opts.allowance,
		ended:          p.exited,
		describe:       p.describe,
	}, opts.log)
	l.wg.Go(l.watch)
	return l, nil
}

// watch waits for the end of the stream in either direction: a server that
// reads no more is as good as gone, even if it still writes.
func (l *stdioLink) watch() {
	defer close(l.done)
	select {
	case <-l.Conn.Done():
		l.err = l.Conn.Err()
	case <-l.out.done:
		l.err = l.unsent(context.Background(), errUnsent)
	}
}

func (l *stdioLink) Done() <-chan struct{} { return l.done }

func (l *stdioLink) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return l.Conn.Err()
	}
}

func (l *stdioLink) pid() int { return l.process.pid }

func (l *stdioLink) lastWords() []string { return l.process.lastLines() }

func (l *stdioLink) shutDown(grace time.Duration, kill <-chan struct{}) {
	l.process.shutDown(l.Conn, grace, kill)
	l.wg.Wait()
}
