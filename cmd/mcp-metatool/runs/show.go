package runs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/replay"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

func runsShowCommand() *cobra.Command {
	v := &runsView{}
	var how showOptions
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: its calls over time, its log, how it ended",
		Long: `Show a run: its calls over time, its log, how it ended. RUN is an id or the
beginning of one, "last" for the newest run, or a file that --json has written.

If the script called other saved tools, or the run asked the client something and was
continued, the runs are shown as a tree; --tree shows only that.

With --json the run is printed as the journal has it, one event a line: such a
file can be replayed elsewhere (mcp-metatool replay).`,
		Example: `  mcp-metatool runs show last --calls
  mcp-metatool runs show last --tree --json
  mcp-metatool runs show 019aa0b0-1111 --html run.html --open
  mcp-metatool runs show 019aa0b0-1111 --json > run.jsonl`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return v.show(cmd, args[0], how) },
	}
	v.addFlags(cmd)
	cmd.ValidArgsFunction = cli.Choices(v.runs).OrFile
	cmd.Flags().StringVar(&how.page, "html", "", "write the run as a page to `FILE`, - for standard output; it needs no network")
	cmd.Flags().BoolVar(&how.open, "open", false, "open the page in the browser; without --html, it is a temporary file")
	cmd.Flags().BoolVar(&how.whole, "calls", false, "show arguments, answers and the result whole")
	cmd.Flags().BoolVar(&how.tree, "tree", false, "show only the tree of runs; with --json, as JSON")
	cmd.MarkFlagsMutuallyExclusive("tree", "html")
	cmd.MarkFlagsMutuallyExclusive("tree", "open")
	_ = cmd.MarkFlagFilename("html", "html") // the flag exists
	return cmd
}

// showOptions are the flags of runs show.
type showOptions struct {
	page              string // file of the page; "" for none, "-" for standard output
	open, whole, tree bool
}

func (v *runsView) show(cmd *cobra.Command, name string, how showOptions) error {
	page := how.page
	switch {
	case v.asJSON && (page != "" || how.open):
		return cli.Usage(errors.New("runs show: either --json or --html"))
	case how.open && page == "-":
		return cli.Usage(errors.New("runs show: --open needs a file (--html FILE, or no --html)"))
	}
	defer v.release()
	done := cli.Busy(cmd, "reading the run "+name)
	defer done()
	rec, err := v.find(cmd, name)
	if err != nil {
		return err
	}
	rounds := v.rounds(cmd.Context(), rec)
	done()
	options := timeline.TextOptions{
		Width: cli.Columns(cmd.OutOrStdout()), Whole: how.whole, Color: cli.HasColor(cmd.OutOrStdout()), Rounds: rounds,
	}
	switch {
	case how.tree && v.asJSON:
		if err := cli.WriteJSON(v.stdout, rounds); err != nil {
			return err
		}
	case how.tree:
		if err := timeline.WriteTrees(cli.Raw(cmd.OutOrStdout()), rounds, options); err != nil {
			return err
		}
	case v.asJSON:
		if err := journal.Encode(v.stdout, rec); err != nil {
			return err
		}
	case page == "-":
		if err := timeline.WriteHTML(v.stdout, &rec); err != nil {
			return err
		}
	case page != "" || how.open:
		return v.showPage(page, how.open, &rec)
	default:
		out := io.Writer(v.stdout)
		if options.Color {
			out = cli.Raw(cmd.OutOrStdout())
		}
		if err := timeline.WriteText(out, &rec, options); err != nil {
			return err
		}
	}
	return v.end()
}

// rounds returns the trees of the runs of the same dialogue with the client, oldest first.
func (v *runsView) rounds(ctx context.Context, rec journal.Record) []timeline.Tree {
	runs := []journal.Record{rec}
	if v.close != nil && (rec.Continues != "" || rec.Outcome.Asks) { // the record did not come from a file
		if all, err := v.journal.Rounds(ctx, rec); err == nil {
			runs = all
		} else {
			v.unreadable(err)
		}
	}
	trees := make([]timeline.Tree, len(runs))
	for i := range runs {
		trees[i] = timeline.TreeOf(&runs[i])
	}
	return trees
}

