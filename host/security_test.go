package host

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
)

func readDocument(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// TestSecurityDocument checks that the files and tests that docs/security.md names
// exist.
func TestSecurityDocument(t *testing.T) {
	t.Parallel()
	text := readDocument(t, "security.md")
	files := regexp.MustCompile("`([a-z]+(?:/[a-z_.]+)+)`").FindAllStringSubmatch(text, -1)
	if len(files) < 15 {
		t.Fatalf("only %d files are named", len(files))
	}
	for _, f := range files {
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(f[1]))); err != nil {
			t.Errorf("%s: %v", f[1], err)
		}
	}
	exist := testNames(t)
	tests := regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z]+)`").FindAllStringSubmatch(text, -1)
	if len(tests) < 25 {
		t.Fatalf("only %d tests are named", len(tests))
	}
	for _, name := range tests {
		if !exist[name[1]] {
			t.Errorf("there is no %s", name[1])
		}
	}
	configuration := readDocument(t, "configuration.md")
	for _, link := range regexp.MustCompile(`\(configuration\.md#([a-z-]+)\)`).FindAllStringSubmatch(text, -1) {
		title := regexp.MustCompile(`(?im)^#+ ` + strings.ReplaceAll(link[1], "-", " ") + `$`)
		if !title.MatchString(configuration) {
			t.Errorf("configuration.md has no section %q", link[1])
		}
	}
}

// testNames returns the names of all tests.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	names := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, f := range function.FindAllStringSubmatch(string(text), -1) {
			names[f[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestSecurityDocumentHasTheLimits checks that the table of limits has a row for every
// limit that ends a run or a call of a script.
func TestSecurityDocumentHasTheLimits(t *testing.T) {
	t.Parallel()
	text := readDocument(t, "security.md")
	for _, l := range limits.All {
		if l.Class == "" && l != limits.Logs {
			continue
		}
		setting := "fixed"
		if l.Key != "" {
			setting = "`" + l.Key + "`"
		}
		value := l.Format(l.Default)
		switch {
		case l.Derived != "":
			value = ".*" + l.Derived
		case l.Unit == limits.Bytes:
			value = strings.Replace(value, "MiB", " MB", 1)
		case l.Unit == limits.Duration:
			value = strings.Replace(value, "s", " s", 1)
		}
		want := regexp.MustCompile("(?m)^\\| `" + l.Name + "`: .* \\| " + value + " \\| " + setting + " \\|$")
		if !want.MatchString(text) {
			t.Errorf("docs/security.md has no row %s", want)
		}
		if class := regexp.MustCompile("(?m)^\\| `" + l.Name + "`: .*class `" + string(l.Class) + "`"); l.Class != "" && l.Class != abi.ErrResource && !class.MatchString(text) {
			t.Errorf("docs/security.md: the row of %s does not say that its class is %s", l.Name, l.Class)
		}
	}
}

// TestSecurityCommands checks that the commands of docs/security.md exist, and that CI runs
// each of them, as the document says. They take too long for every run of the tests.
func TestSecurityCommands(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(readDocument(t, "security.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("no commands")
	}
	ci, err := os.ReadFile("../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile(`(?m)^\s*step "[^"]+" (.*)$`).FindAllStringSubmatch(string(ci), -1)
	for _, b := range blocks {
		for line := range strings.Lines(b[1]) {
			command := strings.TrimSpace(line)
			if !slices.ContainsFunc(steps, func(s []string) bool { return s[1] == command }) {
				t.Errorf("%s: not a step of .ci/run", command)
			}
			if info, err := os.Stat(filepath.Join("..", strings.Fields(command)[0])); err != nil || runtime.GOOS != "windows" && info.Mode()&0o111 == 0 {
				t.Errorf("%s: cannot be run: %v", command, err)
			}
		}
	}
}
