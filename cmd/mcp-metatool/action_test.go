package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// action is the metadata of a composite action for GitHub.
type action struct {
	Inputs map[string]struct {
		Description string
		Default     *string
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []actionStep
	}
}

type actionStep struct {
	ID, If, Uses, Run, Shell string
	Dir                      string `yaml:"working-directory"`
	Env, With                map[string]string
}

const actionDir = "../../.github/actions/smoke"

func readAction(t *testing.T) action {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(actionDir, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal(raw, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// job runs the steps of the action as a runner does.
type job struct {
	t       *testing.T
	dir     string // the workspace
	inputs  map[string]string
	env     []string
	outputs map[string]string // by STEP.NAME
	uses    []string          // actions that would run
	log     string
	failed  bool
}

func newJob(t *testing.T) *job {
	if runtime.GOOS == "windows" {
		t.Skip("bash and symbolic links are needed")
	}
	testenv.Program(t, "bash")
	if err := home(); err != nil {
		t.Fatal(err)
	}
	j := &job{t: t, dir: t.TempDir(), outputs: map[string]string{}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(j.dir, "mcp-metatool")); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(actionDir)
	if err != nil {
		t.Fatal(err)
	}
	j.env = append(os.Environ(), "GITHUB_ACTIONS=true", "GITHUB_WORKSPACE="+j.dir, "GITHUB_ACTION_PATH="+path,
		"RUNNER_TEMP="+filepath.Join(j.dir, "temp dir"), "RUNNER_OS=Linux", "RUNNER_ARCH=X64",
		"GITHUB_STEP_SUMMARY="+filepath.Join(j.dir, "summary"), "NAME=of the job")
	return j
}

var expression = regexp.MustCompile(`\$\{\{ *([^}]*?) *\}\}`)

// value returns the value of a simple expression.
func (j *job) value(name string) string {
	if text, ok := strings.CutPrefix(name, "'"); ok {
		return strings.TrimSuffix(text, "'")
	}
	scope, rest, _ := strings.Cut(name, ".")
	switch {
	case scope == "inputs":
		value, ok := j.inputs[rest]
		if !ok {
			j.t.Fatalf("%s: there is no such input", name)
		}
		return value
	case scope == "steps" && strings.Contains(rest, ".outputs."):
		return j.outputs[strings.Replace(rest, ".outputs.", ".", 1)]
	case name == "github.action_path":
		return actionDir
	}
	j.t.Fatalf("%s: unknown to this test", name)
	return ""
}

func (j *job) fill(text string) string {
	return expression.ReplaceAllStringFunc(text, func(e string) string { return j.value(expression.FindStringSubmatch(e)[1]) })
}

// runs reports whether a step is run.
func (j *job) runs(condition string) bool {
	always := false
	for part := range strings.SplitSeq(condition, "&&") {
		part = strings.TrimSpace(part)
		left, right, equal := strings.Cut(part, " == ")
		if !equal {
			left, right, _ = strings.Cut(part, " != ")
		}
		switch {
		case part == "":
		case part == "always()":
			always = true
		case (j.value(left) == j.value(right)) != equal:
			return false
		}
	}
	return always || !j.failed
}

// run runs all steps with these inputs.
func (j *job) run(inputs map[string]string) {
	j.t.Helper()
	a := readAction(j.t)
	j.inputs, j.failed, j.log, j.uses = map[string]string{}, false, "", nil
	clear(j.outputs)
	for name, in := range a.Inputs {
		j.inputs[name] = *in.Default
	}
	for name := range inputs {
		if _, ok := j.inputs[name]; !ok {
			j.t.Fatalf("there is no input %s", name)
		}
	}
	maps.Copy(j.inputs, inputs)
	for _, s := range a.Runs.Steps {
		if !j.runs(s.If) {
			continue
		}
		if s.Uses != "" {
			use, _, _ := strings.Cut(s.Uses, "@")
			j.uses = append(j.uses, use+" "+j.fill(s.With["path"]+s.With["go-version-file"]))
			continue
		}
		j.step(s)
	}
}

func (j *job) step(s actionStep) {
	script := filepath.Join(j.t.TempDir(), "step")
	output := script + ".out"
	for name, text := range map[string]string{script: s.Run, output: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			j.t.Fatal(err)
		}
	}
	cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", script)
	cmd.Dir = filepath.Join(j.dir, j.fill(s.Dir))
	cmd.Env = append(slices.Clone(j.env), "GITHUB_OUTPUT="+output)
	for name, text := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+j.fill(text))
	}
	log, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		j.t.Fatal(err)
	}
	j.failed = j.failed || err != nil
	j.log += string(log)
	lines, err := os.ReadFile(output)
	if err != nil {
		j.t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			j.t.Errorf("output %q", line)
		}
		j.outputs[s.ID+"."+name] = value
	}
}

func (j *job) write(files map[string]string) {
	j.t.Helper()
	for name, text := range files {
		path := filepath.Join(j.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			j.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			j.t.Fatal(err)
		}
	}
}

