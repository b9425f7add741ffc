package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/guard/plan"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// planView is the flags of plan.
type planView struct {
	settings
	params, out   string
	json, answers bool
	approve       approveFlag
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
	v.addFlags(cmd, slog.LevelWarn)
	cmd.ValidArgsFunction = choices(v.savedTools).orFile
	cmd.Flags().StringVar(&v.params, "params", "{}", "arguments: a `JSON` object, @FILE to read it from a file, - from standard input")
	cmd.Flags().StringVarP(&v.out, "out", "o", "", "write the plan to `FILE`, as JSON")
	cmd.Flags().BoolVar(&v.answers, "answers", false, "with -o: put the answers of reads into the file, so that they need not be made again elsewhere")
	v.approve.addFlag(cmd)
	cmd.Flags().BoolVar(&v.json, "json", false, "print the plan as JSON")
	cmd.AddCommand(planShowCommand())
	return cmd
}

// subject returns what a plan is made for: a saved tool, or the script in a file.
func (v *planView) subject(cmd *cobra.Command, name string) (plan.Subject, error) {
	params, err := readParams(cmd.Context(), v.params, cmd.InOrStdin())
	if err != nil || !strings.HasSuffix(name, ".star") {
		return plan.Subject{Tool: strings.TrimPrefix(name, "tools."), Params: params}, err
	}
	script, err := readScript(cmd.Context(), name, cmd.InOrStdin())
	return plan.Subject{Code: script.code, Params: params}, err
}

func (v *planView) plan(cmd *cobra.Command, name string) error {
	subject, err := v.subject(cmd, name)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	cfg, err := v.load()
	if err != nil {
		return err
	}
	log := v.logger(cfg)
	cfg.Debug = true // for the backtrace
	mask := cfg.NewMasker().Mask
	defer during(cmd.Context(), "the plan of "+name)()
	view := newProgressView(os.Stderr, isTerminal(os.Stderr), name)
	opts := hostOptions(log, host.NoClient)
	opts.Person = v.approve.person(cmd, view.plain)
	return withHostOf(cmd.Context(), cfg, opts, func(ctx context.Context, h *host.Host) error {
		file, rec, f := h.Planner().Make(ctx, subject, route.Call{Progress: view.update})
		view.end()
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
	return &exitError{exitFailed, fmt.Errorf("%s: %s", name, mask(f.Text()))}
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
	v.addFlags(cmd, slog.LevelWarn)
	cmd.Flags().BoolVar(&v.json, "json", false, "print the plan as JSON")
	return cmd
}

func (v *planView) show(cmd *cobra.Command, name string) error {
	cfg, err := v.load()
	if err != nil {
		return err
	}
	store, end, err := host.PlanStore(cmd.Context(), cfg, v.logger(cfg))
	if err != nil {
		return err
	}
	defer end()
	file, err := findPlan(cmd.Context(), store, name)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if err := printPlan(cmd, file, v.json); err != nil || v.json {
		return err
	}
	used, err := store.Applied(cmd.Context(), file.Digest)
	if err != nil || used == nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "\napplied at %s\n", used.At.UTC().Format("2006-01-02 15:04:05 UTC"))
	runs, release := host.OpenJournal(cfg, v.logger(cfg))
	defer release()
	after, err := plan.OnDisk(cmd.Context(), runs, file, used)
	if err != nil {
		fmt.Fprintf(cmd.OutOrStdout(), "  what was done is not known: %s. Look at the servers before you make a new plan.\n", display.Line(err.Error(), 300))
		return nil
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), after.Text())
	return err
}

// findPlan returns the plan in a file, or that of a store.
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
