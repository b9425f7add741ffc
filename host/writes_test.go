package host_test

import (
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// writers are the functions that replace files without making them durable, with their
// package; methods of os.Root begin with a dot.
var writers = []string{
	"os.Rename", "os.CreateTemp", "os.WriteFile", "io/ioutil.WriteFile", "io/ioutil.TempFile",
	"syscall.Rename", "golang.org/x/sys/unix.Rename", ".Rename", ".WriteFile",
}

// mayWrite lists the places that use writers, by file and function, with the reason.
// All others use Write, WriteIn or WriteTemp of package regular.
var mayWrite = map[string]string{
	"tools/regular/write_other.go Rename .Rename":   "the rename of all others",
	"tools/regular/write_windows.go Rename .Rename": "likewise",

	"cmd/mcp-metatool/demo/demo.go demoConfig os.WriteFile":     "a new file in a temporary folder",
	"host/smoke/script.go writeTool os.WriteFile":               "likewise",
	"host/script/sandbox/skeleton.go publish os.Rename":         "a large file that wazero has written and synced, in a cache with checksums",
	"host/script/sandbox/code_linux.go writeCode os.CreateTemp": "a large file that is compared with memory before it is used",
	"host/script/sandbox/code_linux.go writeCode os.Rename":     "likewise",
	"host/script/sandbox/skeleton.go CleanCache .Rename":        "a folder that is removed at once",
}

// TestFilesAreReplacedByPackageRegular checks that the product replaces files only in a way
// that does not lose content when the machine stops.
func TestFilesAreReplacedByPackageRegular(t *testing.T) {
	t.Parallel()
	product := sources(t).product()
	roots := map[string]map[string]bool{} // by package
	for name, file := range product {
		pkg := path.Dir(name)
		if roots[pkg] == nil {
			roots[pkg] = map[string]bool{}
		}
		addRoots(file, roots[pkg])
	}
	used := map[string]bool{}
	for name, file := range product {
		for _, at := range usesIn(name, file, writers, roots[path.Dir(name)]) {
			if used[at] = true; mayWrite[at] == "" {
				t.Errorf("%s: replace files with package tools/regular, or say here why not", at)
			}
		}
	}
	for at := range mayWrite {
		if !used[at] {
			t.Errorf("%s: this call no longer exists", at)
		}
	}
}

func TestWritersAreFound(t *testing.T) {
	t.Parallel()
	const text = `package p
import other "os"
type s struct { top *other.Root }
func f(s *s, x y) { other.Rename("a", "b"); s.top.Rename("a", "b"); x.Rename("a", "b"); other.Remove("a") }
func g() { other.CreateTemp("", ""); f := other.WriteFile; use(f) }
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	roots := map[string]bool{}
	addRoots(file, roots)
	want := []string{"p.go f .Rename", "p.go f os.Rename", "p.go g os.CreateTemp", "p.go g os.WriteFile"}
	if got := usesIn("p.go", file, writers, roots); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, strings.Join(want, ", "))
	}
}