// showPage writes the page of a run to a file or a temporary file, names the file, and opens the
// page.
func (v *runsView) showPage(file string, open bool, rec *journal.Record) error {
	if file == "" {
		dir, err := os.MkdirTemp("", "mcp-metatool-run-") // the file stays, because the browser reads it later
		if err != nil {
			return err
		}
		file = filepath.Join(dir, cli.ShortRun(rec.ID)+".html")
	}
	if err := writePage(file, rec); err != nil {
		return err
	}
	full := cli.Absolute(file)
	fmt.Fprintf(v.stderr, "wrote %s (it contains all data of the run)\n", full)
	if open && !cli.Launch(full) {
		return fmt.Errorf("no program was found that opens %s", full)
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
		return v.journal.Find(cmd.Context(), name)
	}
	for rec, err := range v.journal.Scan(cmd.Context(), journal.Filter{}) {
		if cause := context.Cause(cmd.Context()); cause != nil {
			return journal.Record{}, cause
		}
		if err == nil {
			return rec, nil
		}
		v.unreadable(err)
	}
	return journal.Record{}, fmt.Errorf("the journal in %s has no runs", v.dir)
}

// writePage writes the page of a run to a file that only the user may read, because the page
// contains all data of the run. writePage replaces only a regular file.
func writePage(file string, rec *journal.Record) error {
	info, err := os.Lstat(file)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return &fs.PathError{Op: "write", Path: file, Err: &regular.KindError{Mode: info.Mode()}}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	var page bytes.Buffer
	if err := timeline.WriteHTML(&page, rec); err != nil {
		return err
	}
	return regular.Write(file, page.Bytes(), 0o600)
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
	defer v.release()
	if err := v.open(cmd); err != nil {
		return err
	}
	t := newRunTable(cmd.OutOrStdout(), v.stdout, v.asJSON)
	for i, least := range []int{18, 26, 20, 10, 8, 0, 12} { // later runs can be wider than the first
		t.Columns[i].Least = least
	}
	if t.Width > 0 {
		t.Columns[1].Least, t.Columns[6].Least = len("01-02 15:04:05"), 6
	}
	follow, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	shown := map[string]bool{} // runs that were printed or existed before
	show := func(rec *journal.Record) {
		if !v.choosesRecord(rec) {
			return
		}
		t.add(listedRecord(rec), 0)
		err := t.end("")
		if err == nil {
			err = v.stdout.Flush()
		}
		if err != nil {
			stop(err)
		}
	}
	opts := journal.FollowOptions{Started: func() {
		for _, rec := range v.last(follow, v.limit) {
			shown[rec.ID] = true
			show(&rec)
		}
	}}
	if v.journal.Others != nil {
		v.fetch(follow) // runs that ended before are not new
		var fetching sync.WaitGroup
		defer fetching.Wait()
		defer stop(nil)
		fetching.Go(func() {
			for ticker := time.Tick(fetchEvery); follow.Err() == nil; v.fetch(follow) {
				select {
				case <-ticker:
				case <-follow.Done():
				}
			}
		})
	}
	for rec, err := range journal.Follow(follow, v.dir, opts) {
		if err != nil {
			v.unreadable(err)
		} else if !shown[rec.ID] {
			show(&rec)
		}
	}
	return context.Cause(follow)
}

// fetchEvery is how often runs of other replicas are looked for.
const fetchEvery = time.Second

// fetch brings in the runs of other replicas that may have ended lately.
func (v *runsView) fetch(ctx context.Context) {
	err := v.journal.Fetch(ctx, time.Now().Add(-48*time.Hour), time.Time{})
	if err != nil && ctx.Err() == nil && !v.missing.Swap(true) {
		cli.Complain(v.stderr, err)
	}
	if err == nil {
		v.missing.Store(false)
	}
}

// last returns the last n runs that the flags select, the oldest first.
func (v *runsView) last(ctx context.Context, n int) []journal.Record {
	var runs []journal.Record
	for rec, err := range v.journal.Scan(ctx, journal.Filter{Tool: v.tool, Token: v.token}) {
		if len(runs) >= n || ctx.Err() != nil {
			break
		}
		if err == nil && rec.Done && v.choosesRecord(&rec) {
			runs = append(runs, rec)
		}
	}
	slices.Reverse(runs)
	return runs
}

