// Package docs tests the documentation: that its links lead somewhere, and that
// the files, packages and tests that it names exist.
package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns the documents for people, as slash-separated paths in the
// repository.
func pages(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"../*.md", "*.md", "*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			names = append(names, path.Join("docs", filepath.ToSlash(name)))
		}
	}
	for _, name := range []string{"README.md", "docs/glossary.md"} {
		if !slices.Contains(names, name) {
			t.Fatalf("%s is not among the %d pages found", name, len(names))
		}
	}
	return names
}

// read returns a file of the repository as text with LF line ends.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(inRepository(name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// inRepository turns a path in the repository into one that can be opened.
func inRepository(name string) string { return filepath.Join("..", filepath.FromSlash(name)) }

func exists(name string) bool {
	_, err := os.Stat(inRepository(name))
	return err == nil
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// TestLinks follows the links between pages, and to their sections.
func TestLinks(t *testing.T) {
	followed := 0
	for _, page := range pages(t) {
		text := quoted.ReplaceAllString(codeBlock.ReplaceAllString(read(t, page), ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, section, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			followed++
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if !exists(file) {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			} else if section != "" && !slices.Contains(anchors(t, file), section) {
				t.Errorf("%s links to %s, but %s has no such section", page, m[1], file)
			}
		}
	}
	if followed < 20 {
		t.Errorf("only %d links found", followed)
	}
}

// anchors returns the URL fragments of the sections of a page, formed as GitHub does.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	var names []string
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(read(t, page), ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		names = append(names, name)
	}
	return names
}

var (
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	filePath = regexp.MustCompile(`^(?:abi|cmd|docs|guest|host|scripts|tools|\.ci|\.github)(?:/[\w.*-]+)+/?$`)
	testName = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark|Example)[A-Z]\w+$`)
)

// TestNamesInPages checks that the files, packages and tests that pages name in
// backquotes exist. A name may be a pattern: host/clients/http*.go.
func TestNamesInPages(t *testing.T) {
	tests := testNames(t)
	files := 0
	for _, page := range pages(t) {
		for _, m := range quoted.FindAllStringSubmatch(codeBlock.ReplaceAllString(read(t, page), ""), -1) {
			switch name := m[1]; {
			case isMethod(name):
			case filePath.MatchString(name):
				files++
				if found, err := filepath.Glob(inRepository(name)); err != nil || len(found) == 0 {
					t.Errorf("%s names %s, which does not exist", page, name)
				}
			case testName.MatchString(name):
				if !tests[name] {
					t.Errorf("%s names %s, which is not a test", page, name)
				}
			}
		}
	}
	if files < 20 {
		t.Errorf("only %d files found in pages", files)
	}
}

// isMethod reports whether a name is a method of MCP and not a path in the folder tools.
func isMethod(name string) bool { return name == "tools/call" || name == "tools/list" }

// testNames returns the names of all tests, fuzz tests, examples and benchmarks.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w+)\(`)
	names := map[string]bool{}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, f := range function.FindAllStringSubmatch(string(text), -1) {
			names[f[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 100 {
		t.Fatalf("only %d tests found", len(names))
	}
	return names
}

// TestChangelog checks that the changelog has the form of keepachangelog.com 1.1.0.
func TestChangelog(t *testing.T) {
	text := read(t, "CHANGELOG.md")
	versions := regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(text, -1)
	if len(versions) == 0 || versions[0][1] != "[Unreleased]" {
		t.Fatalf("the first section is not [Unreleased]: %q", versions)
	}
	for _, v := range versions[1:] {
		if !regexp.MustCompile(`^\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d$`).MatchString(v[1]) {
			t.Errorf("%q is not a version with a date", v[1])
		}
	}
	kinds := []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
	for _, m := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(kinds, m[1]) {
			t.Errorf("%q is not a kind of change; the kinds are %q", m[1], kinds)
		}
	}
}

// TestIndex checks that the index of the documentation has every page.
func TestIndex(t *testing.T) {
	const index = "docs/README.md"
	var linked []string
	for _, m := range link.FindAllStringSubmatch(read(t, index), -1) {
		linked = append(linked, path.Join("docs", m[1]))
	}
	for _, page := range pages(t) {
		if page != index && strings.HasPrefix(page, "docs/") && !slices.Contains(linked, page) {
			t.Errorf("%s does not link to %s", index, page)
		}
	}
}
