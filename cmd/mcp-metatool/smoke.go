package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/smoke"
	reports "github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// smokeCommand runs the checks in files.
func smokeCommand() *cobra.Command {
	v := &smokeView{}
	cmd := &cobra.Command{
		Use:   "smoke FILE.toml|DIR...",
		Short: "Run the checks of servers and composite tools in TOML files; exit code 1 if one fails",
		Long: `Run the checks of servers and composite tools in TOML files: see docs/smoke.md.
In a directory, all *.toml are read except *.cassette.toml, *.lock.toml and
*.rows.toml.

The exit code is 0 if all checks have passed or were skipped, 1 if one has failed,
and 2 if a file or the configuration is wrong.`,
		Example: `  mcp-metatool smoke checks/
  mcp-metatool smoke --filter 'sum*' --format junit --output report.xml checks.toml
  mcp-metatool smoke --record checks.toml   # live, writes cassettes and locks`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), cmd.OutOrStdout(), args) },
	}
	f := cmd.Flags()
	f.StringVar(&v.filter, "filter", "", "only checks whose name contains `TEXT`, or matches a pattern (sum*) or a regular expression (/^sum/)")
	f.StringArrayVar(&v.tags, "tag", nil, "only checks with this `TAG`, or without it if it is !TAG; with several, at least one TAG and no !TAG")
	f.StringArrayVar(&v.vars, "var", nil, "set a variable of the files: `NAME=VALUE`")
	f.StringVar(&v.opts.Load.Profile, "profile", "", "use the values of the files' [profile.`NAME`]")
	f.StringVarP(&v.opts.Load.Config, "config", "c", "", "use the servers and saved tools of this configuration `FILE`, not of those that the files name")
	f.BoolVar(&v.list, "list", false, "print what would be run, and start nothing (--format text or json)")
	f.StringVar(&v.format, "format", reports.Formats[0], "print results as `FORMAT`: "+strings.Join(reports.Formats, ", "))
	f.StringVarP(&v.output, "output", "o", "", "write the results to `FILE`, and text for people to standard output")
	f.StringArrayVar(&v.reports, "report", nil, "write the results also to a file: `FORMAT=FILE`")
	f.BoolVarP(&v.verbose, "verbose", "v", false, "also show answers and logs of checks that have passed")
	f.IntVar(&v.opts.Jobs, "jobs", 1, "run `N` checks at the same time")
	f.BoolVar(&v.opts.FailFast, "fail-fast", false, "start no further check after one has failed")
	f.DurationVar(&v.opts.Timeout, "timeout", 0, "how long a check may take if neither the check nor its file says (default 30s)")
	f.BoolVar(&v.opts.Load.Offline, "offline", false, "start no server and read no variable or saved tool: for files that you do not trust")
	f.BoolVar(&v.opts.Load.Outside, "allow-outside", false, "allow files to name scripts, cassettes, locks and schemas that are not below their folder")
	f.BoolVar(&v.opts.Record, "record", false, "call the servers instead of using cassettes, and write the cassettes and locks")
	f.BoolVar(&v.opts.Update, "update", false, "write the answers into the files as the expected ones")
	f.BoolVar(&v.coverage, "coverage", false, "say which tools of the servers no check has called")
	f.Float64Var(&v.minCoverage, "min-coverage", 0, "like --coverage, and exit code 1 if fewer than `PERCENT` of the tools were called")
	f.BoolVar(&v.watch, "watch", false, "run the checks again each time one of their files changes, until Ctrl-C")
	f.TextVar(&v.level, "log-level", silent, "log entries of this `LEVEL` and above: debug, info, warn, error")
	f.Lookup("log-level").DefValue = "" // silent has no name
	cmd.AddCommand(smokeInitCommand())
	cmd.ValidArgsFunction = filesOf("toml")
	completeFlag(cmd, "log-level", logLevels)
	completeFlag(cmd, "format", oneOf(reports.Formats...))
	completeFlag(cmd, "filter", checkNames)
	completeFlag(cmd, "tag", checkTags)
	completeFlag(cmd, "profile", checkProfiles)
	_ = cmd.RegisterFlagCompletionFunc("config", filesOf("toml", "json")) // there is such a flag
	return cmd
}

// smokeView is one run of smoke.
type smokeView struct {
	opts           smoke.Options
	filter, format string
	output         string
	reports        []string // FORMAT=FILE
	tags, vars     []string
	list           bool
	verbose, watch bool
	coverage       bool
	minCoverage    float64
	level          slog.Level
}

