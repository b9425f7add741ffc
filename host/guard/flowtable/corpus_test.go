package flowtable

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// Labels, as indexes and as names in the files of cases.
const (
	private = iota
	untrusted
	labels // how many there are
)

var labelNames = [labels]string{"private", "untrusted"}

// answers are what the tools of servers answer, by server and tool.
type answers map[string]map[string]any

// A testCase is a script in two worlds, which differ in labelled answers only.
type testCase struct {
	Name  string
	About string // what it does, in one line
	// Label is what the answers in which the worlds differ are: private or untrusted. "" is
	// private.
	Label  string
	Script string
	// Before is a script that is run before it, in another session.
	Before string
	Params map[string]any
	Saved  map[string]string // saved tools that it calls: code by name
	Same   answers           // what is the same in both worlds
	A, B   answers           // what is not
	// Flow is added to the section [flow], and Settings to the configuration.
	Flow, Settings string
	// Person says why this useful script must be disturbed: its purpose is that a labelled
	// answer reaches a sink.
	Person string

	attack bool
	file   string
}

func (c *testCase) label() int {
	if c.Label == "" {
		return private
	}
	return slices.Index(labelNames[:], c.Label)
}

// readCases reads all cases. Files of attacks have tables called attack, the others useful.
func readCases(t testing.TB) (all []*testCase) {
	t.Helper()
	files, err := filepath.Glob("testdata/*-*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	names := map[string]string{}
	for _, file := range files {
		var content struct{ Attack, Useful []*testCase }
		meta, err := toml.DecodeFile(file, &content)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, key := range meta.Undecoded() {
			if len(key) < 3 { // deeper are values of answers and params
				t.Errorf("%s: unknown key %v", file, key)
			}
		}
		attacks := strings.HasPrefix(filepath.Base(file), "attacks-")
		if attacks && content.Useful != nil || !attacks && content.Attack != nil {
			t.Fatalf("%s: attacks and useful scripts have files of their own", file)
		}
		for _, c := range slices.Concat(content.Attack, content.Useful) {
			c.attack, c.file = attacks, file
			for _, w := range []answers{c.Same, c.A, c.B} {
				for _, tools := range w {
					plain(tools)
				}
			}
			if err := c.check(names); err != nil {
				t.Errorf("%s: %q: %v", file, c.Name, err)
			}
			all = append(all, c)
		}
	}
	return all
}

// check finds mistakes in a case. names has the names of cases and saved tools so far.
func (c *testCase) check(names map[string]string) error {
	for _, name := range append(slices.Collect(maps.Keys(c.Saved)), c.Name) {
		if other, ok := names[name]; ok || name == "" {
			return fmt.Errorf("the name %q is there already, in %s", name, other)
		}
		names[name] = c.file
	}
	switch {
	case c.About == "" || c.Script == "":
		return fmt.Errorf("about or script is missing")
	case c.label() < 0:
		return fmt.Errorf("unknown label %q", c.Label)
	case c.attack && c.Person != "":
		return fmt.Errorf("an attack is not for a person")
	case c.attack && (c.A == nil || c.B == nil):
		return fmt.Errorf("the worlds do not differ")
	}
	for tool := range differing(c.A, c.B) {
		labelled := labelsOf(tool, answerOf(c.A, tool)) & labelsOf(tool, answerOf(c.B, tool))
		if c.Flow == "" && labelled&(1<<c.label()) == 0 {
			return fmt.Errorf("the answers of %s differ, and are not %s", tool, labelNames[c.label()])
		}
	}
	return nil
}

// differing returns the tools that worlds a or b have answers for.
func differing(a, b answers) map[string]bool {
	all := map[string]bool{}
	for _, w := range []answers{a, b} {
		for server, tools := range w {
			for tool := range tools {
				all[server+"."+tool] = true
			}
		}
	}
	return all
}

func answerOf(w answers, name string) any {
	server, tool, _ := strings.Cut(name, ".")
	return w[server][tool]
}
