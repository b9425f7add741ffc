package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/guard/plan"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// applyView is the flags of apply.
type applyView struct {
	settings
	digest, out       string
	fresh, yes        bool
	json, withAnswers bool
	approve           approveFlag
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
	v.addFlags(cmd, slog.LevelWarn)
	cmd.Flags().StringVar(&v.digest, "digest", "", "apply only the plan with this `DIGEST`, without asking")
	cmd.Flags().BoolVar(&v.yes, "yes", false, "apply without asking")
	cmd.Flags().BoolVar(&v.fresh, "fresh", false, "make the reads again; their answers must be the same")
	v.approve.addFlag(cmd)
	cmd.Flags().StringVarP(&v.out, "out", "o", "", "write the next plan, if there is one, to `FILE`")
	cmd.Flags().BoolVar(&v.withAnswers, "answers", false, "with -o: put the answers that the next plan needs into the file")
	cmd.Flags().BoolVar(&v.json, "json", false, "print what was done as JSON")
	return cmd
}

func (v *applyView) apply(cmd *cobra.Command, name string) error {
	cfg, err := v.load()
	if err != nil {
		return err
	}
	log := v.logger(cfg)
	plans, end, err := host.PlanStore(cmd.Context(), cfg, log)
	if err != nil {
		return err
	}
	file, err := findPlan(cmd.Context(), plans, name)
	if err := errors.Join(err, end()); err != nil {
		return &exitError{exitUsage, err}
	}
	if v.digest != "" && v.digest != file.Digest {
		return &exitError{exitFailed, fmt.Errorf("the plan has the digest %s, and --digest is another one: nothing was done", file.Digest)}
	}
	cfg.Debug = true // for the backtrace
	mask := cfg.NewMasker().Mask
	view := newProgressView(os.Stderr, isTerminal(os.Stderr), file.Plan.Name())
	opts := hostOptions(log, host.NoClient)
	opts.Person = v.approve.person(cmd, view.plain)
	return withHostOf(cmd.Context(), cfg, opts, func(ctx context.Context, h *host.Host) error {
		if _, err := h.Planner().Check(ctx, file, nil); err != nil {
			return &exitError{exitFailed, fmt.Errorf("plan %s cannot be applied: %w: nothing was done", file.Plan.ID, err)}
		}
		if err := v.confirm(ctx, cmd, h, file); err != nil {
			return err
		}
		defer during(ctx, "plan "+file.Plan.ID)()
		outcome, err := h.Planner().Apply(ctx, file, plan.ApplyOptions{Fresh: v.fresh, Approved: true}, route.Call{Progress: view.update})
		view.end()
		if outcome == nil {
			return &exitError{exitFailed, fmt.Errorf("plan %s cannot be applied: %w: nothing was done", file.Plan.ID, err)}
		}
		return errors.Join(v.report(cmd, file, outcome, mask), err)
	})
}

// confirm asks whether the plan may be applied, unless its digest was given.
func (v *applyView) confirm(ctx context.Context, cmd *cobra.Command, h *host.Host, file *plan.File) error {
	switch {
	case v.digest != "", v.yes && h.Plans().Sealed(file):
		return nil
	case v.yes:
		return &exitError{exitUsage, fmt.Errorf("plan %s was not made with this store, so --yes is not enough: review it, and give its digest (--digest %s)", file.Plan.ID, file.Digest)}
	}
	fmt.Fprint(cmd.ErrOrStderr(), file.Text())
	asker := findAsker(cmd)
	if asker == nil {
		return &exitError{exitUsage, fmt.Errorf("nothing was done: there is no terminal to ask on (review the plan, and give its digest: --digest %s)", file.Digest)}
	}
	yes, err := asker.confirm(ctx, "apply this plan?")
	if err == nil && !yes {
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was done")
		err = &exitError{code: exitFailed}
	}
	return err
}

// report says what was done.
func (v *applyView) report(cmd *cobra.Command, file *plan.File, o *plan.Outcome, mask func(string) string) error {
	if o.Next != nil {
		if err := writePlan(v.out, o.Next, v.withAnswers); err != nil {
			return err
		}
	}
	if o.Differs {
		o.Failure.Stack = "" // the difference says it
	}
	failed := runFailure(cmd, "plan "+file.Plan.ID, o.Record, o.Failure, mask)
	if v.json {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", indentJSON(o.JSON(file)))
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

// readResultText returns the result of a script for people: text as it is, every other
// value as JSON.
func readResultText(raw []byte) string {
	if text, ok := wire.Text(raw); ok {
		return text
	}
	return string(indentJSON(raw))
}
