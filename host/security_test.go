package host

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

func readDocument(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// TestSecurityDocument: the files and tests that docs/security.md names exist.
func TestSecurityDocument(t *testing.T) {
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

// testNames are those of all tests there are.
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

// TestSecurityDocumentHasTheLimits compares the table of limits with the code.
func TestSecurityDocumentHasTheLimits(t *testing.T) {
	text := readDocument(t, "security.md")
	size := func(n uint64) string { return strings.Replace(units.FormatSize(n), "MiB", " MB", 1) }
	for _, row := range []struct{ limit, value, setting string }{
		{"memory", size(config.DefaultMaxMemory), "max_memory"},
		{"fuel", fmt.Sprint(config.DefaultMaxFuel), "max_fuel"},
		{"time", fmt.Sprintf("%d s", int(config.DefaultTimeout.Seconds())), "timeout"},
		{"calls", fmt.Sprint(config.DefaultMaxCalls), "max_calls"},
		{"arguments", size(config.DefaultMaxArguments), "max_arguments"},
		{"answer", size(config.DefaultMaxAnswer), "max_answer"},
		{"result", size(config.DefaultMaxResult), "max_result"},
		{"queue", fmt.Sprint(config.DefaultMaxQueued), "max_queued"},
		{abi.LimitRecursion, fmt.Sprint(abi.MaxFrames), ""},
		{abi.LimitDepth, fmt.Sprint(abi.MaxDepth), ""},
	} {
		setting := "fixed"
		if row.setting != "" {
			setting = "`" + row.setting + "`"
		}
		want := regexp.MustCompile("(?m)^\\| `" + row.limit + "`: .* \\| " + row.value + " \\| " + setting + " \\|$")
		if !want.MatchString(text) {
			t.Errorf("no row %s", want)
		}
	}
	if logs := "| logs: what is over is dropped, with a note | " + size(config.DefaultMaxLogs) + " | `max_logs` |"; !strings.Contains(text, logs) {
		t.Errorf("no row %s", logs)
	}
}

// TestSecurityCommands runs the commands of docs/security.md.
func TestSecurityCommands(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(readDocument(t, "security.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("no commands")
	}
	for _, b := range blocks {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", b[1])
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", b[1], err, out)
		}
	}
}
