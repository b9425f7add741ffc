package runs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/guard/plan"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// planView is the flags of plan.
type planView struct {
	cli.Settings
	params, out   string
	json, answers bool
	approve       cli.ApproveFlag
}

func planCommand() *cobra.Command {
	v := &planView{}
	cmd := &cobra.Command{
		Use:   "plan NAME",
		Short: "Show what a saved tool or a script would change, without changing anything",
		Long: `Run a saved tool, or the script in a file, with its reads made and its writes
withheld, and show the plan: all writes in order, with whole arguments. NAME is a saved
tool, or a file whose name ends with .star.

The plan is kept in the store, and mcp-metatool apply carries it out. With -o it is
written to a file too, which can be reviewed and applied elsewhere. docs/plans.md
explains plans.

If policy asks for the approval of a read, you are asked at the terminal. Without one it
is denied; --approve allow allows it.

The exit code is 1 if the script fails.`,
		Example: `  mcp-metatool plan release --params '{"repo": "widgets"}'
  mcp-metatool plan release --params @release.json -o release.plan.json
  mcp-metatool plan show release.plan.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return v.plan(cmd, args[0]) },
	}
	v.AddFlags(cmd, slog.LevelWarn)
	cmd.ValidArgsFunction = cli.Choices(v.SavedTools).OrFile
	cmd.Flags().StringVar(&v.params, "params", "{}", "arguments: a `JSON` object, @FILE to read it from a file, - from standard input")
	cmd.Flags().StringVarP(&v.out, "out", "o", "", "write the plan to `FILE`, as JSON")
	cmd.Flags().BoolVar(&v.answers, "answers", false, "with -o: put the answers of reads into the file, so that they need not be made again elsewhere")
	v.approve.AddFlag(cmd)
	cmd.Flags().BoolVar(&v.json, "json", false, "print the plan as JSON")
	cmd.AddCommand(planShowCommand())
	return cmd
}

// subject returns the subject of a plan: a saved tool, or the script in a file.
func (v *planView) subject(cmd *cobra.Command, name string) (plan.Subject, error) {
	params, err := cli.ReadParams(cmd.Context(), v.params, cmd.InOrStdin())
	if err != nil || !strings.HasSuffix(name, ".star") {
		return plan.Subject{Tool: strings.TrimPrefix(name, "tools."), Params: params}, err
	}
	script, err := cli.ReadScript(cmd.Context(), name, cmd.InOrStdin())
	return plan.Subject{Code: script.Code, Params: params}, err
}

func (v *planView) plan(cmd *cobra.Command, name string) error {
	subject, err := v.subject(cmd, name)
	if err != nil {
		return cli.Usage(err)
	}
	cfg, err := v.Load()
	if err != nil {
		return err
	}
	log := v.Logger(cfg)
	cfg.Debug = true // for the backtrace
	mask := cfg.NewMasker().Mask
	defer cli.During(cmd.Context(), "the plan of "+name)()
	view := cli.NewProgressView(os.Stderr, cli.IsTerminal(os.Stderr), name)
	opts := cli.HostOptions(log, host.NoClient)
	opts.Person = v.approve.Person(cmd, view.Plain)
	return cli.WithHostOf(cmd.Context(), cfg, opts, func(ctx context.Context, h *host.Host) error {
		file, rec, f := h.Planner().Make(ctx, subject, route.Call{Progress: view.Update})
		view.End()
		if err := runFailure(cmd, name, rec, f, mask); err != nil {
			return err
		}
		if err := writePlan(v.out, file, v.answers); err != nil {
			return err
		}
		return printPlan(cmd, file, v.json)
	})
}

// runFailure prints the log of a run, and returns its failure.
func runFailure(cmd *cobra.Command, name string, rec journal.Record, f *compose.Failure, mask func(string) string) error {
	for _, e := range rec.Logs {
		fmt.Fprintln(cmd.ErrOrStderr(), display.Text(e.Text))
	}
	if f == nil {
		return nil
	}
	return cli.Failed(fmt.Errorf("%s: %s", name, mask(f.Text())))
}

// writePlan writes a plan to a file; "" is none.
func writePlan(path string, file *plan.File, answers bool) error {
	if path == "" {
		return nil
	}
	if err := regular.Write(path, file.WithoutAnswers(answers).JSON(), 0o600); err != nil {
		return fmt.Errorf("the plan was made, and cannot be written: %w", err)
	}
	return nil
}

func printPlan(cmd *cobra.Command, file *plan.File, asJSON bool) error {
	text := file.Text()
	if asJSON {
		text = string(file.WithoutAnswers(false).JSON())
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), text)
	return err
}

func planShowCommand() *cobra.Command {
	v := &planView{}
	cmd := &cobra.Command{
		Use:   "show PLAN",
		Short: "Show a plan, and what has become of it",
		Long: `Show a plan: its steps, what it is bound to, its digest. PLAN is a file, the id of a
plan of the store, or "last" for the newest one there. If it was applied with this store, the output says
which of its writes were made. No server is started.

The exit code is 2 if there is no such plan, or if it was edited.`,
		Example: `  mcp-metatool plan show last
  mcp-metatool plan show release.plan.json --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return v.show(cmd, args[0]) },
	}
	v.AddFlags(cmd, slog.LevelWarn)
	cmd.Flags().BoolVar(&v.json, "json", false, "print the plan as JSON")
	return cmd
}

