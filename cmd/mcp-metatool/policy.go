package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// policyCommand looks at policies. It starts no server.
func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check, explain and try out the rules that say which calls are allowed",
		Args:  onlyVerbs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return &exitError{exitUsage, errors.New("policy: choose one of: policy check, policy explain TARGET, policy test")}
		},
	}
	cmd.AddCommand(policyCheckCommand(), policyExplainCommand(), policyTestCommand())
	return cmd
}

// policyView has what the verbs of policy have in common.
type policyView struct {
	settings
	file   string
	asJSON bool
}

func (v *policyView) addFlags(cmd *cobra.Command) {
	v.settings.addFlags(cmd, silent)
	f := cmd.Flags()
	f.StringVar(&v.file, "policy", "", "use the rules in `FILE`, not those of the configuration")
	f.BoolVar(&v.asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("policy", filesOf("toml")) // there is such a flag
}

// open returns the configuration, and the policy that the flags choose.
func (v *policyView) open() (*config.Config, *config.Policy, error) {
	cfg, err := v.load()
	if err != nil {
		return nil, nil, err
	}
	p := &cfg.Policy
	if v.file != "" {
		if p, err = config.LoadPolicy(config.LoadOptions{Context: v.cmd.Context(), Policies: compile.Policy}, v.file); err != nil {
			return nil, nil, &exitError{exitUsage, err}
		}
	}
	if compile.Of(p) == nil {
		return nil, nil, &exitError{exitUsage, errors.New("there is no policy: everything is allowed (write [policy] into the configuration, or name a file with --policy)")}
	}
	return cfg, p, nil
}

// unknownTools returns the tools that rules name and that their servers did not have when they
// last ran.
func unknownTools(ctx context.Context, cfg *config.Config, rules []config.PolicyRule) (found []policy.UnknownName) {
	servers := &remembered{ctx: ctx, cfg: cfg, tools: map[string]map[string][]byte{}}
	namesOf := func(server string) ([]string, bool) {
		switch server {
		case policy.BuiltinTools:
			return builtin.Names(), true
		case policy.SavedTools:
			var names []string
			for _, d := range savedDefinitions(cfg) {
				names = append(names, d.Name)
			}
			return names, true
		}
		if !slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == server }) {
			return nil, false // there is a warning of that
		}
		return servers.ServerTools(server)
	}
	for _, r := range rules {
		found = append(found, policy.UnknownTools(r.Name, r.Tools, namesOf)...)
	}
	return found
}

// definitions returns the definitions of tools as far as they are known without starting
// servers: those that servers had when they last ran.
func definitions(ctx context.Context, cfg *config.Config, saved []tools.Definition) func(server, tool string) []byte {
	servers := &remembered{ctx: ctx, cfg: cfg, tools: map[string]map[string][]byte{}}
	return func(server, tool string) []byte {
		switch server {
		case policy.BuiltinTools:
			return builtin.Definition(tool)
		case policy.SavedTools:
			for _, d := range saved {
				if d.Name == tool {
					return compose.DefinitionWith(d, servers)
				}
			}
			return nil
		}
		return servers.Definition(server, tool)
	}
}

// remembered are the tools that servers had when they last ran. It implements
// permissions.Servers.
type remembered struct {
	ctx   context.Context
	cfg   *config.Config
	tools map[string]map[string][]byte // by server, once they are read
}

func (r *remembered) of(server string) map[string][]byte {
	if r.tools[server] == nil {
		r.tools[server] = map[string][]byte{}
		for _, item := range supervise.RememberedDefinitions(r.ctx, filepath.Join(r.cfg.Store.Dir, "servers"), server) {
			name, _ := wire.GetString(item, "name")
			r.tools[server][name] = item
		}
	}
	return r.tools[server]
}

func (r *remembered) Definition(server, tool string) []byte { return r.of(server)[tool] }

func (r *remembered) ServerTools(server string) ([]string, bool) {
	names := slices.Sorted(maps.Keys(r.of(server)))
	return names, len(names) > 0
}

// savedDefinitions returns the saved tools, none if they cannot be read.
func savedDefinitions(cfg *config.Config) []tools.Definition {
	list, err := host.ReadTools(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	return list
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
		fmt.Fprintf(v.cmd.ErrOrStderr(), "warning: %s\n", display.Text(w))
	}
	for _, u := range unknownTools(v.cmd.Context(), cfg, p.Rules) {
		fmt.Fprintf(v.cmd.ErrOrStderr(), "warning: %s\n", display.Line(u.String(), 300))
	}
	rules := []listedRule{}
	for _, r := range p.Rules {
		rules = append(rules, listedRule{
			Name: r.Name, Action: string(r.Action), Clients: r.Clients, Tools: r.Tools, Resources: r.Resources,
			Prompts: r.Prompts, Completions: r.Completions, When: r.When, Reason: r.Reason,
		})
	}
	out := v.cmd.OutOrStdout()
	if v.asJSON {
		return writeJSON(out, struct {
			Default string       `json:"default"`
			File    string       `json:"file,omitempty"`
			Rules   []listedRule `json:"rules"`
		}{string(p.Default), p.File, rules})
	}
	t := newTable(out)
	t.head(right("#"), "RULE", "ACTION", "ABOUT", "CLIENTS", "CONDITION")
	for i, r := range rules {
		about := listOr(slices.Concat(r.Tools, r.Resources, r.Prompts, r.Completions), "everything")
		t.row(i+1, r.Name, actionCell(policy.Action(r.Action)), about, listOr(r.Clients, "all"), display.Line(r.When, 200))
	}
	t.row("", "default", actionCell(policy.Action(p.Default)), "everything", "all", "")
	return t.flush()
}
