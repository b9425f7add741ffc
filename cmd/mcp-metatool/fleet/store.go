package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/store/migrate"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// storageCommand works on the store. store starts no server, and needs no running proxy.
func storageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Copy saved tools and runs between files and NATS",
		Args:  cli.OnlyVerbs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage(errors.New("store: the verb is: store copy --from files --to nats, or the other way round"))
		},
	}
	cmd.AddCommand(storeCopyCommand())
	return cmd
}

// The places of store copy.
const (
	placeFiles = "files"
	placeNATS  = "nats"
)

// connectTime is how long store copy waits for NATS.
const connectTime = 30 * time.Second

// storeCopy is the verb store copy.
type storeCopy struct {
	cli.Settings
	cli.Consent
	from, to string
	asJSON   bool
}

func storeCopyCommand() *cobra.Command {
	c := &storeCopy{}
	cmd := &cobra.Command{
		Use:   "copy",
		Short: "Copy saved tools, their history and the journal between files and NATS",
		Long: `Copy saved tools, their history and the journal from the files of the configuration to
its NATS servers (nats in [store]), or the other way round. What is there already stays as
it is, and what is there with another content is listed: then the exit code is 1. Everything
that was copied is read again and compared.

Runs that have not ended are not copied, nor is what concerns servers and clients in between:
approvals, plans, pins, and what servers have listed. Let durable runs end before.

Nothing is removed. Copy while no mcp-metatool runs: what is written at the same time may
be left out.`,
		Example: `  mcp-metatool store copy --from files --to nats --dry-run
  mcp-metatool store copy --from nats --to files --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.Settings.AddFlags(cmd, slog.LevelWarn)
	c.Consent.AddFlags(cmd)
	cmd.Flags().StringVar(&c.from, "from", "", "copy from this `PLACE`: files or nats")
	cmd.Flags().StringVar(&c.to, "to", "", "copy to this `PLACE`: nats or files")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	for _, flag := range []string{"from", "to"} {
		cli.CompleteFlag(cmd, flag, cli.OneOf(placeFiles, placeNATS))
	}
	return cmd
}

func (c *storeCopy) run(cmd *cobra.Command) (err error) {
	if !(c.from == placeFiles && c.to == placeNATS) && !(c.from == placeNATS && c.to == placeFiles) {
		return cli.Usage(errors.New("store copy: --from and --to are files and nats, or nats and files"))
	}
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	c.Begin(cmd)
	ctx, log := cmd.Context(), c.Logger(cfg)
	connect, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	fleet, err := host.OpenFleet(connect, cfg, log)
	if errors.Is(err, host.ErrNoFleet) {
		return cli.Usage(fmt.Errorf("store copy: %w", err))
	}
	if err != nil {
		return fmt.Errorf("store copy: %w", err)
	}
	defer fleet.Close()
	from, end := host.InFiles(cfg, log)
	defer func() {
		if closing := end(); err == nil {
			err = closing
		}
	}()
	to := migrate.End{Store: fleet}
	if c.from == placeNATS {
		from, to = to, from
	}
	options := migrate.Options{Collections: host.Copied(cfg), Runs: true, Fleet: cfg.Store.Prefix, Log: log, DryRun: true}
	r, err := migrate.Copy(ctx, from, to, options)
	if err != nil {
		return fmt.Errorf("store copy: %w", err)
	}
	todo := r.Documents.Copied + r.Runs.Copied + r.Calls.Copied
	if c.DryRun || todo == 0 {
		return c.report(cmd, r, c.DryRun)
	}
	if !c.Yes {
		if c.Asker == nil {
			return cli.Usage(errors.New("store copy: nothing was written: there is no terminal to ask on (--yes writes without asking, --dry-run only shows what would be copied)"))
		}
		yes, err := c.Asker.Confirm(ctx, fmt.Sprintf("Copy %d tools and versions, %d runs and %d calls from %s to %s?", r.Documents.Copied, r.Runs.Copied, r.Calls.Copied, c.from, c.to))
		if err != nil {
			return err
		}
		if !yes {
			return cli.Failed(nil)
		}
	}
	options.DryRun = false
	if r, err = migrate.Copy(ctx, from, to, options); err != nil {
		return fmt.Errorf("store copy: %w (%d tools and versions, %d runs and %d calls were copied; run it again to go on)", err, r.Documents.Copied, r.Runs.Copied, r.Calls.Copied)
	}
	return c.report(cmd, r, false)
}

// report prints the result of a copy or of a dry run.
func (c *storeCopy) report(cmd *cobra.Command, r migrate.Report, dry bool) error {
	different := slices.Concat(r.Documents.Different, r.Runs.Different, r.Calls.Different)
	var err error
	if c.asJSON {
		err = cli.WriteJSON(cmd.OutOrStdout(), map[string]any{"dryRun": dry, "tools": countJSON(r.Documents), "runs": countJSON(r.Runs), "calls": countJSON(r.Calls)})
	} else {
		err = printCopy(cmd.OutOrStdout(), r, dry, different)
	}
	if err == nil && len(different) > 0 {
		err = cli.Failed(nil)
	}
	return err
}

func countJSON(c migrate.Count) map[string]any {
	different := c.Different
	if different == nil {
		different = []string{}
	}
	return map[string]any{"copied": c.Copied, "same": c.Same, "different": different}
}

func printCopy(w io.Writer, r migrate.Report, dry bool, different []string) error {
	verb := "copied"
	if dry {
		verb = "would be copied"
	}
	_, err := fmt.Fprintf(w, "%d tools and versions %s, %d are there already\n%d runs %s, %d are there already\n%d calls without a script %s, %d are there already\n",
		r.Documents.Copied, verb, r.Documents.Same, r.Runs.Copied, verb, r.Runs.Same, r.Calls.Copied, verb, r.Calls.Same)
	for _, what := range different {
		if err == nil {
			_, err = fmt.Fprintf(w, "%s: is there with another content, which stays\n", display.EscapeLine(what))
		}
	}
	return err
}
