package docs

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestWorkflow checks that the workflow on GitHub runs each group of steps of .ci/run.
func TestWorkflow(t *testing.T) {
	groups := ciGroups(t)
	workflow := read(t, ".github/workflows/ci.yml")
	_, matrix, _ := strings.Cut(workflow, "        group:\n")
	matrix, _, _ = strings.Cut(matrix, "    steps:")
	var run []string
	for _, m := range regexp.MustCompile(`(?m)^ +- (\S.*)$`).FindAllStringSubmatch(matrix, -1) {
		run = append(run, strings.Fields(m[1])...) // a job can run several
	}
	if !slices.Equal(run, groups) {
		t.Errorf("the workflow runs the groups\n%q\nand .ci/run has\n%q", run, groups)
	}
	for _, os := range []string{"macos", "windows"} {
		if !regexp.MustCompile(`(?m)^ +- ` + os + `-\d+$`).MatchString(workflow) {
			t.Errorf("the workflow does not run on %s", os)
		}
	}
}

// TestGroups checks that each group of .ci/run has steps and is described at its top.
func TestGroups(t *testing.T) {
	script := read(t, ".ci/run")
	for _, group := range ciGroups(t) {
		if !regexp.MustCompile(`(?m)^if in_group (\S+ )*` + group + `\b`).MatchString(script) {
			t.Errorf("no step belongs to the group %s", group)
		}
		head, _, _ := strings.Cut(script, "\nset ")
		if !regexp.MustCompile(`(?m)^#.*\b` + group + `\b`).MatchString(head) {
			t.Errorf("the comment at the top of .ci/run does not describe the group %s", group)
		}
	}
}

func ciGroups(t *testing.T) []string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^groups=\((.+)\)$`).FindStringSubmatch(read(t, ".ci/run"))
	if m == nil {
		t.Fatal("no list of groups in .ci/run")
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
		if group != "race" && !slices.Contains(ciGroups(t), group) {
			t.Errorf("make %s runs the group %s, which .ci/run does not have", verb, group)
		}
	}
}
