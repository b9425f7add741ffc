// Package smoke has the verb smoke, which checks servers and tools, and writes a first file of checks.
package smoke

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/smoke"
	reports "github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Commands returns the verb smoke.
func Commands() []*cobra.Command {
	return []*cobra.Command{smokeCommand()}
}

// checkNames offers the names of the checks in files.
func checkNames(ctx context.Context, args []string) []string {
	var names []string
	eachCheckFile(ctx, args, func(path string, f *smoke.File) {
		for _, c := range f.Checks {
			if c.Phase == smoke.Main {
				names = append(names, c.Name+"\t"+filepath.Base(path))
			}
		}
	})
	return names
}

// checkTags offers the tags of the checks in files.
func checkTags(ctx context.Context, args []string) []string {
	var tags []string
	eachCheckFile(ctx, args, func(_ string, f *smoke.File) {
		for _, c := range f.Checks {
			tags = append(tags, c.Tags...)
		}
	})
	slices.Sort(tags)
	return slices.Compact(tags)
}

// checkProfiles offers the profiles of files of checks.
func checkProfiles(ctx context.Context, args []string) []string {
	var names []string
	eachCheckFile(ctx, args, func(_ string, f *smoke.File) { names = append(names, f.Profiles...) })
	slices.Sort(names)
	return slices.Compact(names)
}

// eachCheckFile calls f with each readable file of checks.
func eachCheckFile(ctx context.Context, args []string, f func(path string, file *smoke.File)) {
	files, err := smoke.Files(args)
	if err != nil {
		return
	}
	opts := smoke.LoadOptions{Offline: true}
	opts.Load.Context = ctx
	for _, path := range files {
		if ctx.Err() != nil {
			return
		}
		if file, err := smoke.Load(path, opts); err == nil {
			f(path, file)
		}
	}
}

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
	f.TextVar(&v.level, "log-level", cli.Silent, "log entries of this `LEVEL` and above: debug, info, warn, error")
	f.Lookup("log-level").DefValue = "" // silent has no name
	cmd.AddCommand(initCommand())
	cmd.ValidArgsFunction = cli.FilesOf("toml")
	cli.CompleteFlag(cmd, "log-level", cli.LogLevels)
	cli.CompleteFlag(cmd, "format", cli.OneOf(reports.Formats...))
	cli.CompleteFlag(cmd, "filter", checkNames)
	cli.CompleteFlag(cmd, "tag", checkTags)
	cli.CompleteFlag(cmd, "profile", checkProfiles)
	_ = cmd.RegisterFlagCompletionFunc("config", cli.FilesOf("toml", "json")) // the flag exists
	return cmd
}

// smokeView is a run of smoke.
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
		return cli.Usage(err)
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
		return cli.Usage(err)
	}
	code, err := v.once(ctx, runner, stdout, files)
	switch {
	case err != nil:
		return err
	case code != 0:
		return cli.Exit(code, nil)
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
	v.opts.Version, v.opts.Log = cli.CurrentVersion(), v.log
	v.opts.Wrote = func(path, what string) {
		fmt.Fprintf(os.Stderr, "wrote %s: %s\n", display.Text(path), display.Text(what))
	}
	v.opts.Note = func(path, text string) {
		fmt.Fprintf(os.Stderr, "note: %s: %s\n", display.Text(path), display.Text(text))
	}
	v.opts.CacheDir = cli.CacheDir(v.log(&config.Masker{}))
	return nil
}

