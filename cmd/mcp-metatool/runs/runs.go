// Package runs has the verbs that make runs and look at them: run, plan and apply, runs, replay,
// verify, approvals, flow and policy. A runsView reads the journal with the flags that the verbs share.
package runs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Commands returns the verbs about runs.
func Commands() []*cobra.Command {
	return []*cobra.Command{runCommand(), planCommand(), applyCommand(), runsCommand(), replayCommand(), verifyCommand(), approvalsCommand(), flowCommand(), policyCommand()}
}

// runs offers the newest runs of the journal.
func (v *runsView) runs(ctx context.Context, _ []string) []string {
	const most = 30
	dir := v.dir
	if dir == "" {
		dir = v.Known(ctx).JournalDir()
	}
	names := []string{"last\tthe newest run"}
	for rec, err := range journal.Scan(ctx, dir, journal.Filter{Limit: most}) {
		if err == nil {
			names = append(names, cli.ShortRun(rec.ID)+"\t"+rec.Definition.Name+" "+rec.OutcomeName()+" "+cli.Stamp(rec.Start))
		}
	}
	return names
}

// runsCommand reads the journal. Only resume starts something.
func runsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List, show, compare and follow the runs of composite tools, and go on with durable ones",
		Args:  cli.OnlyVerbs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usage(errors.New("runs: choose one of: runs list, runs show RUN, runs stats, runs diff A B, runs tail, runs export RUN, runs resume RUN, runs cancel RUN"))
		},
	}
	cmd.AddCommand(runsListCommand(), runsShowCommand(), runsStatsCommand(), runsDiffCommand(), runsTailCommand(), runsExportCommand(), runsResumeCommand(), runsCancelCommand())
	return cmd
}

// runsView holds the common parts of the verbs of runs.
type runsView struct {
	cli.Settings
	dir                 string
	journal             journal.Reader
	close               func() // of journal; nil before open
	asJSON, proxied     bool
	tool, server, token string
	outcome             string
	failed              bool
	since, until        string
	limit               int
	stdout              *bufio.Writer
	stderr              io.Writer
	skipped             map[skippedLine]bool
	shownErrors         int
	missing             atomic.Bool // runs of other replicas cannot be read
}

// skippedLine is an unreadable line of the journal. Searches for runs and for calls read the same
// files, so both find the line.
type skippedLine struct {
	file   string
	offset int64
}

func (v *runsView) addFlags(cmd *cobra.Command) {
	v.Settings.AddFlags(cmd, slog.LevelError)
	f := cmd.Flags()
	f.StringVar(&v.dir, "dir", "", "read the journal in `DIR` (default: that of the configuration)")
	f.BoolVar(&v.asJSON, "json", false, "print JSON")
}

func (v *runsView) addFilter(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&v.tool, "tool", "", "only runs of the tool `NAME`")
	f.StringVar(&v.outcome, "outcome", "", "only runs with this outcome: ok, asks, error (any), unfinished, or a `CLASS` of error such as timeout")
	f.BoolVar(&v.failed, "failed", false, "only runs that ended with an error, like --outcome error")
	f.StringVar(&v.server, "server", "", "only runs that called the server `NAME`, also through other saved tools")
	f.StringVar(&v.token, "token", "", "only runs of clients with the token `NAME`")
	cmd.MarkFlagsMutuallyExclusive("failed", "outcome")
	cli.CompleteFlag(cmd, "server", v.Servers)
	cli.CompleteFlag(cmd, "token", v.Tokens)
	cli.CompleteFlag(cmd, "tool", v.EverSaved)
	cli.CompleteFlag(cmd, "outcome", cli.OneOf(append([]string{journal.OK, journal.Asks, anyError, journal.Unfinished}, cli.ErrorClasses...)...))
}

// addPeriod adds the flags for the time in which runs began.
func (v *runsView) addPeriod(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&v.since, "since", "", "only runs that began at this `TIME` or later: 2h, 7d, 2026-11-21, 2026-11-21T15:04:05Z")
	f.StringVar(&v.until, "until", "", "only runs that began before this `TIME`")
}

// open finds the journal.
func (v *runsView) open(cmd *cobra.Command) error {
	v.stdout, v.stderr = bufio.NewWriter(cmd.OutOrStdout()), cmd.ErrOrStderr()
	if v.failed {
		v.outcome = anyError
	}
	switch v.outcome {
	case "", anyError, journal.OK, journal.Asks, journal.Unfinished:
	default:
		if !cli.IsErrorClass(v.outcome) {
			return cli.Usage(fmt.Errorf("--outcome %s: not one of ok, asks, error, unfinished, %s", v.outcome, strings.Join(cli.ErrorClasses, ", ")))
		}
	}
	if v.close != nil {
		return nil
	}
	if v.dir != "" {
		if _, err := os.Stat(v.dir); err != nil {
			return cli.Usage(fmt.Errorf("--dir: %w", err))
		}
		v.journal, v.close = journal.Reader{Dir: v.dir}, func() {}
		return nil
	}
	cfg, err := v.Load()
	if err != nil {
		return err
	}
	v.dir = cfg.JournalDir()
	v.journal, v.close = host.OpenJournal(cfg, v.Logger(cfg))
	return nil
}

