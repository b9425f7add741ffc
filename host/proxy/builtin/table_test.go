package builtin

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
)

// TestTable checks that the rows of the table are complete, and that all copies of
// parts of it agree.
func TestTable(t *testing.T) {
	listed := firstColumn(t, "../../../docs/agents.md", "| tool | |")
	var switches []config.BuiltinSwitch
	for _, row := range table() {
		if row.name == "" || row.define == nil || row.call == nil {
			t.Errorf("the row of %q has no name, definition or handler", row.name)
		}
		if !slices.Contains(listed, row.name) {
			t.Errorf("docs/agents.md does not list %s", row.name)
		}
		if row.setting == "" {
			continue
		}
		i := slices.IndexFunc(switches, func(s config.BuiltinSwitch) bool { return s.Key == row.setting })
		if i < 0 {
			i, switches = len(switches), append(switches, config.BuiltinSwitch{Key: row.setting})
		}
		switches[i].Tools = append(switches[i].Tools, row.name)
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(names)))); n != len(table()) {
		t.Errorf("%d tools have %d names", len(table()), n)
	}
	for _, name := range listed {
		if !slices.Contains(names, name) {
			t.Errorf("docs/agents.md lists %s, which the table does not have", name)
		}
	}
	if got, want := keysAndTools(config.BuiltinSwitches), keysAndTools(switches); got != want {
		t.Errorf("config.BuiltinSwitches has %s, the table has %s", got, want)
	}
}

func keysAndTools(switches []config.BuiltinSwitch) string {
	var all []string
	for _, s := range switches {
		all = append(all, fmt.Sprintf("%s: %s", s.Key, strings.Join(s.Tools, " ")))
	}
	return strings.Join(all, ", ")
}

// TestSwitchesAreDocumented compares the table of [builtins] in
// docs/configuration.md with the switches.
func TestSwitchesAreDocumented(t *testing.T) {
	text := read(t, "../../../docs/configuration.md")
	_, section, found := strings.Cut(text, "\n### `[builtins]`")
	if !found {
		t.Fatal("docs/configuration.md has no section on [builtins]")
	}
	section, _, _ = strings.Cut(section, "\n#")
	var got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `true` \\| (.*) \\|$").FindAllStringSubmatch(section, -1) {
		for _, s := range config.BuiltinSwitches {
			for _, tool := range s.Tools {
				if s.Key == row[1] && !strings.Contains(row[2], "`"+tool+"`") {
					t.Errorf("the row of %s does not say that it switches %s: %s", s.Key, tool, row[2])
				}
			}
		}
		got = append(got, row[1])
	}
	var want []string
	for _, s := range config.BuiltinSwitches {
		want = append(want, s.Key)
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/configuration.md has the keys %q, the configuration %q", got, want)
	}
}

// TestEndToEndNames compares the list of tools in the end-to-end tests with the
// table.
func TestEndToEndNames(t *testing.T) {
	const file = "../../../scripts/endtoend/lists.js"
	list := regexp.MustCompile(`export const builtins = \[([^\]]*)\]`).FindStringSubmatch(read(t, file))
	if list == nil {
		t.Fatalf("%s does not export builtins", file)
	}
	var got []string
	for _, name := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(list[1], -1) {
		got = append(got, name[1])
	}
	if !slices.Equal(got, names) {
		t.Errorf("%s has %q, the table %q", file, got, names)
	}
}

// TestSwitchedOff checks that each switch takes away its tools and no others.
func TestSwitchedOff(t *testing.T) {
	all := newRunFixture(t).handler.cfg
	on := func(o Options) []string {
		var on []string
		for _, e := range New(o).Entries() {
			on = append(on, e.Name)
		}
		return on
	}
	before := on(all)
	for _, s := range config.BuiltinSwitches {
		some := all
		some.Switches = config.Builtins{Off: []string{s.Key}}
		want := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return slices.Contains(s.Tools, name) })
		if got := on(some); !slices.Equal(got, want) || len(got)+len(s.Tools) != len(before) {
			t.Errorf("without %s there are %q, want %q", s.Key, got, want)
		}
	}
}

// firstColumn returns the names in the first column of the table that follows the line
// head in a document.
func firstColumn(t *testing.T, file, head string) []string {
	t.Helper()
	_, rows, found := strings.Cut(read(t, file), head+"\n")
	if !found {
		t.Fatalf("%s has no table %s", file, head)
	}
	rows, _, _ = strings.Cut(rows, "\n\n")
	var names []string
	for row := range strings.Lines(rows) {
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			names = append(names, name[1])
		}
	}
	return names
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestListIsShort checks the size of the list of all built-in tools, which every session
// pays for: 2,600 tokens of 4 characters for three servers whose own tools are hidden.
func TestListIsShort(t *testing.T) {
	full := wire.Quote(codeDescription([]string{"everything", "filesystem", "memory"}))
	size := len(`{"tools":[]}`)
	for _, row := range table() {
		code := wire.Quote(sameCode)
		if row.name == compose.EvalName {
			code = full
		}
		def := row.define(row.name, code)
		def.RawOutputSchema = nil
		n := len(wire.Marshal(def)) + len(",")
		t.Logf("%s: %d", row.name, n)
		size += n
	}
	if size > 10_400 {
		t.Errorf("the list has %d characters", size)
	}
}
