package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/backtest"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/policy"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// policyTestView is one run of policy test.
type policyTestView struct {
	policyView
	runs runsView
	all  bool
}

func policyTestCommand() *cobra.Command {
	v := &policyTestView{}
	cmd := &cobra.Command{
		Use:   "test",
		Short: "Say what a policy would have done with the calls that the journal has",
		Long: `Judge the calls in the journal by the policy of the configuration, or by that in a
file, and say which of them it would have asked for and denied, run by run. Nothing is
called.

What is asked for counts as approved. Tools have the definitions that their servers had
when they last ran. Some calls cannot be judged: if a rule reads their arguments, and
these were not recorded ([journal] proxied = "full" records those of calls without a
script) or were redacted; or if a rule reads the annotations of a tool that is not known
any more. Calls of built-in tools other than eval_starlark, and requests for resources,
prompts and completions, are only in the journal if they were asked for or denied.

With --json each run, or call without a script, is an object on a line of its own; the
last line has the sums.`,
		Example: `  mcp-metatool policy test --since 30d --policy policy.new.toml
  mcp-metatool policy test --since 7d --all --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.test(cmd) },
	}
	v.addFlags(cmd)
	v.runs.addPeriod(cmd)
	cmd.Flags().StringVar(&v.runs.dir, "dir", "", "read the journal in `DIR` (default: that of the configuration)")
	cmd.Flags().BoolVar(&v.all, "all", false, "also list runs and calls that would have been allowed as a whole")
	return cmd
}

// maxJudged is how many runs and calls are judged at once. They are held in memory, since
// counters need them in the order of their time.
const maxJudged = 200_000

var errTooMany = fmt.Errorf("the journal has more than %d runs and calls in that time (choose a shorter one with --since and --until)", maxJudged)

func (v *policyTestView) test(cmd *cobra.Command) error {
	cfg, p, err := v.open()
	if err != nil {
		return err
	}
	v.runs.config, v.runs.cmd = v.config, cmd
	if err := v.runs.open(cmd); err != nil {
		return err
	}
	f, err := v.runs.filter(time.Now())
	if err != nil {
		return err
	}
	done := busy(cmd, "reading the journal in "+v.runs.dir)
	defer done()
	var runs []journal.Record
	var calls []journal.Proxied
	for rec := range v.runs.records(cmd.Context(), f) {
		backtest.Strip(&rec)
		if runs = append(runs, rec); len(runs) > maxJudged {
			return &exitError{exitUsage, errTooMany}
		}
	}
	for call := range v.runs.calls(cmd.Context(), f) {
		if calls = append(calls, call); len(runs)+len(calls) > maxJudged {
			return &exitError{exitUsage, errTooMany}
		}
	}
	if cause := context.Cause(cmd.Context()); cause != nil {
		return cause
	}
	groups := backtest.Judge(p.Compiled(), runs, calls, definitions(cmd.Context(), cfg, savedDefinitions(cfg)))
	done()
	show := v.text
	if v.asJSON {
		show = v.json
	}
	return errors.Join(show(cmd.OutOrStdout(), groups), v.runs.end())
}

// judgedCall is a call in the output of policy test.
type judgedCall struct {
	Target    string        `json:"target"`
	Arguments rawJSON       `json:"arguments,omitempty"`
	Script    string        `json:"script,omitempty"`
	Action    policy.Action `json:"action,omitempty"`
	Rule      string        `json:"rule,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Unknown   string        `json:"unknown,omitempty"`
	Recorded  policy.Action `json:"recorded"`
}

// rawJSON is raw JSON.
type rawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// recordedAction returns what policy decided at the time.
func recordedAction(v *backtest.Verdict) policy.Action {
	if v.Recorded == nil {
		return policy.Allow
	}
	return v.Recorded.Action
}

func (v *policyTestView) json(w io.Writer, groups []backtest.Group) error {
	var sum backtest.Counts
	for _, g := range groups {
		sum.Add(g.Count())
		calls := []judgedCall{}
		for _, c := range g.Verdicts {
			if c.Doubt == "" && c.Decision.Allowed() && !v.all {
				continue
			}
			calls = append(calls, judgedCall{
				Target: c.Target(), Arguments: rawJSON(c.Arguments), Script: c.Script, Action: c.Decision.Action, Rule: c.Decision.Rule,
				Reason: c.Decision.Reason, Unknown: c.Doubt, Recorded: recordedAction(&c),
			})
		}
		if len(calls) == 0 {
			continue
		}
		if err := writeLine(w, struct {
			ID     string          `json:"id"`
			Start  time.Time       `json:"start"`
			Tool   string          `json:"tool,omitempty"`
			Client string          `json:"client,omitempty"`
			Token  string          `json:"token,omitempty"`
			Sum    backtest.Counts `json:"sum"`
			Calls  []judgedCall    `json:"calls"`
		}{g.ID, g.Start, g.Tool, g.Client.Name, g.Client.Token, g.Count(), calls}); err != nil {
			return err
		}
	}
	return writeLine(w, struct {
		Groups int             `json:"runs"`
		Sum    backtest.Counts `json:"sum"`
	}{len(groups), sum})
}

// writeLine writes v for programs, on one line.
func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func (v *policyTestView) text(w io.Writer, groups []backtest.Group) error {
	var sum backtest.Counts
	shown := 0
	for _, g := range groups {
		n := g.Count()
		sum.Add(n)
		if n.Asked+n.Denied+n.Doubtful == 0 && !v.all {
			continue
		}
		shown++
		what := "a call"
		if g.Tool != "" {
			what = "run " + g.ID + " of " + g.Tool
		}
		by := ""
		if name := g.Client.Token; name != "" {
			by = fmt.Sprintf(" (token %s)", name)
		} else if g.Client.Name != "" {
			by = fmt.Sprintf(" (%s)", g.Client.Name)
		}
		fmt.Fprintln(w, display.Line(stamp(g.Start)+"  "+what+by, 300))
		t := newTable(w)
		for _, c := range g.Verdicts {
			if c.Doubt == "" && c.Decision.Allowed() && !v.all {
				continue
			}
			action, why := actionCell(c.Decision.Action), fmt.Sprintf("rule %q", c.Decision.Rule)
			if c.Decision.Rule == policy.DefaultRule {
				why = "default"
			}
			if c.Doubt != "" {
				action, why = display.Cell{Text: "unknown", Style: display.Caution}, c.Doubt
			}
			if old := recordedAction(&c); old != policy.Allow {
				why += fmt.Sprintf(" (was: %s)", old)
			}
			t.row(action, c.Target(), display.Line(string(c.Arguments), 60), why)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	if shown > 0 {
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintf(w, "%d runs and calls without a script: of all calls %d allowed, %d asked for, %d denied, %d cannot be judged\n",
		len(groups), sum.Allowed, sum.Asked, sum.Denied, sum.Doubtful)
	return err
}