func runsDiffCommand() *cobra.Command {
	v := &runsView{}
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two runs: the first difference of calls, answers, logs, result, fuel",
		Long: `Compare two recorded runs: script, arguments, calls, answers, log, result or error,
fuel and memory, and those of the saved tools that the scripts called. The first
difference in the order of run A is shown in full. Times are shown, but never count
as a difference.

A and B are ids or the beginnings of ids, "last" for the newest run, or files that
runs show --json has written. The exit code is 0 if the runs are the same, 1 if they
differ, 2 if they cannot be compared.`,
		Example: `  mcp-metatool runs diff 019aa0b0-1111 last
  mcp-metatool runs diff good.jsonl last --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			same, err := v.diff(cmd, args[0], args[1])
			return diffResult(cmd.Context(), same, err)
		},
	}
	v.addFlags(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return cli.Choices(v.runs).OrFile(cmd, nil, word)
	}
	return cmd
}

// diffResult returns the error whose exit code tells the outcome of a comparison, like the exit
// code of diff.
func diffResult(ctx context.Context, same bool, err error) error {
	var exit *cli.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit):
		return cli.Usage(exit.Err)
	case err != nil:
		return cli.Usage(err)
	case !same:
		return cli.Failed(nil)
	}
	return nil
}

// diff compares two runs.
func (v *runsView) diff(cmd *cobra.Command, nameA, nameB string) (same bool, err error) {
	defer v.release()
	a, err := v.find(cmd, nameA)
	if err != nil {
		return false, err
	}
	b, err := v.find(cmd, nameB)
	if err != nil {
		return false, err
	}
	c := replay.Compare(&a, &b)
	out := cmd.OutOrStdout()
	if v.asJSON {
		err = cli.WriteJSON(out, c)
	} else if err = writeFigures(out, c.A, c.B); err == nil {
		_, err = io.WriteString(cli.Raw(out), "\n"+cli.ColorDiff(out, display.Text(c.Text())))
	}
	if err == nil {
		err = v.end()
	}
	return c.Same, err
}

// writeFigures writes the figures of two runs, side by side.
func writeFigures(w io.Writer, a, b replay.RunFigures) error {
	t := cli.NewTable(w)
	t.Head("", "A", "B")
	row := func(name string, of func(f replay.RunFigures) any) { t.Add(name, of(a), of(b)) }
	row("run", func(f replay.RunFigures) any { return display.Cell{Text: f.Run, Short: cli.ShortRun(f.Run)} })
	row("tool", func(f replay.RunFigures) any { return f.Tool })
	row("started", func(f replay.RunFigures) any { return f.Start })
	row("outcome", func(f replay.RunFigures) any { return cli.State(f.Outcome) })
	row("took", func(f replay.RunFigures) any { return timeline.Duration(f.Took) })
	row("calls", func(f replay.RunFigures) any { return f.Calls })
	row("fuel", func(f replay.RunFigures) any { return strconv.FormatUint(f.Fuel, 10) })
	row("memory", func(f replay.RunFigures) any { return display.Size(f.Memory) })
	if err := t.Flush(); err != nil {
		return fmt.Errorf("runs diff: %w", err)
	}
	return nil
}

func runsExportCommand() *cobra.Command {
	v := &runsView{}
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Print the record of a run as it was written, for a person who verifies it",
		Long: `Print the lines of a run, and of the saved tools that it called, byte for byte as they were
written, with their digests and signature: mcp-metatool verify checks such a file on another machine
with the public key (verify --print-key). Only the place of the run in the order of the journal
(link) is left out, since it is about other runs. RUN is an id or the beginning of one, or "last"
for the newest run.

The file has all data of the run, but for secrets, which were masked when it was recorded.`,
		Example: `  mcp-metatool runs export last > run.jsonl`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return v.export(cmd, args[0]) },
	}
	v.addFlags(cmd)
	_ = cmd.Flags().MarkHidden("json") // the value is JSON
	cmd.ValidArgsFunction = cli.Choices(v.runs).Complete(1)
	return cmd
}

func (v *runsView) export(cmd *cobra.Command, name string) error {
	defer v.release()
	runs, err := v.exported(cmd, name)
	if err != nil {
		return err
	}
	for _, r := range runs {
		for _, line := range r.Lines {
			v.stdout.Write(seal.WithoutLink(line)) // Flush returns the errors
			v.stdout.WriteByte('\n')
		}
	}
	return v.end()
}
