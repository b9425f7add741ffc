package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

const module = "github.com/mcp-metatool/mcp-metatool/"

var (
	packageRow  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
	arrow       = regexp.MustCompile(`(?m)^    ([\w/.-]+) --> ([\w/.-]+)$`)
	participant = regexp.MustCompile(`(?m)^    participant \w+ as (\S+)$`)
	guestCalls  = regexp.MustCompile(`(?m)^    G->>S: ([a-z]+_[a-z]+)`)
)

// TestArchitecture compares the packages and arrows of docs/architecture.md with
// the source.
func TestArchitecture(t *testing.T) {
	text := read(t, "docs/architecture.md")
	imports := importsOfPackages(t)
	row := map[string]int{} // where the package stands in the table
	for i, m := range packageRow.FindAllStringSubmatch(text, -1) {
		row[m[1]] = i + 1
		if _, ok := imports[m[1]]; !ok {
			t.Errorf("the table names %s, which is no package", m[1])
		}
	}
	for from, all := range imports {
		if row[from] == 0 {
			t.Errorf("the table lacks the package %s", from)
			continue
		}
		for _, to := range all {
			if row[to] != 0 && row[to] < row[from] {
				t.Errorf("%s imports %s, which stands above it in the table", from, to)
			}
		}
	}
	arrows := arrow.FindAllStringSubmatch(text, -1)
	if len(arrows) < 15 {
		t.Fatalf("only %d arrows found", len(arrows))
	}
	for _, m := range arrows {
		if !slices.Contains(imports[m[1]], m[2]) {
			t.Errorf("%s does not import %s", m[1], m[2])
		}
	}
}

// TestArchitectureSequences checks that the packages and host functions in the sequence
// diagrams exist.
func TestArchitectureSequences(t *testing.T) {
	text := read(t, "docs/architecture.md")
	imports := importsOfPackages(t)
	peers := []string{"client", "server"}
	for _, m := range participant.FindAllStringSubmatch(text, -1) {
		if _, ok := imports[m[1]]; !ok && !slices.Contains(peers, m[1]) {
			t.Errorf("the participant %s is no package", m[1])
		}
	}
	functions := []string{abi.FuncRequestRead, abi.FuncCallTools, abi.FuncAnswerTape, abi.FuncResponseWrite}
	var called []string
	for _, m := range guestCalls.FindAllStringSubmatch(text, -1) {
		called = append(called, m[1])
	}
	if !slices.Equal(called, functions) {
		t.Errorf("the guest calls %q, want %q", called, functions)
	}
}

// importsOfPackages returns the packages of this module, by folder, with the packages of
// this module that they import: without their tests, and with the files for all
// platforms.
func importsOfPackages(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{"docs": nil} // has nothing but tests
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") && base != ".." {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../")
		imports[folder] = append(imports[folder], nil...)
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if ours, ok := strings.CutPrefix(path, module); ok && !slices.Contains(imports[folder], ours) {
				imports[folder] = append(imports[folder], ours)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(imports) < 30 {
		t.Fatalf("only %d packages found", len(imports))
	}
	return imports
}
