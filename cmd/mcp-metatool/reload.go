package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func reloadCommand() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make running servers read their configuration again; exit code 1 if one refuses",
		Long: `Make running mcp-metatool servers read their configuration again, and print what each
of them has changed, or why it keeps its old configuration.

This affects all servers (see serve) with the same store, each with its own
configuration; with --config, only those that were started with that file.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return reload(cmd.Context(), s, cmd.OutOrStdout()) },
	}
	s.addFlags(cmd, silent) // there is nothing to log
	return cmd
}

func reload(ctx context.Context, s *settings, w io.Writer) error {
	opts := config.LoadOptions{Policies: compile.Policy, Context: ctx, Flag: s.config}
	cfg, broken := s.load() // running servers report it too
	store := config.StoreDir(opts)
	if broken == nil {
		store = cfg.Store.Dir
	}
	if store == "" {
		return broken
	}
	run, err := openRunDir(store, false)
	if errors.Is(err, fs.ErrNotExist) { // no server has ever run
		return noServer(broken, filepath.Join(store, controlDir))
	}
	if err != nil {
		return &exitError{exitUsage, err}
	}
	defer run.close()
	ran, failed := 0, 0
	for _, name := range run.sockets() {
		answer, err := run.ask(ctx, name, controlRequest{Config: absolute(s.config)})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && serverEnded(err):
			continue // it was killed
		case err != nil:
			ran, failed = ran+1, failed+1
			fmt.Fprintf(w, "%s: no answer: %s\n", display.Text(filepath.Join(run.path, name)), display.Text(err.Error()))
			continue
		case answer.Reload == nil:
			continue
		}
		ran++
		if len(answer.Reload.Problems) > 0 {
			failed++
		}
		if err := answer.write(w); err != nil {
			return err
		}
	}
	if unlock, err := run.lock(); err == nil {
		run.sweep()
		unlock()
	}
	switch {
	case ran == 0:
		return noServer(broken, run.path)
	case failed > 0:
		return &exitError{exitFailed, fmt.Errorf("%d of %d servers keep their old configuration", failed, ran)}
	}
	return nil
}

// noServer returns the error for when no server was found. It includes what is wrong
// with the configuration.
func noServer(broken error, run string) error {
	if broken != nil {
		return broken
	}
	return &exitError{exitUsage, fmt.Errorf("no server runs with this configuration (looked in %s)", run)}
}

// write prints the response of a server.
func (a controlResponse) write(w io.Writer) error {
	name := a.Config
	if name == "" {
		name = "no configuration file"
	}
	what, lines := "reloaded", a.Reload.Changes
	switch {
	case len(a.Reload.Problems) > 0:
		what, lines = "not reloaded", a.Reload.Problems
	case len(lines) == 0:
		what = "nothing has changed"
	}
	_, err := fmt.Fprintf(w, "server %d, %s: %s\n", a.PID, display.Text(name), what)
	for _, line := range lines {
		fmt.Fprintf(w, "  %s\n", display.Text(line))
	}
	for _, line := range a.Reload.Warnings {
		fmt.Fprintf(w, "  warning: %s\n", display.Text(line))
	}
	return err
}
