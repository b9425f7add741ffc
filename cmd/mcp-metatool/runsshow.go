package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/timeline"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

func runsShowCommand() *cobra.Command {
	v := &runsView{}
	var page string
	var whole bool
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: its calls over time, its log, how it ended",
		Long: `Show a run: its calls over time, its log, how it ended. RUN is an id or the
beginning of one, "last" for the newest run, or a file that --json has written.

With --json the run is printed as the journal has it, one event a line: such a
file can be replayed elsewhere (mcp-metatool replay).`,
		Example: `  mcp-metatool runs show last --calls
  mcp-metatool runs show 019aa0b0-1111 --html run.html
  mcp-metatool runs show 019aa0b0-1111 --json > run.jsonl`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return v.show(cmd, args[0], page, whole) },
	}
	v.addFlags(cmd)
	cmd.ValidArgsFunction = choices(v.runs).orFile
	cmd.Flags().StringVar(&page, "html", "", "write the run as a page to `FILE`, - for standard output; it needs no network")
	cmd.Flags().BoolVar(&whole, "calls", false, "show arguments, answers and the result whole")
	return cmd
}

func (v *runsView) show(cmd *cobra.Command, name, page string, whole bool) error {
	if v.asJSON && page != "" {
		return &exitError{exitUsage, errors.New("runs show: either --json or --html")}
	}
	rec, err := v.find(cmd, name)
	if err != nil {
		return err
	}
	switch {
	case v.asJSON:
		if err := journal.Encode(v.stdout, rec); err != nil {
			return err
		}
	case page == "-":
		if err := timeline.WriteHTML(v.stdout, &rec); err != nil {
			return err
		}
	case page != "":
		return writePage(page, &rec)
	default:
		if err := timeline.WriteText(v.stdout, &rec, timeline.TextOptions{Width: columns(cmd.OutOrStdout()), Whole: whole}); err != nil {
			return err
		}
	}
	return v.end()
}

// find finds the run that the command line names.
func (v *runsView) find(cmd *cobra.Command, name string) (journal.Record, error) {
	v.stdout, v.stderr = bufio.NewWriter(cmd.OutOrStdout()), cmd.ErrOrStderr()
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		f, err := regular.Open(name)
		if err != nil {
			return journal.Record{}, err
		}
		defer f.Close()
		rec, err := journal.Decode(f)
		if err != nil {
			return journal.Record{}, fmt.Errorf("%s: %w", name, err)
		}
		return rec, nil
	}
	if err := v.open(cmd); err != nil {
		return journal.Record{}, err
	}
	if name != "last" {
		return journal.Find(v.dir, name)
	}
	for rec, err := range journal.Scan(v.dir, journal.Filter{}) {
		if err == nil {
			return rec, nil
		}
		v.unreadable(err)
	}
	return journal.Record{}, fmt.Errorf("the journal in %s has no runs", v.dir)
}

// writePage writes the page of a run to a file that only the user may read, because it
// contains all data of the run.
func writePage(file string, rec *journal.Record) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(timeline.WriteHTML(w, rec), w.Flush(), f.Close())
}

func runsTailCommand() *cobra.Command {
	v := &runsView{}
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print runs as they end, until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return v.tail(cmd.Context(), cmd) },
	}
	v.addFlags(cmd)
	v.addFilter(cmd)
	cmd.Flags().IntVarP(&v.limit, "lines", "n", 10, "begin with the last `N` runs")
	return cmd
}

func (v *runsView) tail(ctx context.Context, cmd *cobra.Command) error {
	if err := v.open(cmd); err != nil {
		return err
	}
	t := &runTable{w: v.stdout, asJSON: v.asJSON}
	follow, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	shown := map[string]bool{} // runs that were printed or existed before
	show := func(rec *journal.Record) {
		if v.tool != "" && rec.Definition.Name != v.tool || !v.chooses(rec.OutcomeName()) {
			return
		}
		t.add(listedRecord(rec), 0)
		if err := v.stdout.Flush(); err != nil {
			stop(err)
		}
	}
	opts := journal.FollowOptions{Started: func() {
		for _, rec := range v.last(v.limit) {
			shown[rec.ID] = true
			show(&rec)
		}
	}}
	for rec, err := range journal.Follow(follow, v.dir, opts) {
		if err != nil {
			v.unreadable(err)
		} else if !shown[rec.ID] {
			show(&rec)
		}
	}
	return context.Cause(follow)
}

// last returns the last n runs that the flags select, the oldest first.
func (v *runsView) last(n int) []journal.Record {
	var runs []journal.Record
	for rec, err := range journal.Scan(v.dir, journal.Filter{Tool: v.tool}) {
		if len(runs) >= n {
			break
		}
		if err == nil && rec.Done && v.chooses(rec.OutcomeName()) {
			runs = append(runs, rec)
		}
	}
	slices.Reverse(runs)
	return runs
}
