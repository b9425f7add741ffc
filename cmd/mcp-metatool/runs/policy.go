package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/backtest"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// policyCommand looks at policies. policy starts no server.
func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check, explain and try out the rules that say which calls are allowed",
		Args:  cli.OnlyVerbs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usage(errors.New("policy: choose one of: policy check, policy explain TARGET, policy test"))
		},
	}
	cmd.AddCommand(policyCheckCommand(), policyExplainCommand(), policyTestCommand())
	return cmd
}

// policyView holds the common parts of the verbs of policy.
type policyView struct {
	cli.Settings
	file   string
	asJSON bool
}

func (v *policyView) addFlags(cmd *cobra.Command) {
	v.Settings.AddFlags(cmd, cli.Silent)
	f := cmd.Flags()
	f.StringVar(&v.file, "policy", "", "use the rules in `FILE`, not those of the configuration")
	f.BoolVar(&v.asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("policy", cli.FilesOf("toml")) // the flag exists
}

// open returns the configuration, and the policy that the flags choose.
func (v *policyView) open() (*config.Config, *config.Policy, error) {
	cfg, err := v.Load()
	if err != nil {
		return nil, nil, err
	}
	p := &cfg.Policy
	if v.file != "" {
		if p, err = config.LoadPolicy(config.LoadOptions{Context: v.Cmd.Context(), Policies: compile.Policy}, v.file); err != nil {
			return nil, nil, cli.Usage(err)
		}
	}
	if compile.Of(p) == nil {
		return nil, nil, cli.Usage(errors.New("there is no policy: everything is allowed (write [policy] into the configuration, or name a file with --policy)"))
	}
	return cfg, p, nil
}

func policyCheckCommand() *cobra.Command {
	v := &policyView{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the rules and list them; exit code 2 if there is a mistake",
		Long: `Check the rules of the configuration, or of a file, and list them in their order: the
first that matches decides. Mistakes are reported with their line and column, and the
exit code is 2. There are warnings of rules that can never decide, and of servers and
tools that there are not, as far as the tools of a server are known.`,
		Example: `  mcp-metatool policy check
  mcp-metatool policy check --policy policy.toml`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return v.check() },
	}
	v.addFlags(cmd)
	return cmd
}

// listedRule is a rule in the output of policy check.
type listedRule struct {
	Name        string   `json:"name"`
	Action      string   `json:"action"`
	Clients     []string `json:"clients,omitempty"`
	Tools       []string `json:"tools,omitempty"`
	Resources   []string `json:"resources,omitempty"`
	Prompts     []string `json:"prompts,omitempty"`
	Completions []string `json:"completions,omitempty"`
	When        string   `json:"when,omitempty"`
	Reason      string   `json:"reason,omitempty"`
}

func (v *policyView) check() error {
	cfg, p, err := v.open()
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings() {
		fmt.Fprintf(v.Cmd.ErrOrStderr(), "warning: %s\n", display.Text(w))
	}
	for _, u := range cli.UnknownTools(v.Cmd.Context(), cfg, p.Rules) {
		fmt.Fprintf(v.Cmd.ErrOrStderr(), "warning: %s\n", display.Line(u.String(), 300))
	}
	rules := []listedRule{}
	for _, r := range p.Rules {
		rules = append(rules, listedRule{
			Name: r.Name, Action: string(r.Action), Clients: r.Clients, Tools: r.Tools, Resources: r.Resources,
			Prompts: r.Prompts, Completions: r.Completions, When: r.When, Reason: r.Reason,
		})
	}
	out := v.Cmd.OutOrStdout()
	if v.asJSON {
		return cli.WriteJSON(out, struct {
			Default string       `json:"default"`
			File    string       `json:"file,omitempty"`
			Rules   []listedRule `json:"rules"`
		}{string(p.Default), p.File, rules})
	}
	t := cli.NewTable(out)
	t.Head(cli.Right("#"), "RULE", "ACTION", "ABOUT", "CLIENTS", "CONDITION")
	for i, r := range rules {
		about := listOr(slices.Concat(r.Tools, r.Resources, r.Prompts, r.Completions), "everything")
		t.Add(i+1, r.Name, actionCell(policy.Action(r.Action)), about, listOr(r.Clients, "all"), display.Line(r.When, 200))
	}
	t.Add("", "default", actionCell(policy.Action(p.Default)), "everything", "all", "")
	return t.Flush()
}

// policyExplainView is a run of policy explain.
type policyExplainView struct {
	policyView
	params, client, script, kind, server string
	token                                bool
	called                               []string
}