// wants checks some outputs of the action, and whether it has failed.
func (j *job) wants(failed bool, outputs map[string]string) {
	j.t.Helper()
	a := readAction(j.t)
	got := map[string]string{}
	for name := range outputs {
		out, ok := a.Outputs[name]
		if !ok {
			j.t.Errorf("there is no output %s", name)
		}
		got[name] = j.fill(out.Value)
	}
	if j.failed != failed || !maps.Equal(got, outputs) {
		j.t.Errorf("failed: %v, outputs %q, want %v, %q\n%s", j.failed, got, failed, outputs, j.log)
	}
}

const actionChecks = `[vars]
who = "nobody"
[[check]]
name = "answers"
tags = ["quick"]
code = """
return {"who": params.who, "name": params.name}
"""
params = { who = "{{who}}", name = "${NAME}" }
expect.result = { who = "$(touch pwned) all", name = "of the job" }
`

const actionFailing = `[[check]]
name = "fails"
code = """
return 1
"""
expect.result = 2
[[check]]
name = "is skipped"
skip = true
code = """
return 1
"""
`

// TestAction runs the action for GitHub with a program that is there.
func TestAction(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	j := newJob(t)
	j.write(map[string]string{"sub/a check; touch pwned.toml": actionChecks, "sub/failing.toml": actionFailing})
	binary := filepath.Join(j.dir, "mcp-metatool")

	j.run(map[string]string{
		"binary": binary, "working-directory": "sub", "files": "\na check; touch pwned.toml\r\n", "vars": "who=$(touch pwned) all",
		"tags": "quick\n!slow", "jobs": "2", "arguments": "--timeout=60s\n-v",
	})
	j.wants(false, map[string]string{"exit-code": "0", "checks": "1", "passed": "1", "failed": "0", "broken": "0", "skipped": "0", "coverage": "", "binary": binary})
	reports := filepath.Join(j.dir, "temp dir", "mcp-metatool-reports", "smoke")
	if want := []string{"actions/upload-artifact " + reports}; !slices.Equal(j.uses, want) {
		t.Errorf("uses %q, want %q", j.uses, want)
	}
	for _, name := range []string{"smoke.xml", "smoke.html"} {
		if text, err := os.ReadFile(filepath.Join(reports, name)); err != nil || !bytes.Contains(text, []byte("answers")) {
			t.Errorf("%s: %v\n%.2000s", name, err, text)
		}
	}

	// A failed check: the reports are uploaded too, and the summary has both runs.
	j.run(map[string]string{"binary": "./mcp-metatool", "working-directory": "sub", "files": "failing.toml", "offline": "true", "name": "other"})
	j.wants(true, map[string]string{"exit-code": "1", "checks": "2", "passed": "0", "failed": "1", "skipped": "1", "binary": binary})
	if !strings.Contains(j.log, "::error file=sub/failing.toml,line=6,") || len(j.uses) != 1 {
		t.Errorf("uses %q\n%s", j.uses, j.log)
	}
	summary, err := os.ReadFile(filepath.Join(j.dir, "summary"))
	if err != nil || !bytes.Contains(summary, []byte("1 passed")) || !bytes.Contains(summary, []byte("1 failed")) {
		t.Errorf("summary (%v):\n%s", err, summary)
	}

	// The checks of our own workflow.
	own, err := os.ReadFile(filepath.Join(actionDir, "checks.toml"))
	if err != nil {
		t.Fatal(err)
	}
	j.write(map[string]string{"own.toml": string(own)})
	j.run(map[string]string{"binary": binary, "files": "own.toml", "offline": "true"})
	j.wants(false, map[string]string{"exit-code": "0", "checks": "1", "passed": "1"})

	// Nothing is uploaded if that is not wanted, or if nothing ran.
	j.run(map[string]string{"binary": binary, "working-directory": "sub", "files": "failing.toml", "upload": "false"})
	if len(j.uses) != 0 {
		t.Errorf("uses %q", j.uses)
	}
	for _, tt := range []struct{ input, value, says string }{
		{"files", " \n", "files is empty"},
		{"files", "none.toml", "none.toml: no such file"},
		{"files", "--help", "--help: no such file"},
		{"name", "../x", "name must have letters"},
		{"offline", "yes", "offline is neither true nor false"},
		{"arguments", "--no-such-flag", "unknown flag"},
	} {
		inputs := map[string]string{"binary": binary, "working-directory": "sub", "files": "failing.toml"}
		inputs[tt.input] = tt.value
		j.run(inputs)
		j.wants(true, map[string]string{"exit-code": "2", "junit": "", "html": ""})
		if !strings.Contains(j.log, tt.says) || len(j.uses) > 0 {
			t.Errorf("%s %q: uses %q\n%s", tt.input, tt.value, j.uses, j.log)
		}
	}
	pwned := slices.Concat(glob(t, j.dir, "pwned"), glob(t, j.dir, "sub/pwned"))
	if len(pwned) > 0 {
		t.Errorf("an input was run: %q", pwned)
	}
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestActionInstalls checks how the action gets the program: from a release, or by building it.
func TestActionInstalls(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	j := newJob(t)
	testenv.Program(t, "curl")
	const program = "#!/bin/sh\necho \"$@\" >> ran\necho checks=1 >> \"$GITHUB_OUTPUT\"\n"
	archive := packed(t, "mcp-metatool", program)
	name := "mcp-metatool_1.2.3-rc.1_linux_amd64.tar.gz"
	j.write(map[string]string{
		"releases/v1.2.3-rc.1/" + name:                          archive,
		"releases/v1.2.3-rc.1/checksums.txt":                    fmt.Sprintf("%064d  other.tar.gz\n%x  %s\n", 1, sha256.Sum256([]byte(archive)), name),
		"releases/v9.9.9/checksums.txt":                         fmt.Sprintf("%064d  %s\n", 1, strings.ReplaceAll(name, "1.2.3-rc.1", "9.9.9")),
		"releases/v9.9.9/mcp-metatool_9.9.9_linux_amd64.tar.gz": archive,
	})
	j.env = append(j.env, "SMOKE_RELEASES=file://"+filepath.Join(j.dir, "releases"))
	installed := filepath.Join(j.dir, "temp dir", "mcp-metatool-bin", "mcp-metatool")

	j.run(map[string]string{"version": "v1.2.3-rc.1", "upload": "false"})
	j.wants(false, map[string]string{"binary": installed, "exit-code": "0", "checks": "1"})
	if ran, err := os.ReadFile(filepath.Join(j.dir, "ran")); err != nil || !strings.HasSuffix(string(ran), "-- checks.toml\n") {
		t.Errorf("%v: %s", err, ran)
	}
	for version, says := range map[string]string{
		"v9.9.9":     "does not have the digest that checksums.txt has",
		"v1.0.0":     "checksums.txt of release v1.0.0 cannot be downloaded",
		"latest":     "version is neither source nor a release",
		"v1.2.3/../": "version is neither source nor a release",
		"":           "version is neither source nor a release",
	} {
		j.run(map[string]string{"version": version})
		if !j.failed || !strings.Contains(j.log, says) || j.outputs["install.binary"] != "" || len(j.uses) != 0 {
			t.Errorf("version %q: uses %q\n%s", version, j.uses, j.log)
		}
	}
	j.run(map[string]string{"binary": "no-such-program"})
	if !j.failed || !strings.Contains(j.log, "is not a program") {
		t.Errorf("%s", j.log)
	}

	// The commit of the action: .ci/run builds it; here, go is one that only copies.
	j.write(map[string]string{"bin/go": "#!/bin/sh\n[ -f cmd/mcp-metatool/main.go ] || exit 3\nwhile [ \"$1\" != -o ]; do shift; done\nprintf '%s' \"$PROGRAM\" > \"$2\"; chmod +x \"$2\"\n"})
	if err := os.Chmod(filepath.Join(j.dir, "bin", "go"), 0o700); err != nil {
		t.Fatal(err)
	}
	j.env = append(j.env, "PROGRAM="+program, "PATH="+filepath.Join(j.dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	j.run(map[string]string{"upload": "false"})
	j.wants(false, map[string]string{"binary": installed, "checks": "1"})
	if want := []string{"actions/setup-go " + actionDir + "/../../../go.mod"}; !slices.Equal(j.uses, want) {
		t.Errorf("uses %q, want %q", j.uses, want)
	}
	if _, err := os.Stat(actionDir + "/../../../go.mod"); err != nil {
		t.Error(err)
	}
}

// packed returns a compressed archive with one program.
func packed(t *testing.T, name, content string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write([]byte(content))
	}
	if err = errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestActionIsDescribed checks that the page about the action has all inputs and outputs, that
// no input becomes part of a script, and that each is used.
func TestActionIsDescribed(t *testing.T) {
	a := readAction(t)
	page, err := os.ReadFile("../../docs/action.md")
	if err != nil {
		t.Fatal(err)
	}
	var used strings.Builder
	for _, s := range a.Runs.Steps {
		if strings.Contains(s.Run, "${{") {
			t.Errorf("an expression is part of a script: %s", s.Run)
		}
		if s.Run != "" && s.Shell != "bash" {
			t.Errorf("%s is run by %q", s.Run, s.Shell)
		}
		fmt.Fprintln(&used, s.If, s.Env, s.With, s.Dir)
	}
	for name, in := range a.Inputs {
		shown := "`" + *in.Default + "`"
		if *in.Default == "" {
			shown = ""
		}
		if !strings.Contains(used.String(), "inputs."+name) || in.Description == "" ||
			!regexp.MustCompile("(?m)^\\| `"+name+"` \\| "+regexp.QuoteMeta(shown)+" *\\| .+ \\|$").Match(page) {
			t.Errorf("the input %s is not used, or is not described with its default %q", name, *in.Default)
		}
	}
	for name, out := range a.Outputs {
		if out.Description == "" || !regexp.MustCompile("(?m)^\\| `"+name+"` \\| .+ \\|$").Match(page) {
			t.Errorf("the output %s is not described", name)
		}
	}
	if a.Runs.Using != "composite" || len(a.Inputs) < 10 || len(a.Outputs) < 8 {
		t.Errorf("%+v", a)
	}
}