// log returns a logger to standard error that masks the secrets of masker.
func (v *smokeView) log(masker *config.Masker) *slog.Logger {
	return cli.NewLogger(masker, os.Stderr, v.level, config.LogText)
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

// noneChosen returns the error for flags that choose no check, nil without the flags.
func (v *smokeView) noneChosen() error {
	switch {
	case v.opts.Filter != nil && v.opts.Tags != nil:
		return cli.Usage(fmt.Errorf("no check has both a name that matches --filter %q and the tags of --tag %s", v.filter, strings.Join(v.tags, " ")))
	case v.opts.Filter != nil:
		return cli.Usage(fmt.Errorf("--filter: no check has a name that matches %q", v.filter))
	case v.opts.Tags != nil:
		return cli.Usage(fmt.Errorf("--tag: no check fits %s", strings.Join(v.tags, " ")))
	}
	return nil
}

// writer returns the Writer of the results: to standard output, and to the files of --output
// and --report. With --output, standard output gets text for people.
func (v *smokeView) writer(stdout io.Writer) (reports.Writer, error) {
	format, files := v.format, v.reports
	if v.output != "" {
		format, files = reports.Formats[0], append([]string{v.format + "=" + v.output}, files...)
	}
	if format == reports.Formats[0] {
		stdout = cli.Raw(stdout)
	}
	first, err := reports.New(format, stdout, reports.Options{Verbose: v.verbose, Color: cli.HasColor(stdout)})
	if err != nil || len(files) == 0 {
		return first, err
	}
	all := &severalReports{writers: []reports.Writer{first}}
	for _, text := range files {
		if err := all.add(text, reports.Options{Verbose: v.verbose}); err != nil {
			return nil, errors.Join(cli.Usage(err), all.closeFiles())
		}
	}
	return all, nil
}

// readReport reads FORMAT=FILE.
func readReport(text string) (format, file string, err error) {
	format, file, ok := strings.Cut(text, "=")
	if !ok || file == "" {
		return "", "", fmt.Errorf("--report %q: want FORMAT=FILE", text)
	}
	if _, err := reports.New(format, io.Discard, reports.Options{}); err != nil {
		return "", "", fmt.Errorf("--report %q: %w", text, err)
	}
	return format, file, nil
}

// severalReports writes several reports of the same results.
type severalReports struct {
	writers []reports.Writer
	files   []*os.File
}

// add adds a report to a file.
func (s *severalReports) add(text string, opts reports.Options) error {
	format, name, err := readReport(text)
	if err != nil {
		return err
	}
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("the report cannot be written: %w", err)
	}
	s.files = append(s.files, file)
	w, err := reports.New(format, file, opts)
	s.writers = append(s.writers, w)
	return err
}

// each calls f for all reports, also after an error.
func (s *severalReports) each(f func(reports.Writer) error) (err error) {
	for _, w := range s.writers {
		err = errors.Join(err, f(w))
	}
	return err
}

// Result implements reports.Writer.
func (s *severalReports) Result(r reports.Result) error {
	return s.each(func(w reports.Writer) error { return w.Result(r) })
}

// File implements reports.Writer.
func (s *severalReports) File(f reports.File) error {
	return s.each(func(w reports.Writer) error { return w.File(f) })
}

// Close implements reports.Writer.
func (s *severalReports) Close(sum reports.Summary) error {
	return errors.Join(s.each(func(w reports.Writer) error { return w.Close(sum) }), s.closeFiles())
}