func (v *planView) show(cmd *cobra.Command, name string) error {
	cfg, err := v.Load()
	if err != nil {
		return err
	}
	store, end, err := host.PlanStore(cmd.Context(), cfg, v.Logger(cfg))
	if err != nil {
		return err
	}
	defer end()
	file, err := findPlan(cmd.Context(), store, name)
	if err != nil {
		return cli.Usage(err)
	}
	if err := printPlan(cmd, file, v.json); err != nil || v.json {
		return err
	}
	used, err := store.Applied(cmd.Context(), file.Digest)
	if err != nil || used == nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "\napplied at %s\n", used.At.UTC().Format("2006-01-02 15:04:05 UTC"))
	runs, release := host.OpenJournal(cfg, v.Logger(cfg))
	defer release()
	after, err := plan.OnDisk(cmd.Context(), runs, file, used)
	if err != nil {
		fmt.Fprintf(cmd.OutOrStdout(), "  what was done is not known: %s. Look at the servers before you make a new plan.\n", display.Line(err.Error(), 300))
		return nil
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), after.Text())
	return err
}

// findPlan returns the plan in a file, or the plan of a store.
func findPlan(ctx context.Context, store *plan.Store, name string) (*plan.File, error) {
	if name == "last" {
		ids, err := store.List(ctx)
		if err != nil {
			return nil, err
		}
		if len(ids) == 0 {
			return nil, errors.New("there is no plan in the store (mcp-metatool plan makes one)")
		}
		name = ids[len(ids)-1]
	}
	file, err := store.Load(ctx, name)
	if err == nil || !errors.Is(err, plan.ErrNotFound) {
		return file, err
	}
	file, failed := plan.ReadFile(ctx, name)
	if errors.Is(failed, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w, and no such file", err)
	}
	return file, failed
}

// applyView is the flags of apply.
type applyView struct {
	cli.Settings
	digest, out       string
	fresh, yes        bool
	json, withAnswers bool
	approve           cli.ApproveFlag
}

func applyCommand() *cobra.Command {
	v := &applyView{}
	cmd := &cobra.Command{
		Use:   "apply PLAN",
		Short: "Carry out a plan: exactly its writes, in its order",
		Long: `Carry out a plan: run the tool again, with the answers that its reads had, and make
exactly the writes of the plan, in its order. What differs from the plan in any way is
not done, and the writes before it are undone as the script says (undo). PLAN is a file,
the id of a plan of the store, or "last" for the newest one there.

The plan is shown, and you are asked, unless --digest is that of the plan: that is what
was approved. --yes is enough for a plan that was made with the same store. A plan is
applied once at most, even if it fails.

If the script goes on after the plan, it is planned from there: the next plan is shown
and kept. --approve says who decides about reads of the next plan for which policy asks.

The exit code is 1 if the plan could not be carried out, 2 if it cannot be read.`,
		Example: `  mcp-metatool apply last
  mcp-metatool apply release.plan.json --fresh --digest 3f5a...`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return v.apply(cmd, args[0]) },
	}
	v.AddFlags(cmd, slog.LevelWarn)
	cmd.Flags().StringVar(&v.digest, "digest", "", "apply only the plan with this `DIGEST`, without asking")
	cmd.Flags().BoolVar(&v.yes, "yes", false, "apply without asking")
	cmd.Flags().BoolVar(&v.fresh, "fresh", false, "make the reads again; their answers must be the same")
	v.approve.AddFlag(cmd)
	cmd.Flags().StringVarP(&v.out, "out", "o", "", "write the next plan, if there is one, to `FILE`")
	cmd.Flags().BoolVar(&v.withAnswers, "answers", false, "with -o: put the answers that the next plan needs into the file")
	cmd.Flags().BoolVar(&v.json, "json", false, "print what was done as JSON")
	return cmd
}

