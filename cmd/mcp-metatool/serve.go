package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
)

func serveCommand(use string) *cobra.Command {
	s, f := &settings{}, &frontFlags{}
	cmd := &cobra.Command{
		Use:   use,
		Short: "Serve MCP on standard input and output (also without a verb), or over HTTP",
		Args:  f.takeAddress,
		RunE:  func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), s, f) },
	}
	s.addFlags(cmd, slog.LevelInfo)
	f.add(cmd)
	return cmd
}

const terminalHint = `This is an MCP server: it reads JSON-RPC messages from standard input, one a line,
and is meant to be started by an MCP host. To register it, for instance:
  claude mcp add metatool -- mcp-metatool --config FILE
To see what it does: mcp-metatool demo. To end it: Ctrl-D.
`

// serve runs a front end until it ends. A signal is not an error, and neither is a client
// that closes standard input.
func serve(ctx context.Context, s *settings, f *frontFlags) error {
	r := newReloader(s, f)
	defer onHangup(ctx, r.hangup)()
	cfg, err := r.load()
	if err != nil {
		return err
	}
	if err := supervise.CheckNested(cfg); err != nil {
		return &exitError{exitUsage, err}
	}
	log := s.logger(cfg)
	if cfg.Path == "" {
		log.Warn("no configuration file, so there are no upstream servers", "looked_for", cfg.Searched)
	}
	for _, p := range cfg.LeftOut() {
		log.Error("an upstream is left out", "err", p.Error())
	}
	if f.http.on {
		err = serveHTTP(ctx, cfg, log, f, r)
	} else {
		err = serveStdio(ctx, cfg, log, r)
	}
	if errors.Is(err, errDrained) {
		log.Info("ended", "reason", err)
		return nil
	}
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errSignal) { // the signal is the cause of any failure
		log.Info("ended", "reason", cause)
		return nil
	}
	return err
}

// input is standard input without Close, because a read of it cannot be interrupted. If
// the terminal is closed, the input ends without an error.
type input struct{}

func (input) Read(p []byte) (int, error) {
	n, err := os.Stdin.Read(p)
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

// serveStdio runs one session on standard input and output.
func serveStdio(ctx context.Context, cfg *config.Config, log *slog.Logger, r *reloader) error {
	if isTerminal(os.Stdin) {
		fmt.Fprint(os.Stderr, terminalHint)
	}
	return r.withHost(ctx, cfg, log, host.OneClient, func(ctx context.Context, h *host.Host) error {
		return h.Serve(ctx, input{}, os.Stdout)
	})
}
