package servers

import (
	"context"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/servers/legacysse"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/process"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stdio"
	"github.com/mcp-metatool/mcp-metatool/host/servers/streamable"
)

// subprocess is a link to a server process of ours.
type subprocess interface {
	Pid() int
	// StderrTail returns the last lines of the server's stderr.
	StderrTail() []string
}

// exitWait is process.Options.ExitWait, for tests.
var exitWait time.Duration

// dial starts the server of spec, or connects to the server, and returns a link ready for
// initialize. stderr limits the stderr of a subprocess. ctx is for dialing only. The error does not
// contain the name of the upstream.
func dial(ctx context.Context, spec Spec, opts link.Options, stderr *allowance) (link.Link, error) {
	switch spec.transport() {
	case TransportStdio:
		return dialStdio(spec, opts, stderr)
	case TransportHTTP:
		return dialHTTP(spec, opts)
	case TransportSSE:
		return dialSSE(ctx, spec, opts)
	}
	return nil, fmt.Errorf("unknown transport %q (use %s, %s or %s)", spec.Transport, TransportStdio, TransportHTTP, TransportSSE)
}

func dialStdio(spec Spec, opts link.Options, stderr *allowance) (link.Link, error) {
	command := process.Command{Name: spec.Command, Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Sandbox: spec.Sandbox, Own: spec.Own}
	l, err := stdio.Start(command, process.Options{
		Log: opts.Log, ExitWait: exitWait,
		Charge: func(bytes int, exited <-chan struct{}) { stderr.spend(bytes, exited, nil) },
	}, opts)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func dialHTTP(spec Spec, opts link.Options) (link.Link, error) {
	l, err := dialStreamable(spec, opts)
	if err != nil {
		return nil, err
	}
	if spec.Transport == "" {
		return newFallbackLink(spec, opts, l), nil
	}
	return l, nil
}

func dialStreamable(spec Spec, opts link.Options) (*streamable.Link, error) {
	client, err := spec.client()
	if err != nil {
		return nil, err
	}
	return streamable.New(client, opts), nil
}

func dialSSE(ctx context.Context, spec Spec, opts link.Options) (link.Link, error) {
	client, err := spec.client()
	if err != nil {
		return nil, err
	}
	l, err := legacysse.Dial(ctx, client, opts)
	if err != nil {
		return nil, err
	}
	return l, nil
}