func (v *applyView) apply(cmd *cobra.Command, name string) error {
	cfg, err := v.Load()
	if err != nil {
		return err
	}
	log := v.Logger(cfg)
	plans, end, err := host.PlanStore(cmd.Context(), cfg, log)
	if err != nil {
		return err
	}
	file, err := findPlan(cmd.Context(), plans, name)
	if err := errors.Join(err, end()); err != nil {
		return cli.Usage(err)
	}
	if v.digest != "" && v.digest != file.Digest {
		return cli.Failed(fmt.Errorf("the plan has the digest %s, and --digest is another one: nothing was done", file.Digest))
	}
	cfg.Debug = true // for the backtrace
	mask := cfg.NewMasker().Mask
	view := cli.NewProgressView(os.Stderr, cli.IsTerminal(os.Stderr), file.Plan.Name())
	opts := cli.HostOptions(log, host.NoClient)
	opts.Person = v.approve.Person(cmd, view.Plain)
	return cli.WithHostOf(cmd.Context(), cfg, opts, func(ctx context.Context, h *host.Host) error {
		if _, err := h.Planner().Check(ctx, file, nil); err != nil {
			return cli.Failed(fmt.Errorf("plan %s cannot be applied: %w: nothing was done", file.Plan.ID, err))
		}
		if err := v.confirm(ctx, cmd, h, file); err != nil {
			return err
		}
		defer cli.During(ctx, "plan "+file.Plan.ID)()
		outcome, err := h.Planner().Apply(ctx, file, plan.ApplyOptions{Fresh: v.fresh, Approved: true}, route.Call{Progress: view.Update})
		view.End()
		if outcome == nil {
			return cli.Failed(fmt.Errorf("plan %s cannot be applied: %w: nothing was done", file.Plan.ID, err))
		}
		return errors.Join(v.report(cmd, file, outcome, mask), err)
	})
}

// confirm asks whether the plan may be applied, unless a flag gives its digest.
func (v *applyView) confirm(ctx context.Context, cmd *cobra.Command, h *host.Host, file *plan.File) error {
	switch {
	case v.digest != "", v.yes && h.Plans().Sealed(file):
		return nil
	case v.yes:
		return cli.Usage(fmt.Errorf("plan %s was not made with this store, so --yes is not enough: review it, and give its digest (--digest %s)", file.Plan.ID, file.Digest))
	}
	fmt.Fprint(cmd.ErrOrStderr(), file.Text())
	asker := cli.FindAsker(cmd)
	if asker == nil {
		return cli.Usage(fmt.Errorf("nothing was done: there is no terminal to ask on (review the plan, and give its digest: --digest %s)", file.Digest))
	}
	yes, err := asker.Confirm(ctx, "apply this plan?")
	if err == nil && !yes {
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was done")
		err = cli.Failed(nil)
	}
	return err
}

// report describes the outcome.
func (v *applyView) report(cmd *cobra.Command, file *plan.File, o *plan.Outcome, mask func(string) string) error {
	if o.Next != nil {
		if err := writePlan(v.out, o.Next, v.withAnswers); err != nil {
			return err
		}
	}
	if o.Differs {
		o.Failure.Stack = "" // the difference shows the outcome
	}
	failed := runFailure(cmd, "plan "+file.Plan.ID, o.Record, o.Failure, mask)
	if v.json {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", cli.IndentJSON(o.JSON(file)))
		return errors.Join(err, failed)
	}
	out := cmd.OutOrStdout()
	said := "was applied"
	switch {
	case o.Differs:
		said = "was stopped: something is not as planned"
	case o.Failure != nil:
		said = "was begun, and has failed"
	}
	fmt.Fprintf(out, "plan %s %s (run %s)\n%s", file.Plan.ID, said, o.Record.ID, o.Text())
	switch {
	case o.Next != nil:
		fmt.Fprintf(out, "\nthe script goes on: this is the next plan\n\n%s", o.Next.Text())
	case o.Finished:
		fmt.Fprintf(out, "\nresult: %s\n", readResultText(o.Record.Outcome.Result))
	}
	return failed
}

// readResultText returns the result of a script for people: text unchanged, every other value as
// JSON.
func readResultText(raw []byte) string {
	if text, ok := wire.Text(raw); ok {
		return text
	}
	return string(cli.IndentJSON(raw))
}
