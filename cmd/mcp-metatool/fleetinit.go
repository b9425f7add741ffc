package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// fleetInit is the verb fleet init.
type fleetInit struct {
	settings
	yes, asJSON bool
	wait        time.Duration
}

func fleetInitCommand() *cobra.Command {
	c := &fleetInit{}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the streams of the fleet that NATS does not have",
		Long: `Make those streams of the fleet in NATS that are not there, empty. Streams that are there stay
as they are.

A replica makes the streams of a new fleet by itself. It does not make streams again that it has
used before: it is not ready then, and waits until you have brought them back from a backup, or
run this command. What was in them stays lost: sessions, approvals, plans, pins, the records of
runs that replicas do not have in their files, and open runs of durable tools, of which nothing is
undone. The replicas go on without a restart.`,
		Example: `  mcp-metatool fleet init
  mcp-metatool fleet init --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.settings.addFlags(cmd, slog.LevelWarn)
	cmd.Flags().BoolVar(&c.yes, "yes", false, "make them without asking")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	cmd.Flags().DurationVar(&c.wait, "connect", 30*time.Second, "how long to wait for the store, at most")
	return cmd
}

func (c *fleetInit) run(cmd *cobra.Command) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if len(cfg.Store.NATS) == 0 {
		return &exitError{exitUsage, fmt.Errorf("fleet: %w", host.ErrNoFleet)}
	}
	ctx := cmd.Context()
	if !c.yes {
		asker := findAsker(cmd)
		if asker == nil {
			return &exitError{exitUsage, errors.New("fleet init: nothing was made: there is no terminal to ask on (--yes makes the streams without asking)")}
		}
		yes, err := asker.confirm(ctx, fmt.Sprintf("Make those streams of the fleet %s that NATS does not have, empty?", display.Line(cfg.Store.Prefix, 40)))
		if err != nil {
			return err
		}
		if !yes {
			return &exitError{code: exitFailed}
		}
	}
	connect, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	made, err := host.InitFleet(connect, cfg, c.logger(cfg))
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("fleet init: %w (%d streams were made)", err, len(made))}
	}
	if c.asJSON {
		return writeJSON(cmd.OutOrStdout(), map[string][]string{"made": append([]string{}, made...)})
	}
	if len(made) == 0 {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "all streams are there")
	}
	for _, name := range made {
		if err == nil {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "made %s\n", display.EscapeLine(name))
		}
	}
	return err
}