func policyExplainCommand() *cobra.Command {
	v := &policyExplainView{}
	cmd := &cobra.Command{
		Use:   "explain TARGET",
		Short: "Say which rule decides about a call, and why the rules before it do not",
		Long: `Say what the policy decides about a call, which rule does, and why the rules before it
do not. TARGET is SERVER.TOOL, tools.NAME for a saved tool, or builtin.NAME; with --kind
prompt it is SERVER.PROMPT, with --kind resource --server SERVER the URI.

Annotations are those of the definition that the server had when it last ran. Nothing
was called before, unless --called says so.`,
		Example: `  mcp-metatool policy explain github.merge_pull_request --params '{"repo": "prod/site"}' --client ci
  mcp-metatool policy explain builtin.eval_starlark
  mcp-metatool policy explain file:///etc/passwd --kind resource --server files`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return v.explain(args[0]) },
	}
	v.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&v.params, "params", "", "arguments: a `JSON` object, @FILE to read it from a file, - from standard input")
	f.StringVar(&v.client, "client", "", "the `NAME` of the client or of its token")
	f.BoolVar(&v.token, "token", false, "the client has a token with that name")
	f.StringVar(&v.script, "script", "", "the saved tool `NAME` makes the call, or eval_starlark")
	f.StringVar(&v.kind, "kind", string(policy.KindTool), "the `KIND` of request: tool, resource, prompt, completion")
	f.StringVar(&v.server, "server", "", "the `SERVER` of a resource, or of a completion for a URI template")
	f.StringArrayVar(&v.called, "called", nil, "`SERVER.TOOL` was called before, in the session and in the run")
	cli.CompleteFlag(cmd, "kind", cli.OneOf("tool", "resource", "prompt", "completion"))
	cli.CompleteFlag(cmd, "server", v.Servers)
	return cmd
}

// request returns the request that the arguments describe.
func (v *policyExplainView) request(target string) (policy.Request, error) {
	r := policy.Request{Kind: policy.Kind(v.kind), Server: v.server, Name: target}
	if !slices.Contains([]policy.Kind{policy.KindTool, policy.KindResource, policy.KindPrompt, policy.KindCompletion}, r.Kind) {
		return r, fmt.Errorf("--kind %s: not one of tool, resource, prompt, completion", v.kind)
	}
	if v.server == "" {
		var ok bool
		if r.Server, r.Name, ok = strings.Cut(target, "."); !ok || r.Server == "" || r.Name == "" || r.Kind == policy.KindResource {
			return r, fmt.Errorf("%s: write SERVER.NAME, such as github.merge_pull_request, or name the server of a URI with --server", target)
		}
	}
	if v.params != "" {
		args, err := cli.ReadParams(v.Cmd.Context(), v.params, v.Cmd.InOrStdin())
		if err != nil {
			return r, err
		}
		r.Arguments = args
	}
	r.Caller = policy.Caller{Client: v.client, Token: v.token, Script: v.script, SessionCalls: &policy.History{}, RunCalls: &policy.History{}}
	for _, called := range v.called {
		server, tool, ok := strings.Cut(called, ".")
		if !ok {
			return r, fmt.Errorf("--called %s: write SERVER.TOOL", called)
		}
		r.Caller.SessionCalls.Add(server, tool)
		if v.script != "" {
			r.Caller.RunCalls.Add(server, tool)
		}
	}
	return r, nil
}

// explainedRule is a rule in the output of policy explain.
type explainedRule struct {
	Rule    string `json:"rule"`
	Matched bool   `json:"matched"`
	Why     string `json:"why,omitempty"`
}