// release releases the resources of open.
func (v *runsView) release() {
	if v.close != nil {
		v.close()
	}
}

// anyError stands for every class of error.
const anyError = "error"

// filter returns the filter that the flags describe.
func (v *runsView) filter(now time.Time) (journal.Filter, error) {
	f := journal.Filter{Tool: v.tool, Token: v.token} // chooses filters by outcome
	var err error
	if f.Since, err = parseMoment("--since", v.since, now); err != nil {
		return f, err
	}
	f.Until, err = parseMoment("--until", v.until, now)
	return f, err
}

// parseMoment parses a point in time: "" is none, a duration is before now. A time without a zone
// is local time, like the times in the output.
func parseMoment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05 -07:00", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if d, err := units.ParseDuration(days + "h"); err == nil {
			return now.Add(-24 * d), nil
		}
	}
	if d, err := units.ParseDuration(text); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, cli.Usage(fmt.Errorf("%s %s: not a time (write 2h, 7d, 2026-11-21 or 2026-11-21T15:04:05Z)", flag, text))
}

// chooses reports whether the flags select a run with the outcome.
func (v *runsView) chooses(outcome string) bool {
	switch v.outcome {
	case "":
		return true
	case anyError:
		return outcome != journal.OK && outcome != journal.Asks && outcome != journal.Unfinished
	}
	return outcome == v.outcome
}

// choosesRecord reports whether the flags select a run.
func (v *runsView) choosesRecord(rec *journal.Record) bool {
	return (v.tool == "" || rec.Definition.Name == v.tool) && (v.token == "" || rec.Client.Token == v.token) && v.chooses(rec.OutcomeName()) &&
		(v.server == "" || rec.Any(func(r *journal.Record) bool {
			return slices.ContainsFunc(r.Calls, func(c journal.CallRecord) bool { return c.Server == v.server })
		}))
}

// records yields the runs that the flags select, the newest first, until ctx ends.
func (v *runsView) records(ctx context.Context, f journal.Filter) iter.Seq[journal.Record] {
	return func(yield func(journal.Record) bool) {
		for rec, err := range v.journal.Scan(ctx, f) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				v.unreadable(err)
			} else if v.choosesRecord(&rec) && !yield(rec) {
				return
			}
		}
	}
}

// lastRounds is records without the runs that later runs continue. The flags need not select the
// later runs.
func (v *runsView) lastRounds(ctx context.Context, f journal.Filter) iter.Seq[journal.Record] {
	return func(yield func(journal.Record) bool) {
		continued := map[string]bool{} // the continuation of a run is read before the run
		for rec, err := range v.journal.Scan(ctx, journal.Filter{Since: f.Since}) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				v.unreadable(err)
				continue
			}
			early := f.Until.IsZero() || rec.Start.Before(f.Until)
			if early && !continued[rec.ID] && v.choosesRecord(&rec) && !yield(rec) {
				return
			}
			continued[rec.Continues] = true
		}
	}
}

// calls yields the calls without a script that the flags select, the newest first.
func (v *runsView) calls(ctx context.Context, f journal.Filter) iter.Seq[journal.Proxied] {
	return func(yield func(journal.Proxied) bool) {
		for p, err := range v.journal.ScanProxied(ctx, f) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				v.unreadable(err)
			} else if v.chooses(p.Outcome) && (v.server == "" || p.Server == v.server) && !yield(p) {
				return
			}
		}
	}
}

// unreadable notes an unreadable part of the journal.
func (v *runsView) unreadable(err error) {
	var line *journal.LineError
	if errors.As(err, &line) {
		if v.skipped == nil {
			v.skipped = map[skippedLine]bool{}
		}
		v.skipped[skippedLine{line.File, line.Offset}] = true
		return
	}
	cli.Complain(v.stderr, err)
	v.shownErrors++
}

// end reports the unreadable parts of the journal.
func (v *runsView) end() error {
	if err := v.stdout.Flush(); err != nil {
		return err
	}
	if len(v.skipped) > 0 {
		cli.Complain(v.stderr, fmt.Errorf("lines of the journal that were skipped because they are torn or damaged: %d", len(v.skipped)))
	}
	if v.shownErrors > 0 {
		return cli.Failed(nil)
	}
	return nil
}
