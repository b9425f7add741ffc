package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// policyExplainView is one run of policy explain.
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
	completeFlag(cmd, "kind", oneOf("tool", "resource", "prompt", "completion"))
	completeFlag(cmd, "server", v.servers)
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
		args, err := readParams(v.cmd.Context(), v.params, v.cmd.InOrStdin())
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
		return &exitError{exitUsage, fmt.Errorf("policy explain: %w", err)}
	}
	if r.Kind == policy.KindTool {
		r.Definition = definitions(v.cmd.Context(), cfg, savedDefinitions(cfg))(r.Server, r.Name)
	}
	d, steps := compile.Of(p).Explain(r)
	rules := []explainedRule{}
	for _, s := range steps {
		rules = append(rules, explainedRule(s))
	}
	known := r.Definition != nil || r.Kind != policy.KindTool
	out := v.cmd.OutOrStdout()
	if v.asJSON {
		return writeJSON(out, struct {
			Target     string          `json:"target"`
			Action     policy.Action   `json:"action"`
			Rule       string          `json:"rule"`
			Reason     string          `json:"reason,omitempty"`
			Definition bool            `json:"definitionKnown"`
			Rules      []explainedRule `json:"rules"`
		}{r.Target(), d.Action, d.Rule, d.Reason, known, rules})
	}
	if !known {
		fmt.Fprintf(v.cmd.ErrOrStderr(), "note: %s, so its annotations have their defaults\n", display.Line(unknownTool(v.cmd.Context(), cfg, r), 300))
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
	t := newTable(out)
	t.head(right("#"), "RULE", "MATCHES", "WHY")
	for i, s := range rules {
		word := "no"
		if s.Matched {
			word = "yes"
		}
		t.row(i+1, s.Rule, word, cmp.Or(s.Why, "everything in it does"))
	}
	if len(rules) == 0 {
		return nil
	}
	return t.flush()
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
		known, _ := (&remembered{ctx: ctx, cfg: cfg, tools: map[string]map[string][]byte{}}).ServerTools(r.Server)
		near = nearest.Names(r.Name, known)
	}
	if len(near) > 0 {
		why += fmt.Sprintf(" (did you mean %s?)", strings.Join(near, ", "))
	}
	return why
}
