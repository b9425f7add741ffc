package host

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
)

// TestChangesOfAnUpstream checks which changes require a restart of the upstream.
func TestChangesOfAnUpstream(t *testing.T) {
	base := config.Upstream{Name: "x", Transport: config.Stdio, Command: "x", Isolation: config.Shared, Prefix: "x__"}
	for _, tt := range []struct {
		want   string
		change func(u *config.Upstream)
	}{
		{"replaced (command, args)", func(u *config.Upstream) { u.Command, u.Args = "y", []string{"z"} }},
		{"replaced (cwd)", func(u *config.Upstream) { u.Dir = "/" }},
		{"replaced (transport, url, headers)", func(u *config.Upstream) {
			u.Transport, u.URL, u.Headers = config.StreamableHTTP, "http://x", map[string]string{"A": "b"}
		}},
		{"replaced (oauth)", func(u *config.Upstream) { u.OAuth = &config.OAuth{} }},
		{"replaced (timeout)", func(u *config.Upstream) { u.Timeout = time.Second }},
		{"replaced (max_timeout, restart)", func(u *config.Upstream) { u.MaxTimeout, u.Restart = 1, config.RestartNever }},
		{"replaced (isolation)", func(u *config.Upstream) { u.Isolation = config.PerSession }},
		{"replaced (env, prefix)", func(u *config.Upstream) { u.Env, u.Prefix = map[string]string{"A": "b"}, "" }},
		{"adjusted (prefix, start, expose, hide)", func(u *config.Upstream) {
			u.Prefix, u.Start, u.Expose, u.Hide = "", config.Lazy, []string{"a"}, []string{"b"}
		}},
		{"replaced (references)", func(u *config.Upstream) { u.References = []config.PlacedReference{{From: 1}} }},
		{"replaced (mistakes)", func(u *config.Upstream) {
			u.Invalid = &config.EntryError{Upstream: "x", Problems: []*config.Problem{{Text: "wrong"}}}
		}},
		{"removed", func(u *config.Upstream) { u.Disabled = true }},
	} {
		now := base
		tt.change(&now)
		of := func(u config.Upstream) *config.Config { return &config.Config{Upstreams: []config.Upstream{u}} }
		changes, _ := compareConfigs(supervise.ManyClients, of(base), of(now))
		if got, want := changes.Lines(), []string{`upstream "x": ` + tt.want}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if changes, _ := compareConfigs(supervise.ManyClients, of(now), of(now)); changes.Lines() != nil {
			t.Errorf("nothing has changed, but: %q", changes.Lines())
		}
	}
}

// TestBroken checks that a new configuration is refused if an upstream that was right has a
// mistake in it, but not because of others.
func TestBroken(t *testing.T) {
	of := func(texts map[string]string) *config.Config {
		c := &config.Config{}
		for name, text := range texts {
			u := config.Upstream{Name: name}
			if text != "" {
				u.Invalid = &config.EntryError{Upstream: name, Problems: []*config.Problem{{Text: text}}}
			}
			c.Upstreams = append(c.Upstreams, u)
		}
		return c
	}
	old := of(map[string]string{"right": "", "wrong": "typo"})
	if err := brokenUpstreams(old, of(map[string]string{"right": "", "wrong": "another", "new": "typo"})); err != nil {
		t.Error(err)
	}
	if err := brokenUpstreams(old, of(map[string]string{"right": "typo", "wrong": ""})); err == nil || err.Error() != "typo" {
		t.Error(err)
	}
}

// TestChangesOfBuiltins checks that switches of built-in tools have the names of their
// keys.
func TestChangesOfBuiltins(t *testing.T) {
	old := &config.Config{Builtins: config.Builtins{Off: []string{"runs"}}}
	next := &config.Config{Builtins: config.Builtins{Off: []string{"test_tool"}}}
	changes, adopted := compareConfigs(supervise.OneClient, old, next)
	if got, want := changes.Lines(), []string{"builtins.test_tool: changed", "builtins.runs: changed"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if adopted.Builtins.On("test_tool") || !adopted.Builtins.On("runs") {
		t.Errorf("the switches are not applied: %v", adopted.Builtins.Off)
	}
}

// compiledPolicy stands for a compiled policy.
type compiledPolicy struct{ *config.Policy }

func (*compiledPolicy) Covered() map[int]int { return nil }

// TestUnchangedPolicy checks that a reload of the same rules keeps the policy, and with it what
// it has decided about requests and subscriptions that go on.
func TestUnchangedPolicy(t *testing.T) {
	load := func(action string) *config.Config {
		file := filepath.Join(t.TempDir(), "config.toml")
		text := "[[policy.rule]]\nname = \"r\"\ntools = [\"a.*\"]\naction = \"" + action + "\"\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.LoadOptions{Context: t.Context(), Flag: file, Policies: func(p *config.Policy) (config.CompiledPolicy, []config.RuleMistake) {
			return &compiledPolicy{p}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	old, same, other := load("deny"), load("deny"), load("ask")
	if _, adopted := compareConfigs(supervise.OneClient, old, same); adopted.Policy.Compiled() != old.Policy.Compiled() {
		t.Error("the same rules are another policy")
	}
	for _, next := range []*config.Config{other, {}} {
		if _, adopted := compareConfigs(supervise.OneClient, old, next); adopted.Policy.Compiled() != next.Policy.Compiled() {
			t.Error("other rules are not used")
		}
	}
	if _, adopted := compareConfigs(supervise.OneClient, &config.Config{}, old); adopted.Policy.Compiled() != old.Policy.Compiled() {
		t.Error("the first rules are not used")
	}
}