func (v *smokeView) run(ctx context.Context, stdout io.Writer, args []string) error {
	if err := v.prepare(); err != nil {
		return &exitError{exitUsage, err}
	}
	runner := smoke.NewRunner(v.opts)
	defer runner.Close()
	if v.list {
		return v.listChecks(ctx, runner, stdout, args)
	}
	if v.watch {
		return v.follow(ctx, args, func(files []string) (int, error) { return v.once(ctx, runner, stdout, files) })
	}
	files, err := smoke.Files(args)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	code, err := v.once(ctx, runner, stdout, files)
	switch {
	case err != nil:
		return err
	case code != 0:
		return &exitError{code: code}
	}
	return nil
}

// prepare sets the options from the flags.
func (v *smokeView) prepare() (err error) {
	if v.opts.Jobs < 1 || v.opts.Jobs > 1000 {
		return errors.New("--jobs: want at least 1, at most 1000")
	}
	if v.opts.Load.Offline && v.opts.Record {
		return errors.New("--record: calls servers, which --offline forbids (use only one of them)")
	}
	if v.opts.Load.Offline && v.opts.Load.Config != "" {
		return errors.New("--config: is not read with --offline (use only one of them)")
	}
	if v.opts.Timeout < 0 {
		return errors.New("--timeout: must not be negative")
	}
	if v.minCoverage < 0 || v.minCoverage > 100 {
		return errors.New("--min-coverage: want at least 0, at most 100")
	}
	if v.coverage || v.minCoverage > 0 {
		if v.opts.Load.Offline {
			return errors.New("--coverage: asks servers for their tools, which --offline forbids (use only one of them)")
		}
		v.opts.Coverage = &reports.Coverage{Min: v.minCoverage}
	}
	if v.opts.Filter, err = smoke.ParseFilter(v.filter); err != nil {
		return fmt.Errorf("--filter: %w", err)
	}
	if v.opts.Tags, err = smoke.ParseTags(v.tags); err != nil {
		return fmt.Errorf("--tag: %w", err)
	}
	if err := v.values(); err != nil {
		return err
	}
	if _, err = reports.New(v.format, io.Discard, reports.Options{}); err != nil {
		return fmt.Errorf("--format: %w", err)
	}
	for _, text := range v.reports {
		if _, _, err := readReport(text); err != nil {
			return err
		}
	}
	v.opts.Version, v.opts.Log = currentVersion(), v.log
	v.opts.Wrote = func(path, what string) {
		fmt.Fprintf(os.Stderr, "wrote %s: %s\n", display.Text(path), display.Text(what))
	}
	v.opts.Note = func(path, text string) {
		fmt.Fprintf(os.Stderr, "note: %s: %s\n", display.Text(path), display.Text(text))
	}
	v.opts.CacheDir = cacheDir(v.log(&config.Masker{}))
	return nil
}

// log returns a logger to standard error that masks the secrets of masker.
func (v *smokeView) log(masker *config.Masker) *slog.Logger {
	return newLogger(masker, os.Stderr, v.level, config.LogText)
}

// once runs the checks in files once, and returns the exit code.
func (v *smokeView) once(ctx context.Context, runner *smoke.Runner, stdout io.Writer, files []string) (code int, err error) {
	out, err := v.writer(stdout)
	if err != nil {
		return 0, err
	}
	summary, err := runner.Run(ctx, files, out)
	summary.Duration = summary.Duration.Round(time.Microsecond)
	if bad := out.Close(summary); err == nil {
		err = bad
	}
	if err == nil && summary.Checks() == 0 && summary.BadFiles == 0 {
		err = v.noneChosen()
	}
	return summary.ExitCode(), err
}

// values reads the variables of the command line.
func (v *smokeView) values() error {
	v.opts.Load.Vars = map[string][]byte{}
	for _, text := range v.vars {
		name, value, err := smoke.ParseVar(text)
		if err != nil {
			return fmt.Errorf("--var: %w", err)
		}
		v.opts.Load.Vars[name] = value
	}
	return nil
}

// noneChosen returns the error for flags that choose none of the checks, nil if there are
// no such flags.
func (v *smokeView) noneChosen() error {
	switch {
	case v.opts.Filter != nil && v.opts.Tags != nil:
		return &exitError{exitUsage, fmt.Errorf("no check has both a name that matches --filter %q and the tags of --tag %s", v.filter, strings.Join(v.tags, " "))}
	case v.opts.Filter != nil:
		return &exitError{exitUsage, fmt.Errorf("--filter: no check has a name that matches %q", v.filter)}
	case v.opts.Tags != nil:
		return &exitError{exitUsage, fmt.Errorf("--tag: no check fits %s", strings.Join(v.tags, " "))}
	}
	return nil
}
