package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
)

func serveCommand(use string) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   use,
		Short: "Serve MCP on standard input and output (also without a verb)",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), s) },
	}
	s.addFlags(cmd, slog.LevelInfo)
	return cmd
}

const terminalHint = `This is an MCP server: it reads JSON-RPC messages from standard input, one a line,
and is meant to be started by an MCP host. To register it, for instance:
  claude mcp add metatool -- mcp-metatool --config FILE
To see what it does: mcp-metatool demo. To end it: Ctrl-D.
`

// serve runs one session on standard input and output. Its end is orderly for
// a client that hangs up and for a signal.
func serve(ctx context.Context, s *settings) error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	log := s.logger(cfg)
	if isTerminal(os.Stdin) {
		fmt.Fprint(os.Stderr, terminalHint)
	}
	if cfg.Path == "" {
		log.Warn("no configuration file, so there are no upstream servers", "looked_for", cfg.Searched)
	}
	err = withHost(ctx, cfg, log, func(ctx context.Context, h *host.Host) error {
		// Without Close: a read of standard input cannot be interrupted.
		return h.Serve(ctx, struct{ io.Reader }{os.Stdin}, os.Stdout)
	})
	if errors.Is(err, errSignal) {
		log.Info("ended", "reason", err)
		return nil
	}
	return err
}
