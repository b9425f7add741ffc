package docs

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestActionsArePinned checks that workflows, and the action, use actions by commit, with the
// version in a comment, and that each workflow has its permissions set.
func TestActionsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	commits := map[string]string{}
	for _, name := range []string{
		".github/workflows/ci.yml", ".github/workflows/packages.yml", ".github/workflows/release.yml", ".github/actions/smoke/action.yml",
	} {
		workflow := read(t, name)
		uses := regexp.MustCompile(`(?m)uses: +(.+)$`).FindAllStringSubmatch(workflow, -1)
		if len(uses) < 2 {
			t.Errorf("%s uses only %d actions", name, len(uses))
		}
		for _, m := range uses {
			if strings.HasPrefix(m[1], "./") { // of the same commit
				continue
			}
			if !pinned.MatchString(m[1]) {
				t.Errorf("%s uses %s, which is not OWNER/NAME@COMMIT # VERSION", name, m[1])
				continue
			}
			commit, version, _ := strings.Cut(m[1], " # ")
			action := commit[:strings.Index(commit, "@")] + " " + version
			if other := commits[action]; other != "" && other != commit {
				t.Errorf("%s and %s are the same version", commit, other)
			}
			commits[action] = commit
		}
		if !strings.HasSuffix(name, "/action.yml") && !regexp.MustCompile(`(?m)^permissions:`).MatchString(workflow) {
			t.Errorf("%s does not set its permissions", name)
		}
	}
}

// TestReleaseSystems checks that releases are built for the systems that CI builds for, and
// checked for the same ones.
func TestReleaseSystems(t *testing.T) {
	released := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +- (linux|darwin|windows)_(amd64|arm64)_v[\d.]+$`).FindAllStringSubmatch(read(t, ".goreleaser.yaml"), -1) {
		released[m[1]+"/"+m[2]] = true
	}
	built := map[string]bool{"linux/amd64": true} // where CI runs
	group := regexp.MustCompile(`(?ms)^if in_group platforms; then\n(.*?)^fi`).FindStringSubmatch(read(t, ".ci/run"))
	if group == nil {
		t.Fatal(".ci/run has no group platforms")
	}
	for _, m := range regexp.MustCompile(`cross (\w+) (\w+)`).FindAllStringSubmatch(group[1], -1) {
		built[m[1]+"/"+m[2]] = true
	}
	checked := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t\{"(\w+)", "(\w+)", is`).FindAllStringSubmatch(read(t, "scripts/releasebuild/verify/archive.go"), -1) {
		checked[m[1]+"/"+m[2]] = true
	}
	if len(released) != 5 || !maps.Equal(released, built) || !maps.Equal(released, checked) {
		t.Errorf("released are %q, built by .ci/run %q, checked by scripts/release %q",
			slices.Sorted(maps.Keys(released)), slices.Sorted(maps.Keys(built)), slices.Sorted(maps.Keys(checked)))
	}
}

// TestFormula checks that the Homebrew formula has each archive that is for macOS or Linux, in
// the block for its system.
func TestFormula(t *testing.T) {
	formula := read(t, "scripts/releasebuild/homebrew/template.rb")
	for block, archive := range map[string]string{
		"macos arm": "darwin_arm64", "macos intel": "darwin_amd64", "linux arm": "linux_arm64", "linux intel": "linux_amd64",
	} {
		system, cpu, _ := strings.Cut(block, " ")
		if !regexp.MustCompile(`(?s)on_` + system + ` do\n(?:[^\n]*\n){0,4}    on_` + cpu + ` do\n +url "[^"]+/vVERSION/mcp-metatool_VERSION_` + archive + `\.tar\.gz"\n +sha256 "DIGEST"\n`).MatchString(formula) {
			t.Errorf("the formula does not have %s for %s", archive, block)
		}
	}
	if n := strings.Count(formula, "url "); n != 4 {
		t.Errorf("the formula has %d archives", n)
	}
}

// TestImageIsTheProgram checks that the image is built with the flags of the archives, for the
// systems of Linux that they are for.
func TestImageIsTheProgram(t *testing.T) {
	archives, image := read(t, ".goreleaser.yaml"), read(t, ".ko.yaml")
	image = strings.ReplaceAll(image, "{{ .Env.VERSION }}", "{{ .Version }}")
	list := func(text, key string) string {
		m := regexp.MustCompile(`(?m)^ +` + key + `:\n((?: +(?:- |#).+\n)+)`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no list %s", key)
		}
		var items []string
		for line := range strings.Lines(m[1]) {
			if item := strings.TrimSpace(line); strings.HasPrefix(item, "- ") {
				items = append(items, item)
			}
		}
		return strings.Join(items, "\n")
	}
	for _, key := range []string{"env", "flags", "ldflags"} {
		if a, i := list(archives, key), list(image, key); a != i {
			t.Errorf("%s of the archives:\n%s\nof the image:\n%s", key, a, i)
		}
	}
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		if !strings.Contains(image, "\n  - "+platform+"\n") {
			t.Errorf("there is no image for %s", platform)
		}
	}
}

// TestReleaseTools checks that each tool of a release has an exact version.
func TestReleaseTools(t *testing.T) {
	tools := 0
	for line := range strings.Lines(read(t, "scripts/releasebuild/pins")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		tools++
		if !regexp.MustCompile(`^[\w./-]+@v\d+\.\d+\.\d+ \.(/cmd/\w+)?\n$`).MatchString(line) {
			t.Errorf("%q is not MODULE@VERSION PACKAGE", line)
		}
	}
	m := regexp.MustCompile(`actionlint=(\S+)/cmd/actionlint@(\S+)`).FindStringSubmatch(read(t, ".ci/run"))
	if m == nil || !strings.Contains(read(t, "scripts/releasebuild/pins"), m[1]+"@"+m[2]+" ") {
		t.Errorf(".ci/run has another actionlint: %q", m)
	}
	if tools < 6 {
		t.Errorf("only %d tools", tools)
	}
}
