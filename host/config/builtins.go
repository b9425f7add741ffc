package config

import "strings"

// Builtins says which of the built-in tools agents have that not everybody
// needs. The others are always there.
type Builtins struct {
	TestTool bool // test_tool
	Runs     bool // list_runs and show_run
}

var defaultBuiltins = Builtins{TestTool: true, Runs: true}

// decodeBuiltins reads which built-in tools there are.
func decodeBuiltins(t *table, c *Config) {
	if t == nil {
		return
	}
	t.boolean(t.key("test_tool"), &c.Builtins.TestTool)
	t.boolean("runs", &c.Builtins.Runs)
	t.close(map[string]string{"listruns": "runs", "showrun": "runs", "test": "test_tool"})
}

// builtins describes which built-in tools there are not.
func (d *description) builtins(b Builtins) {
	var without []string
	if !b.TestTool {
		without = append(without, "test_tool")
	}
	if !b.Runs {
		without = append(without, "list_runs", "show_run")
	}
	if without != nil {
		d.line("", "builtins", "without "+strings.Join(without, ", "))
	}
}
