package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/backtest"
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

What is asked for counts as approved. The calls of a run that would have been denied as a
whole would not have been made; after a single call that would have been denied, the script
is taken to go on as it did. Tools have the definitions that their servers had when they
last ran. Some calls cannot be judged: if a rule reads their arguments, and these were not
recorded ([journal] proxied = "full" records those of calls without a script) or were
redacted; or if a rule reads the annotations of a tool that is not known any more. Calls of
built-in tools other than eval_starlark, and requests for resources, prompts and
completions, are only in the journal if they were asked for or denied: others are not
judged, and do not count for the rules that count calls.

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
	defer v.runs.release()
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
	groups := backtest.Judge(compile.Of(p), runs, calls, definitions(cmd.Context(), cfg, savedDefinitions(cfg)))
	done()
	show := v.text
	if v.asJSON {
		show = v.json
	}
	return errors.Join(show(cmd.OutOrStdout(), groups), v.runs.end())
}

// notInJournal are the requests that policy decides about and that the journal does not have.
var notInJournal = []string{
	"allowed calls of built-in tools (but eval_starlark)", "allowed requests for resources", "allowed requests for prompts",
	"allowed completions",
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
	NotMade   bool          `json:"notMade,omitempty"`
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
			if c.Plain() && !v.all {
				continue
			}
			unknown := ""
			if c.Doubt != nil {
				unknown = c.Doubt.String()
			}
			calls = append(calls, judgedCall{
				Target: c.Target(), Arguments: rawJSON(c.Arguments), Script: c.Script, Action: c.Decision.Action, Rule: c.Decision.Rule,
				Reason: c.Decision.Reason, Unknown: unknown, NotMade: c.Unmade, Recorded: recordedAction(&c),
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
		Groups    int             `json:"runs"`
		Sum       backtest.Counts `json:"sum"`
		NotJudged []string        `json:"notJudged"`
	}{len(groups), sum, notInJournal})
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
		if n.Asked+n.Denied+n.Unmade+n.Doubtful == 0 && !v.all {
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
			if c.Plain() && !v.all {
				continue
			}
			action, why := actionCell(c.Decision.Action), fmt.Sprintf("rule %q", c.Decision.Rule)
			switch {
			case c.Unmade:
				action, why = display.Cell{Text: "not made", Style: display.Caution}, "its run is denied"
			case c.Doubt != nil:
				action, why = display.Cell{Text: "unknown", Style: display.Caution}, c.Doubt.String()
			case c.Decision.Rule == policy.DefaultRule:
				why = "default"
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
	_, err := fmt.Fprint(w, summary(len(groups), sum))
	return err
}

// summary returns the last lines of the text.
func summary(groups int, sum backtest.Counts) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs and calls without a script: of all calls %d allowed, %d asked for, %d denied, %d not made, %d cannot be judged",
		groups, sum.Allowed, sum.Asked, sum.Denied, sum.Unmade, sum.Doubtful)
	var why []string
	for _, r := range []struct {
		calls int
		what  string
	}{
		{sum.Why.NotRecorded, "arguments not recorded"}, {sum.Why.Redacted, "arguments redacted"}, {sum.Why.Definition, "definition not known"}, {sum.Why.Labels, "labels not known"},
	} {
		if r.calls > 0 {
			why = append(why, fmt.Sprintf("%s: %d", r.what, r.calls))
		}
	}
	if why != nil {
		fmt.Fprintf(&b, " (%s)", strings.Join(why, ", "))
	}
	fmt.Fprintf(&b, "\nnot judged, since the journal does not have them: %s\n", strings.Join(notInJournal, ", "))
	return b.String()
}
