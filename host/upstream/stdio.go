package upstream

import (
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/upstream/link"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/process"
)

// exitWait is process.Options.ExitWait. Tests set it.
var exitWait time.Duration

// stdioLink is the link to a subprocess.
type stdioLink struct {
	*Conn
	process *process.Process

	wg   sync.WaitGroup
	done chan struct{}
	err  error // set before done is closed
}

func dialStdio(spec Spec, opts linkOptions) (link.Link, error) {
	p, err := process.Start(process.Command{Name: spec.Command, Args: spec.Args, Env: spec.Env, Dir: spec.Dir}, process.Options{
		Log: opts.log, ExitWait: exitWait,
		Charge: func(bytes int, exited <-chan struct{}) { opts.lines.spend(bytes, exited, nil) },
	})
	if err != nil {
		return nil, err
	}
	l := &stdioLink{process: p, done: make(chan struct{})}
	l.Conn = newConn(p.Stdout(), p.Stdin(), ConnOptions{
		Name:           spec.Name,
		MaxMessage:     spec.MaxMessage,
		Budget:         opts.budget,
		OnNotification: opts.onNotification,
		OnRequest:      opts.onRequest,
		OnGarbage:      opts.onGarbage,
		allowance:      opts.allowance,
		serialIDs:      opts.serialIDs,
		ended:          p.Exited(),
		describe:       p.EndReason,
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
	case <-l.out.Done():
		l.err = l.rpc.Unwritten()
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

func (l *stdioLink) Pid() int { return l.process.Pid() }

func (l *stdioLink) StderrTail() []string { return l.process.StderrTail() }

func (l *stdioLink) Shutdown(grace time.Duration, kill <-chan struct{}) {
	l.closeWrite()
	l.process.Stop(grace, kill)
	<-l.Conn.Done() // after what the process still had to say
	l.Conn.Close()
	l.process.Release()
	l.wg.Wait()
}