func (v *policyExplainView) explain(target string) error {
	cfg, p, err := v.open()
	if err != nil {
		return err
	}
	r, err := v.request(target)
	if err != nil {
		return cli.Usage(fmt.Errorf("policy explain: %w", err))
	}
	if r.Kind == policy.KindTool {
		r.Definition = cli.Definitions(v.Cmd.Context(), cfg, cli.SavedDefinitions(cfg))(r.Server, r.Name)
	}
	d, steps := compile.Of(p).Explain(r)
	rules := []explainedRule{}
	for _, s := range steps {
		rules = append(rules, explainedRule(s))
	}
	known := r.Definition != nil || r.Kind != policy.KindTool
	out := v.Cmd.OutOrStdout()
	if v.asJSON {
		return cli.WriteJSON(out, struct {
			Target     string          `json:"target"`
			Action     policy.Action   `json:"action"`
			Rule       string          `json:"rule"`
			Reason     string          `json:"reason,omitempty"`
			Definition bool            `json:"definitionKnown"`
			Rules      []explainedRule `json:"rules"`
		}{r.Target(), d.Action, d.Rule, d.Reason, known, rules})
	}
	if !known {
		fmt.Fprintf(v.Cmd.ErrOrStderr(), "note: %s, so its annotations have their defaults\n", display.Line(unknownTool(v.Cmd.Context(), cfg, r), 300))
	}
	decision := fmt.Sprintf("%s: %s", r.Target(), d.Action)
	if d.Rule == policy.DefaultRule {
		decision += ", by default: no rule matches"
	} else {
		decision += fmt.Sprintf(", by rule %q", d.Rule)
	}
	if d.Reason != "" {
		decision += ": " + d.Reason
	}
	fmt.Fprintln(out, display.Line(decision, 1000))
	t := cli.NewTable(out)
	t.Head(cli.Right("#"), "RULE", "MATCHES", "WHY")
	for i, s := range rules {
		word := "no"
		if s.Matched {
			word = "yes"
		}
		t.Add(i+1, s.Rule, word, cmp.Or(s.Why, "everything in it does"))
	}
	if len(rules) == 0 {
		return nil
	}
	return t.Flush()
}

// actionCell shows an action in its colour.
func actionCell(a policy.Action) display.Cell {
	styles := map[policy.Action]display.Style{policy.Allow: display.Good, policy.Ask: display.Caution, policy.Deny: display.Bad}
	return display.Cell{Text: string(a), Style: styles[a]}
}

// listOr returns the items of a list, or a word for none.
func listOr(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ", ")
}

// unknownTool says why the definition of a tool is not known, and which name may be meant.
func unknownTool(ctx context.Context, cfg *config.Config, r policy.Request) string {
	servers := []string{policy.SavedTools, policy.BuiltinTools}
	for _, u := range cfg.Upstreams {
		servers = append(servers, u.Name)
	}
	why, near := fmt.Sprintf("the definition of %s is not known", r.Target()), []string(nil)
	if !slices.Contains(servers, r.Server) {
		why, near = "there is no server "+r.Server, nearest.Names(r.Server, servers)
	} else {
		known, _ := (cli.NewRemembered(ctx, cfg)).ServerTools(r.Server)
		near = nearest.Names(r.Name, known)
	}
	if len(near) > 0 {
		why += fmt.Sprintf(" (did you mean %s?)", strings.Join(near, ", "))
	}
	return why
}

// policyTestView is a run of policy test.
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
	v.runs.Config, v.runs.Cmd = v.Config, cmd
	defer v.runs.release()
	if err := v.runs.open(cmd); err != nil {
		return err
	}
	f, err := v.runs.filter(time.Now())
	if err != nil {
		return err
	}
	done := cli.Busy(cmd, "reading the journal in "+v.runs.dir)
	defer done()
	var runs []journal.Record
	var calls []journal.Proxied
	for rec := range v.runs.records(cmd.Context(), f) {
		backtest.Strip(&rec)
		if runs = append(runs, rec); len(runs) > maxJudged {
			return cli.Usage(errTooMany)
		}
	}
	for call := range v.runs.calls(cmd.Context(), f) {
		if calls = append(calls, call); len(runs)+len(calls) > maxJudged {
			return cli.Usage(errTooMany)
		}
	}
	if cause := context.Cause(cmd.Context()); cause != nil {
		return cause
	}
	groups := backtest.Judge(compile.Of(p), runs, calls, cli.Definitions(cmd.Context(), cfg, cli.SavedDefinitions(cfg)))
	done()
	show := v.text
	if v.asJSON {
		show = v.json
	}
	return errors.Join(show(cmd.OutOrStdout(), groups), v.runs.end())
}

// notInJournal are the requests that policy decides about and the journal lacks.
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

// recordedAction returns the decision of the policy at the time.
func recordedAction(v *backtest.Verdict) policy.Action {
	if v.Recorded == nil {
		return policy.Allow
	}
	return policy.Action(v.Recorded.Action)
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

// writeLine writes v for programs, on a single line.
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
		fmt.Fprintln(w, display.Line(cli.Stamp(g.Start)+"  "+what+by, 300))
		t := cli.NewTable(w)
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
			t.Add(action, c.Target(), display.Line(string(c.Arguments), 60), why)
		}
		if err := t.Flush(); err != nil {
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