func (s *severalReports) closeFiles() (err error) {
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// smokeListJSON is the output of --list --format json.
type smokeListJSON struct {
	Files []smokeListFile `json:"files"`
}

type smokeListFile struct {
	Path   string          `json:"path"`
	Error  string          `json:"error"` // "" if the file can be run
	Checks []smoke.Planned `json:"checks"`
}

// listChecks prints the chosen checks.
func (v *smokeView) listChecks(ctx context.Context, runner *smoke.Runner, stdout io.Writer, args []string) error {
	if v.format != "text" && v.format != "json" {
		return cli.Usage(fmt.Errorf("--list: prints text or json, not %s", v.format))
	}
	if v.watch || v.output != "" || len(v.reports) > 0 || v.opts.Record || v.opts.Update || v.opts.Coverage != nil {
		return cli.Usage(fmt.Errorf("--list: runs nothing (leave --watch, --output, --report, --record, --update and --coverage out)"))
	}
	names, err := smoke.Files(args)
	if err != nil {
		return cli.Usage(err)
	}
	files := runner.List(ctx, names)
	checks, code := 0, 0
	for _, f := range files {
		checks += len(f.Checks)
		if f.Err != nil {
			code = cli.ExitUsage
		}
	}
	if v.format == "json" {
		err = writeSmokeJSON(stdout, files)
	} else {
		err = writeSmokeList(stdout, files)
	}
	if err == nil && checks == 0 && code == 0 {
		err = v.noneChosen()
	}
	if err == nil && code != 0 {
		err = cli.Exit(code, nil)
	}
	return err
}

func writeSmokeJSON(w io.Writer, files []smoke.PlannedFile) error {
	list := smokeListJSON{Files: []smokeListFile{}}
	for _, f := range files {
		made := smokeListFile{Path: f.Path, Checks: f.Checks}
		if f.Err != nil {
			made.Error = f.Err.Error()
		}
		list.Files = append(list.Files, made)
	}
	return cli.WriteJSON(w, list)
}

// writeSmokeList writes lines for people:
//
//	checks.toml
//	  setup: create a user
//	  adds 2 and 3 [math, fast]
//	  the user is listed (needs create a user)
//
//	3 checks in 1 file would be run
func writeSmokeList(w io.Writer, files []smoke.PlannedFile) error {
	var b strings.Builder
	steps := 0
	for _, f := range files {
		b.WriteString(display.EscapeLine(f.Path) + "\n")
		if f.Err != nil {
			b.WriteString("  WRONG\n")
			for line := range strings.SplitSeq(f.Err.Error(), "\n") {
				b.WriteString("    " + display.EscapeLine(line) + "\n")
			}
		}
		for _, c := range f.Checks {
			steps++
			b.WriteString("  " + plannedLine(c) + "\n")
		}
	}
	fmt.Fprintf(&b, "\n%s in %s would be run\n", cli.Plural(steps, "check"), cli.Plural(len(files), "file"))
	_, err := io.WriteString(w, b.String())
	return err
}

func plannedLine(c smoke.Planned) string {
	line := c.Name
	if c.Phase != "check" {
		line = c.Phase + ": " + line
	}
	if len(c.Tags) > 0 {
		line += " [" + strings.Join(c.Tags, ", ") + "]"
	}
	if len(c.Needs) > 0 {
		line += " (needs " + strings.Join(c.Needs, ", ") + ")"
	}
	if c.Skip != "" {
		line += " (skipped: " + c.Skip + ")"
	}
	return display.EscapeLine(line)
}

// follow runs the checks, and runs the checks again each time a file of the checks changes, until
// ctx ends. The error is then the cause of ctx. Nothing else ends follow: the user can fix a file
// with an error.
func (v *smokeView) follow(ctx context.Context, args []string, once func(files []string) (int, error)) error {
	for ctx.Err() == nil {
		files, err := smoke.Files(args)
		watched := v.watched(args, files)
		before := watched.Fingerprint()
		code := cli.ExitUsage
		if err == nil {
			code, err = once(files)
		}
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			cli.Complain(os.Stderr, err)
		}
		if v.opts.Record || v.opts.Update { // the run itself has changed some of the files
			watched = v.watched(args, files)
			before = watched.Fingerprint()
		}
		fmt.Fprintf(os.Stderr, "exit code %d; waiting for changes (Ctrl-C ends)\n", code)
		changed, stop := context.WithCancel(ctx)
		watched.Watch(changed, v.log(&config.Masker{}), func() [sha256.Size]byte { return before }, stop, nil, func() {})
		stop()
	}
	return context.Cause(ctx)
}

// watched returns the files of the checks, and the directories for new files.
func (v *smokeView) watched(args, files []string) cli.ConfigFiles {
	names := slices.Clone(args)
	for _, f := range files {
		names = append(names, smoke.Inputs(f, v.opts.Load)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
