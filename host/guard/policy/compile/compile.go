// Package compile compiles the policy of a configuration, with its conditions in CEL
// (github.com/google/cel-spec). Begin with [Policy] and [Of]. Only programs that judge by a policy
// link this package; all other code gets by with package policy.
package compile

import (
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
)

// Policy compiles the policy of a configuration, for [config.LoadOptions].
func Policy(p *config.Policy) (config.CompiledPolicy, []config.RuleMistake) {
	var rules []policy.Rule
	for _, r := range p.Rules {
		rules = append(rules, policy.Rule{
			Name: r.Name, Clients: r.Clients, Tools: r.Tools, Resources: r.Resources, Prompts: r.Prompts,
			Completions: r.Completions, When: r.When, Action: policy.Action(r.Action), Reason: r.Reason,
		})
	}
	compiled, errs := Rules(policy.Action(p.Default), rules...)
	var mistakes []config.RuleMistake
	for _, e := range errs {
		mistakes = append(mistakes, config.RuleMistake{Rule: e.Rule, Offset: e.Offset, Text: e.Text})
	}
	return compiled, mistakes
}

// Rules compiles rules; see [policy.Compile].
func Rules(fallback policy.Action, rules ...policy.Rule) (*policy.Policy, []*policy.RuleError) {
	return policy.Compile(fallback, rules, newCondition)
}

// Of returns the compiled policy of a configuration, nil for none. If the configuration was loaded
// without [Policy], the result denies everything.
func Of(p *config.Policy) *policy.Policy {
	if p.Default == "" && p.File == "" && len(p.Rules) == 0 {
		return nil
	}
	if compiled, ok := p.Compiled().(*policy.Policy); ok {
		return compiled
	}
	denied, _ := Rules(policy.Deny, policy.Rule{Name: "not compiled", Action: policy.Deny, Reason: "the policy was not compiled when the configuration was loaded"})
	return denied
}
