package docs

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// listFrom is how many files a package may have before its doc comment must
// list them.
const listFrom = 6

// goFile finds Go files named in a doc comment. Names that follow a slash
// belong to other packages. Only a suffix for a platform may be a pattern:
// machine_*.go.
var goFile = regexp.MustCompile(`(?:^|[^\w/.*-])(\w+(?:_\*)?\.go)\b`)

// TestFileLists checks that each package of more than a few files lists its files in
// its doc comment, and that each list is complete.
func TestFileLists(t *testing.T) {
	packages := map[string]sourceFiles{}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		base := d.Name()
		if base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") && base != ".." {
			return fs.SkipDir
		}
		files, err := readSources(os.DirFS(name))
		if len(files.names) > 0 {
			packages[strings.TrimPrefix(filepath.ToSlash(name), "../")] = files
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 30 {
		t.Fatalf("only %d packages found", len(packages))
	}
	for folder, files := range packages {
		if problem := files.check(); problem != nil {
			t.Errorf("%s: %v", folder, problem)
		}
	}
}

// sourceFiles are the Go files of a package, without its tests, on all
// platforms.
type sourceFiles struct {
	names []string
	doc   string
	docIn string // the file that has the doc comment; the list may leave it out
}

func readSources(folder fs.FS) (sourceFiles, error) {
	var files sourceFiles
	names, err := fs.Glob(folder, "*.go")
	if err != nil {
		return files, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return files, err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return files, err
		}
		files.names = append(files.names, name)
		if f.Doc != nil {
			files.doc, files.docIn = f.Doc.Text(), name
		}
	}
	return files, nil
}

// check compares the files that the doc comment names with those that exist.
func (s sourceFiles) check() error {
	var named []string
	for _, m := range goFile.FindAllStringSubmatch(s.doc, -1) {
		named = append(named, m[1])
	}
	covers := func(pattern, name string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	}
	isNamed := func(name string) bool {
		return slices.ContainsFunc(named, func(pattern string) bool { return covers(pattern, name) })
	}
	if !slices.ContainsFunc(s.names, isNamed) {
		if len(s.names) >= listFrom {
			return fmt.Errorf("%d files, but the doc comment does not list them", len(s.names))
		}
		return nil // no list; names of files in the text are those of other packages
	}
	var problems []error
	for _, name := range s.names {
		if !isNamed(name) && name != s.docIn {
			problems = append(problems, fmt.Errorf("%s is not in the doc comment", name))
		}
	}
	for _, pattern := range named {
		if !slices.ContainsFunc(s.names, func(name string) bool { return covers(pattern, name) }) {
			problems = append(problems, fmt.Errorf("the doc comment names %s, which does not exist", pattern))
		}
	}
	return errors.Join(problems...)
}

func TestFileListCheck(t *testing.T) {
	six := []string{"a.go", "b.go", "c_linux.go", "c_other.go", "d.go", "e.go"}
	for _, test := range []struct {
		name  string
		files sourceFiles
		want  string // in the problem; "" is none
	}{
		{"complete", sourceFiles{names: six, doc: "a.go one\nb.go two (c_*.go: by system)\nd.go, e.go the rest"}, ""},
		{"small without a list", sourceFiles{names: six[:2], doc: "Package x, see y/z.go."}, ""},
		{"no list", sourceFiles{names: six, doc: "Package x."}, "does not list them"},
		{"not named", sourceFiles{names: six[:2], doc: "a.go one"}, "b.go is not in"},
		{"gone", sourceFiles{names: six[:2], doc: "a.go one, b.go two, old.go three"}, "names old.go, which"},
		{"pattern that hides files", sourceFiles{names: []string{"a.go", "http.go", "http_in.go"}, doc: "a.go one; http*.go HTTP"}, "http_in.go is not in"},
		{"file of the comment", sourceFiles{names: six[:2], doc: "b.go two", docIn: "a.go"}, ""},
		{"file of another package", sourceFiles{names: six[:2], doc: "a.go, b.go; see other/gone.go"}, ""},
	} {
		problem := test.files.check()
		if test.want == "" && problem != nil || test.want != "" && (problem == nil || !strings.Contains(problem.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, problem, test.want)
		}
	}
}
