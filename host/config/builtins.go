package config

import (
	"slices"
	"strings"
)

// BuiltinSwitch is a key of [builtins], which switches built-in tools on or off.
type BuiltinSwitch struct {
	Key   string
	Tools []string // the tools that it switches, in the order of package builtin
	// mistaken are keys that people may write instead; table.close uses them for hints.
	mistaken []string
}

// BuiltinSwitches are the keys of [builtins]. All are on by default. A tool without a
// switch is always available. Tests of package builtin compare the keys with its table of
// tools and with docs/configuration.md.
var BuiltinSwitches = []BuiltinSwitch{
	{Key: "test_tool", Tools: []string{"test_tool"}, mistaken: []string{"test"}},
	{Key: "plans", Tools: []string{"plan_tool", "apply_plan"}, mistaken: []string{"plantool", "applyplan"}},
	{Key: "runs", Tools: []string{"list_runs", "show_run"}, mistaken: []string{"listruns", "showrun"}},
}

// Builtins holds which built-in tools are switched off. In the zero value all are on.
type Builtins struct {
	Off []string // keys of BuiltinSwitches
}

// On reports whether a key of BuiltinSwitches is on.
func (b Builtins) On(key string) bool { return !slices.Contains(b.Off, key) }

// decodeBuiltins reads [builtins].
func decodeBuiltins(t *table, c *Config) {
	if t == nil {
		return
	}
	aliases := map[string]string{}
	for _, s := range BuiltinSwitches {
		on := true
		if t.boolean(t.key(s.Key), &on); !on {
			c.Builtins.Off = append(c.Builtins.Off, s.Key)
		}
		for _, m := range s.mistaken {
			aliases[m] = s.Key
		}
	}
	t.close(aliases)
}

// builtins describes which built-in tools are switched off.
func (d *description) builtins(b Builtins) {
	var without []string
	for _, s := range BuiltinSwitches {
		if !b.On(s.Key) {
			without = append(without, s.Tools...)
		}
	}
	if without != nil {
		d.line("builtins", "without "+strings.Join(without, ", "))
	}
}
