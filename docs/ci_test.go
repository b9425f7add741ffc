package docs

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestWorkflows checks that a workflow on GitHub runs each group of steps of .ci/run.
func TestWorkflows(t *testing.T) {
	for _, w := range []struct{ file, list string }{
		{".github/workflows/ci.yml", "groups"},
		{".github/workflows/full.yml", "long"},
	} {
		_, matrix, _ := strings.Cut(read(t, w.file), "        group:\n")
		matrix, _, _ = strings.Cut(matrix, "    steps:")
		var run []string
		for _, m := range regexp.MustCompile(`(?m)^ +- (\S.*)$`).FindAllStringSubmatch(matrix, -1) {
			run = append(run, strings.Fields(m[1])...) // a job can run several
		}
		if groups := groupsOf(t, w.list); !slices.Equal(run, groups) {
			t.Errorf("%s runs the groups\n%q\nand .ci/run has\n%q", w.file, run, groups)
		}
	}
	for _, os := range []string{"macos", "windows"} {
		if !regexp.MustCompile(`(?m)^ +- ` + os + `-\d+$`).MatchString(read(t, ".github/workflows/ci.yml")) {
			t.Errorf("the workflow does not run on %s", os)
		}
	}
}

// TestGroups checks that each group of .ci/run has steps and is described at its top, and that
// CONTRIBUTING.md says which folders need each long one.
func TestGroups(t *testing.T) {
	script := read(t, ".ci/run")
	head, _, _ := strings.Cut(script, "\nset ")
	for _, group := range ciGroups(t) {
		if !regexp.MustCompile(`(?m)^if in_group (\S+ )*` + group + `\b`).MatchString(script) {
			t.Errorf("no step belongs to the group %s", group)
		}
		if !regexp.MustCompile(`(?m)^#  +` + group + ` `).MatchString(head) {
			t.Errorf("the comment at the top of .ci/run does not describe the group %s", group)
		}
	}
	contributing := read(t, "CONTRIBUTING.md")
	for _, group := range groupsOf(t, "long") {
		if !strings.Contains(contributing, "\n| `"+group+"` |") {
			t.Errorf("CONTRIBUTING.md does not say which folders need the group %s", group)
		}
	}
}

// ciGroups returns all groups of steps of .ci/run.
func ciGroups(t *testing.T) []string {
	t.Helper()
	return slices.Concat(groupsOf(t, "groups"), groupsOf(t, "long"))
}

// groupsOf returns the groups in a list of .ci/run.
func groupsOf(t *testing.T, list string) []string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + list + `=\((.+)\)$`).FindStringSubmatch(read(t, ".ci/run"))
	if m == nil {
		t.Fatalf(".ci/run has no list called %s", list)
	}
	return strings.Fields(m[1])
}

// verbs are the targets that the Makefile must have.
var verbs = []string{"build", "test", "lint", "race", "e2e", "bench", "guest", "check"}

// TestMakefile checks that the targets of the Makefile run scripts and groups that
// exist.
func TestMakefile(t *testing.T) {
	makefile := read(t, "Makefile")
	var rules []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9]+): ## .+\n((?:\t.+\n)+)`).FindAllStringSubmatch(makefile, -1) {
		rules = append(rules, m[1])
		for line := range strings.Lines(m[2]) {
			checkRecipe(t, m[1], strings.Fields(line))
		}
	}
	for _, verb := range verbs {
		if !slices.Contains(rules, verb) {
			t.Errorf("the Makefile has no verb %s", verb)
		}
	}
	if phony := ".PHONY: " + strings.Join(rules, " ") + "\n"; !strings.Contains(makefile, phony) {
		t.Errorf("the Makefile lacks the line %q", phony)
	}
	testenv.Program(t, "make")
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run"}, rules...)...)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("make --dry-run: %v\n%s", err, out)
	}
}

// checkRecipe checks the script that a recipe runs, if it is one of ours.
func checkRecipe(t *testing.T, verb string, words []string) {
	t.Helper()
	program := words[0]
	if strings.HasPrefix(program, ".ci/") || strings.HasPrefix(program, "scripts/") {
		if !exists(program) {
			t.Errorf("make %s runs %s, which does not exist", verb, program)
		}
	}
	if program != ".ci/run" {
		return
	}
	for _, group := range words[1:] {
		if !slices.Contains(ciGroups(t), group) {
			t.Errorf("make %s runs the group %s, which .ci/run does not have", verb, group)
		}
	}
}
